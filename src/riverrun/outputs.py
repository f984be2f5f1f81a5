"""What an output is, and what delivers it: the base classes of every sink, ours and other people's.

A sink is a description: a frozen dataclass that says where results go, and what is promised of
them. Its destination is what delivers, in tasks and on the driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import pyarrow as pa

from riverrun.config import Calls
from riverrun.edges import Edge
from riverrun.formats import JSON, Format
from riverrun.schema import Schema
from riverrun.versions import Version

Delivery = Literal["exactly once", "at least once"]
"""What an application asks of Kafka topics."""

Guarantee = Literal["exactly once", "at least once", "shown"]
"""What a sink promises of each row. What is shown may be cut short, and come again."""

Need = Literal["PostgreSQL", "one machine", "views"]
"""Of its surroundings: the settings' database; Spark in local mode; one of them, as for views."""


@dataclass(frozen=True)
class Places:
    """What destinations need to know of their surroundings."""

    kafka: tuple[tuple[str, str], ...] = field(repr=False)
    """Settings of librdkafka."""
    delivery: Delivery
    postgres: str | None = field(default=None, repr=False)
    """The address of PostgreSQL, for programs that need it."""
    compaction_lag: int = 86_400_000
    """Milliseconds that records stay in topics of tables that are made."""
    valkey: str | None = field(default=None, repr=False)
    """The address of Valkey or Redis, if the settings name one."""
    home: str = ""
    """The home of the settings."""
    views: Literal["sqlite", "postgres"] = "sqlite"
    """Where views are kept."""
    writer: Calls = "quickest"
    """How records are handed to Kafka's client."""


class Sink(ABC):
    """Where results go. Derive a frozen dataclass: it is compared, kept as text, and sent around.

    What is noted of an output in a checkpoint is the sink's `repr`; secrets are kept out of it
    with `field(repr=False)`.
    """

    if TYPE_CHECKING:  # a field or a property; one that stood here would be a field's default

        @property
        def name(self) -> str:
            """Tells the outputs of a program apart."""

        @property
        def text(self) -> str:
            """For people: what it is and where, without secrets."""

    @abstractmethod
    def guarantee(self, delivery: Delivery) -> Guarantee:
        """What is promised of each row, in an application with this delivery to Kafka."""

    @abstractmethod
    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        """A ProgramError for columns that the sink cannot hold.

        `columns.visible` are written; the others are what Kafka knows of a record.
        """

    @abstractmethod
    def destination(self, places: Places) -> Destination | None:
        """What delivers; None if the driver shows the rows. Connections are made later: in it."""

    def place(self) -> Hashable:
        """Sinks that have the same place share a destination, which is made of any of them. Unless
        a sink says otherwise, each has its own. A place names its kind: it is or has a class."""
        return self

    def named_after(self, origin: str) -> Sink:
        """The sink as it stands behind a stream or table of that name: most do not depend on it."""
        return self

    def beside(self, version: Version) -> Sink | None:
        """A place of its own for a version that runs beside the current one. None: others are told
        something, or might be, and are not told by two."""
        return None

    def kafka_topic(self) -> str | None:
        """The topic that it writes, if it is one: a program may read it again."""
        return None

    def written_in(self) -> Format:
        """How records are written, where it writes records: JSON unless it says otherwise."""
        return JSON

    def carried(self) -> Mapping[str, str]:
        """Columns that the destination is given beside the visible ones: by their new name."""
        return {}

    def owns(self) -> str | None:
        """The folder that no other output may be written to, if there is one."""
        return None

    def needs(self) -> frozenset[Need]:
        """What it needs of its surroundings: mostly nothing."""
        return frozenset()

    def reads(self) -> tuple[str, ...]:
        """Columns that it looks into: most write their values as they are."""
        return ()

    def followed(self) -> bool:
        """Whether readers ask which records its rows hold: see `Destination.note`."""
        return False


@dataclass(frozen=True)
class OutputSpec:
    """A named result: rows of a stream, or changes of a table."""

    name: str
    sink: Sink
    schema: Schema
    key: tuple[str, ...]
    table: bool

    @property
    def format(self) -> Format:
        return self.sink.written_in()

    @property
    def edge(self) -> Edge:
        return Edge("out", self.name)


Rows = tuple[OutputSpec, pa.Table]
"""An output with some of its rows.

Beside the columns of its schema, a row of a table has `__op` (1: it is there now, -1: it no longer
is) and `__revision` (0 for the first row of a key); one of a stream has `__at`, `__pos`, `__sub`:
its time, and its place among all rows.
"""


@dataclass(frozen=True)
class Part:
    """What one write task holds of one batch: the same, byte by byte, when it is run again."""

    application: str
    checkpoint: str
    """The id of the checkpoint: progress is kept under it, never under a name."""
    run: int
    """Later runs of an application have higher numbers, whatever their checkpoint."""
    batch: int
    task: int
    tick: int
    """The batch's logged time in microseconds: never lower than that of the batch before."""
    keep_written: bool = False
    """Whether results that were written before stay, though they are other ones now."""


@dataclass(frozen=True)
class Ways:
    """How records get to an output."""

    topics: tuple[str, ...]
    """All whose records may change it, whatever is between."""
    own: tuple[str, ...]
    """Those of them that the program writes itself."""
    hops: int
    """How many of these a record passes at most."""
    steps: tuple[str, ...]
    """Those with state that a record passes."""


@dataclass(frozen=True)
class Done:
    """A batch of which everything is written."""

    application: str
    checkpoint: str
    batch: int
    tick: int
    ends: Mapping[str, int]
    """The next offset, where it read anything; of the first batch also where it read nothing."""
    own: Mapping[str, int]
    """Where the topics that the program writes itself end, by partition."""
    clocks: Mapping[str, int]
    highs: Mapping[str, int]
    """The highest event time that it read of each partition."""
    closes: Mapping[str, int]
    """The clock at which a step will have given all that it keeps now, of those that hold rows."""
    aside: Mapping[str, str]
    """Why records were late or set aside, by `topic/partition/offset STEP`."""

    @staticmethod
    def before_all(part: Part) -> Done:
        """Of what is written before the first batch: nothing is read."""
        return Done(
            part.application, part.checkpoint, part.batch, part.tick,
            ends={}, own={}, clocks={}, highs={}, closes={}, aside={},
        )  # fmt: skip


@dataclass(frozen=True)
class Identity:
    """Under which names a run keeps its progress: see `Part`."""

    checkpoint: str
    run: int
    keep_written: bool = False


@dataclass(frozen=True)
class Owner:
    """Whose progress is meant."""

    application: str
    checkpoint: str  # its id


@dataclass(frozen=True)
class Standing:
    """What stands at a destination of one output, all as of one moment."""

    batch: int | None
    """The last batch that has written anything there, -1 before the first; None where that is not
    noted with the rows."""
    rows: Iterator[pa.Table]
    """Of a stream all rows, of a table those that are there now. Columns are the output's, in any
    type that DuckDB casts to the declared one: texts will do, and JSON for what is nested."""
    whole: bool = False
    """Whether a batch is there as a whole or not at all; else tasks write their parts of it one
    after the other."""


class Evaluator(Protocol):
    """Runs DuckDB's SQL over Arrow tables: `run("SELECT count(*) FROM rows", rows=table)`."""

    def run(self, query: str, **tables: pa.Table) -> pa.Table: ...


@dataclass(frozen=True)
class Swapped:
    """What had to be changed of the rows that stood there."""

    added: int
    changed: int
    removed: int


class Renewal(ABC):
    """A table made anew beside the one that stands. If it is left before the swap, by whatever end
    of the process, nothing of it remains."""

    whole: ClassVar[bool] = False
    """As of `Standing`."""

    @abstractmethod
    def change(self, rows: pa.Table, evaluator: Evaluator) -> None:
        """Changes, as `Destination.deliver` takes them: the first make the table."""

    @abstractmethod
    def held(self) -> AbstractContextManager[int | None]:
        """Writers wait meanwhile. Gives the last batch that has written anything: see `Standing`.
        Left without a swap, all is as it was."""

    @abstractmethod
    def swap(self, tick: int) -> Swapped | None:
        """While writers wait: the new rows for the old ones, in one step for every reader. `tick`
        is that of the last batch that they hold. None where writers cannot wait, and one was
        quicker: nothing has changed."""


class Destination(ABC):
    """One place that takes some of a program's outputs: a Kafka cluster, a database, a folder."""

    @abstractmethod
    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        """On the driver, before Spark starts: makes what is missing; what does not fit is an
        error, before anything is written."""

    @abstractmethod
    def take_over(self, application: str, run: int) -> None:
        """On the driver, before the first batch: earlier runs may write no more.

        At least once, there is nothing to do.
        """

    def announce(  # noqa: B027 - most have nobody who asks
        self, application: str, outputs: Sequence[OutputSpec], ways: Mapping[str, Ways]
    ) -> None:
        """On the driver, before the first batch: how records get to each output, by its name."""

    def refused(
        self, output: OutputSpec, rows: pa.Table, evaluator: Evaluator
    ) -> Mapping[int, str]:
        """In a task: rows of a stream that it would not take, by their number, with the cause.
        They are set aside; most take whatever fits their columns."""
        return {}

    def start_over(  # noqa: B027 - what most have written stays
        self, part: Part, outputs: Sequence[OutputSpec], evaluator: Evaluator
    ) -> None:
        """On the driver, before the first batch of a checkpoint: the place to take away what an
        earlier one has left. `part` is that before the first."""

    def begin(self, part: Part) -> None:  # noqa: B027 - most need no time to get ready
        """In a task, before its rows are computed: a chance to get ready meanwhile."""

    @abstractmethod
    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> Any:
        """In a task: every output of this destination that the part has rows for.

        It is called again for the same part after any failure, maybe in another process, maybe
        while the first call still runs. The receipt that it returns is given to `finish`.
        """

    def compare(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:  # noqa: B027
        """In a task: an error if the part is there with other rows, which may be none."""

    @abstractmethod
    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        """On the driver, when all tasks have delivered, and before Spark commits the batch. It is
        called again for the same batch when the driver dies in between.

        A task without rows has None for a receipt. Where tasks do it all, there is nothing to do.
        """

    def note(self, done: Done) -> None:  # noqa: B027 - most have nobody who asks
        """On the driver, where a sink of its is `followed`: after all destinations have finished a
        batch, and before Spark commits it. Like `finish` it may be called again."""

    def standing(self, output: OutputSpec, owner: Owner) -> AbstractContextManager[Standing] | None:
        """For `riverrun verify`: what is there, while the job goes on. None: it cannot be read
        back, as of those who only pass it on."""
        return None

    def renewal(self, output: OutputSpec, owner: Owner) -> AbstractContextManager[Renewal] | None:
        """For `riverrun rebuild`: a place beside the table, to make it anew. None: it has none."""
        return None

    def handed_over(self, source: OutputSpec, place: OutputSpec, owner: Owner) -> Swapped | None:
        """For `riverrun promote`: `place` gets the rows of `source`. None: `renewal` does it."""
        return None

    def close(self) -> None:  # noqa: B027 - most hold nothing open
        """Gives back what it holds open. A process that ends does not ask."""


_OPENED: dict[tuple[Hashable, Places], Destination | None] = {}  # of this process


def destination_of(sink: Sink, places: Places) -> Destination | None:
    """One destination for each place lives as long as its process."""
    at = (sink.place(), places)
    if at not in _OPENED:
        _OPENED[at] = sink.destination(places)
    return _OPENED[at]


def together(found: Iterable[Rows]) -> Iterator[Rows]:
    """Each output once, with all its rows: a union comes by several ways."""
    grouped: dict[OutputSpec, list[pa.Table]] = {}
    for output, rows in found:
        grouped.setdefault(output, []).append(rows)
    for output, tables in grouped.items():
        yield output, pa.concat_tables(tables)


def by_destination(found: Iterable[Rows], places: Places) -> dict[Destination, list[Rows]]:
    """Outputs with their rows, grouped; each destination gets all that is for it at once."""
    grouped: dict[Destination, list[Rows]] = {}
    for output, rows in found:
        if destination := destination_of(output.sink, places):
            grouped.setdefault(destination, []).append((output, rows))
    return grouped


def destinations(
    outputs: Iterable[OutputSpec], places: Places
) -> dict[Destination, list[OutputSpec]]:
    """All destinations of a program, each with its outputs."""
    grouped: dict[Destination, list[OutputSpec]] = {}
    for output in outputs:
        if destination := destination_of(output.sink, places):
            grouped.setdefault(destination, []).append(output)
    return grouped
