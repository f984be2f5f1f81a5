"""What an operator is: all that is known of one kind of step with state, in one class.

Its fields are what the program says. The plan asks how rows get in and what leaves; pages run its
kernel; a checkpoint asks what its state depends on. Nothing has a default here: an operator that
does not answer a question cannot be made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from riverrun.columns import AT, CHANGE, PLACE, SLOT, TIME, RowForm
from riverrun.control import Command
from riverrun.durations import BEGINNING, END
from riverrun.edges import Edge
from riverrun.errors import Location
from riverrun.kernels.functions import Function
from riverrun.kernels.kept import Outside
from riverrun.kernels.letters import OnError, Verdict
from riverrun.kernels.state import SegmentList
from riverrun.kernels.uses import Followed
from riverrun.outputs import Need
from riverrun.partitions import Partition
from riverrun.schema import Schema, column_list


@dataclass(frozen=True, kw_only=True)
class Input:
    """One of the ways into a step."""

    port: str = ""
    """Tells the ways apart; the first has none."""
    word: str = "from"
    """What `describe` calls it."""
    takes: RowForm
    late: bool
    """Whether rows can come too late; those that do leave by an edge of their own."""
    moves_clock: bool = True
    """Whether the step's time waits for these rows."""
    awaited: bool = False
    """Whether rows of the other inputs wait until this one's time has passed them."""
    loaded_first: bool = False
    """Whether topics of the other inputs are held until those of this one are loaded."""
    stays: bool = False
    """Whether rows are taken in whatever page they are in, instead of by their key."""
    everywhere: bool = False
    """Whether every row goes to every page."""
    late_alert: float | None = None
    """The share of late rows beyond which there is an alert."""


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """What rows are when they leave a step."""

    form: RowForm
    key: tuple[str, ...]
    """The columns of the key that they are written with."""
    delay: int = 0
    """Microseconds that they may be behind the step's clock."""
    at_tick: bool = False
    """Whether their time is that of the batch."""
    scattered: bool = False
    """Whether changes of one key may leave from several pages."""


@dataclass(frozen=True)
class Entry:
    """How rows get in: queries over the relation that is given."""

    query: str
    """May hold CLOSED, which stands for the last slot that is closed."""
    combined: str | None = None
    """The shorter one for rows of which none can be late."""
    patience: int = 0
    """Microseconds that rows may be behind the clock without being late."""

    @classmethod
    def of_facts(cls, columns: tuple[str, ...], rows: str) -> Entry:
        """Whole rows, with their time as a number."""
        chosen = column_list((*columns, *PLACE))
        return cls(f"SELECT {chosen}, epoch_us({AT}) AS {TIME} FROM {rows}")

    @classmethod
    def of_changes(cls, columns: tuple[str, ...], rows: str, *more: str, slot: str = "0") -> Entry:
        """Changes of a table, and more columns in SQL."""
        chosen = ", ".join([column_list((*columns, *CHANGE)), *more, f"{slot}::BIGINT AS {SLOT}"])
        return cls(f"SELECT {chosen} FROM {rows}")


NO_SLOT = f"0::BIGINT AS {SLOT}"
"""Where time plays no part in how rows are kept."""


@dataclass(frozen=True)
class Words:
    """What a step does, for people and for programs."""

    lines: list[tuple[str, str]]
    box: list[str]
    """In a flowchart."""
    data: Mapping[str, Any]

    @classmethod
    def of(cls, *lines: tuple[str, str]) -> Words:
        return cls(list(lines), [f"{name} {text}" for name, text in lines], dict(lines))


@dataclass(frozen=True)
class Batch:
    """Rows are judged by the clock as it stood `before` them; then time goes on to `after`."""

    inputs: tuple[pl.DataFrame | None, ...]
    """The rows of each way in, None where there are none."""
    before: int
    after: int
    tick: int = 0
    tick_before: int = BEGINNING
    release_before: int = BEGINNING
    release: int = END
    """How far an awaited input is known: rows before that need not wait for it."""
    topics: tuple[str, ...] = ()
    """What is read, by the number that positions hold."""
    pages: int = 1
    commands: tuple[Command, ...] = ()
    """What the control log has for this step, in its order."""
    functions: tuple[Function, ...] = ()
    """The program's own, that conditions may call."""
    behind: tuple[Partition, ...] = ()
    """Partitions that hold records beyond this batch."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How many each topic has."""
    outside: Outside = field(default_factory=Outside)
    """What is asked of databases: `outside.once(…)` gives a batch that is run again the same."""

    @property
    def rows(self) -> pl.DataFrame | None:
        return self.inputs[0]

    @property
    def right(self) -> pl.DataFrame | None:
        """The rows of the second way in."""
        return self.inputs[1]


@dataclass
class Result:
    changes: list[pl.DataFrame] = field(default_factory=list)
    streams: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    """Facts, by the name of the output."""
    late: dict[str, pl.DataFrame] = field(default_factory=dict)
    """Rows that came too late, as they entered, by the port that they came by."""
    failed: Verdict = field(default_factory=Verdict)
    """Rows that could not be processed."""
    doubt: str | None = None
    """What looks wrong in this batch and is no failure, for people: one of the counted."""
    waiting: bool | None = None
    """Whether something is to come when time goes on; None: as the step's rows tell."""
    answers: list[Command] = field(default_factory=list)
    """What is replied to commands, for the control log: the same on all pages."""
    replies: list[bytes] = field(default_factory=list)
    """What is told to those who look on, in the topic of answers."""


@dataclass
class StepState:
    """The lists of rows that a step keeps in a page, opened when they are needed."""

    keys: tuple[str, ...]
    load: Callable[[str, SegmentList], None]
    lists: dict[str, SegmentList] = field(default_factory=dict)

    def rows(
        self, name: str = "", within_key: tuple[str, ...] | None = (), *, together: bool = False
    ) -> SegmentList:
        if name not in self.lists:
            self.lists[name] = SegmentList(self.keys, within_key=within_key, together=together)
            self.load(name, self.lists[name])
        return self.lists[name]

    def waiting(self) -> int:
        """How many rows go on later: operators keep them in a list of this name."""
        return self.lists["waiting"].living() if "waiting" in self.lists else 0

    def last_time(self) -> int:
        """When the last row that is kept ends."""
        kept = (rows.last_time() for rows in self.lists.values())
        return max(kept, default=BEGINNING)


Standing = Callable[[StepState, int], pl.DataFrame | None]
"""The rows of a step's table in a page, with the columns of its schema, from what is in state at a
clock; None if there are none."""


@dataclass(frozen=True, kw_only=True)
class Operator(Followed, ABC):
    """One step with state: what every one has."""

    name: str
    """State is kept under it: it outlives the code."""
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    schema: Schema
    """Of what leaves, or, where there are several outputs, of what enters."""
    at: Location
    on_error: OnError

    kind: ClassVar[str]
    """The word for it in checkpoints."""
    one_writer: ClassVar[bool] = False
    """Whether one task writes all of a batch, so that each destination takes it at once."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Input, ...]: ...

    @property
    @abstractmethod
    def leaving(self) -> Leaving: ...

    @abstractmethod
    def enter(self, number: int, rows: str) -> Entry:
        """How rows get in by the input of this number. `rows` is a relation."""

    @abstractmethod
    def words(self) -> Words:
        """What it does, beside its keys."""

    @abstractmethod
    def key_words(self) -> list[str]: ...

    @abstractmethod
    def frozen(self) -> dict[str, Any]:
        """What the rows in state depend on: none of it may change while they are kept."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What may change while state stays."""

    @abstractmethod
    def last_closed(self, clock: int) -> int:
        """Rows in slots, or of times, up to this one are late at the clock."""

    @abstractmethod
    def done(self, clock: int) -> int:
        """Rows in state with a time up to this one have nothing more to come of them."""

    def closes(self, last: int) -> int:
        """The clock at which rows in state up to this time have given what they give."""
        return last + 1

    @property
    def holds(self) -> bool:
        """Whether what comes of a row may wait until the clock has passed it."""
        return False

    @abstractmethod
    def prepared(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that have entered, as they travel."""

    @abstractmethod
    def advance(self, state: StepState, batch: Batch) -> Result:
        """The kernel: takes a page through one batch."""

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of state that the program kept before it was changed, as they are kept now."""
        return rows

    def grows(self, tables: list[str]) -> str | None:
        """What its state grows with, if it has no end. `tables` are those that feed it and grow."""
        return f"the rows of {', '.join(tables)}" if tables else None

    def leaves_rows(self) -> bool:
        """Whether its table grows though its state does not."""
        return False

    @property
    def table(self) -> Schema:
        """The columns of the table that `standing` tells."""
        return self.schema

    @property
    def standing(self) -> Standing | None:
        """How its table is told from state, for those who ask; None: it cannot be asked."""
        return None

    @property
    @abstractmethod
    def wakes_with_tick(self) -> bool:
        """Whether a page is to be visited when only the wall clock has moved."""

    @property
    @abstractmethod
    def fails_on(self) -> str | None:
        """What the kernel itself may set aside, for people; None if it takes whatever entered."""

    @property
    @abstractmethod
    def functions(self) -> tuple[Function, ...]:
        """Those of the user's own that its entry calls, beside those named in expressions."""

    @abstractmethod
    def versions(self, rows: str) -> str | None:
        """The query for a table's versions, if others may keep them for themselves."""

    def telling_versions(self) -> Operator | None:
        """The step that gives a table's versions, where its input does not have them."""
        return None

    def needs(self) -> frozenset[Need]:
        """What it needs of its surroundings: mostly nothing."""
        return frozenset()

    def check_surroundings(self) -> None:
        """On the driver, before Spark starts: refuses what does not fit."""

    def owned(self) -> list[object]:
        """Objects whose classes may be the program's own."""
        return [self]

    @property
    def changes(self) -> bool:
        """Whether rows leave as changes of a table."""
        return self.leaving.form == "changes"

    def input_edge(self, number: int) -> Edge:
        return Edge("step", self.name, self.inputs[number].port)

    def late_edge(self, number: int) -> Edge:
        return Edge("late", self.name, self.inputs[number].port)

    def output_edge(self, output: str = "") -> Edge:
        return Edge("changes" if self.changes else "stream", self.name, output)


@dataclass(frozen=True, kw_only=True)
class PlainOperator(Operator):
    """The usual answers, for operators with one input that close nothing and never wake up."""

    takes: ClassVar[RowForm]
    """In which form rows come."""
    can_be_late: ClassVar[bool]
    """Whether rows can come too late; see `last_closed`."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(takes=self.takes, late=self.can_be_late),)

    def key_words(self) -> list[str]:
        return list(self.keys)

    def settings(self) -> dict[str, Any]:
        return {}

    def last_closed(self, clock: int) -> int:
        return BEGINNING

    def done(self, clock: int) -> int:
        return END

    def prepared(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows

    @property
    def wakes_with_tick(self) -> bool:
        return False

    @property
    def fails_on(self) -> str | None:
        return None

    @property
    def functions(self) -> tuple[Function, ...]:
        return ()

    def versions(self, rows: str) -> str | None:
        return None


def split_late(
    rows: pl.DataFrame,
    closed: int,
    as_entered: Callable[[pl.DataFrame], pl.DataFrame],
    by: str = "__time",
) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Rows in time, and the late ones as they entered the step."""
    mask = rows[by] <= closed
    if not mask.any():
        return rows, {}
    return rows.filter(~mask), {"": as_entered(rows.filter(mask))}
