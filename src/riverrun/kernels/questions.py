"""Questions to a running program: each page answers from its rows, within bounds of size and time.

Nothing of a question touches state, results, clocks or progress. What a page answers may differ
when its batch is run again, as time is bounded; what the batch gives does not.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Literal

import duckdb
import pyarrow as pa

from riverrun.control import QUESTION, Command
from riverrun.formats.query import whole
from riverrun.schema import Schema, first_line, quoted

TABLE = "rows"
"""What the table is called in the queries of pages."""
RAW = "__rows"
MOST_BYTES = 900_000
"""Of a page's part: a record of Kafka has a million at most, unless the cluster is told else."""
MOST_SECONDS = 5.0
"""For all questions of a batch in one process: a batch is held up no longer."""
BATCH_BYTES = 64 << 20
"""The same of what is answered."""
MEMORY = "512MB"

Trouble = Literal["too large", "too slow", "too busy", "failed"]


@dataclass(frozen=True)
class Question:
    """What one page is asked."""

    id: str
    step: str
    query: str
    """Over `rows`, the page's part of the step's table."""
    bytes: int = MOST_BYTES
    seconds: float = 1.0

    def command(self, until: int | None) -> Command:
        """For the control log. `until`: after that tick nobody waits for the answer."""
        body = {k: v for k, v in asdict(self).items() if k != "step"}
        return Command(0, QUESTION, self.step, {**body, "until": until})


def question_of(command: Command) -> Question | None:
    """None if it is no question that can be read: it is passed over, as any such command."""
    body = command.body
    try:
        if command.kind != QUESTION:
            return None
        asked = min(int(body["bytes"]), MOST_BYTES), min(float(body["seconds"]), MOST_SECONDS)
        return Question(str(body["id"]), command.target, str(body["query"]), *asked)
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True)
class Point:
    """The point of the stream that an answer is of: after a batch."""

    batch: int
    tick: int
    """The wall clock of the batch, in microseconds."""
    clock: int
    """The step's, after the batch."""
    ends: Mapping[str, int] = field(default_factory=dict)
    """Up to which offset each partition was read."""


@dataclass(frozen=True)
class Part:
    """What one page answers."""

    question: str
    page: int
    pages: int
    point: Point
    data: bytes = b""
    """The rows, in Arrow's stream format."""
    trouble: Trouble | None = None
    detail: str = ""

    @property
    def rows(self) -> pa.Table:
        return pa.ipc.open_stream(self.data).read_all()

    def encoded(self) -> bytes:
        """A line of JSON, and the rows."""
        facts = {k: v for k, v in vars(self).items() if k != "data"}
        return json.dumps({**facts, "point": asdict(self.point)}).encode() + b"\n" + self.data


def part_of(encoded: bytes) -> Part:
    line, _, data = encoded.partition(b"\n")
    facts: dict[str, Any] = json.loads(line)
    return Part(**{**facts, "point": Point(**facts["point"]), "data": data})


def as_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


@cache
def _sandbox() -> duckdb.DuckDBPyConnection:
    """No file, no address and no variable of ours can be read; nor can that be changed."""
    connection = duckdb.connect(config={"enable_external_access": "false"})
    for setting in (
        "threads=1", "TimeZone='UTC'", "python_enable_replacements=false",
        f"memory_limit='{MEMORY}'", "lock_configuration=true",
    ):  # fmt: skip
        connection.execute(f"SET GLOBAL {setting}")
    return connection


@contextmanager
def sandbox() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that sees nothing but what it is given; threads have one each."""
    connection = _sandbox().cursor()
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def asking(rows: pa.Table, schema: Schema, *names: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose only tables are the rows, under each of the names."""
    # Arrow has no whole numbers of 128 bits, no JSON and no UUID
    typed = ", ".join(f"{quoted(c.name)}::{c.type} AS {quoted(c.name)}" for c in schema.columns)
    with sandbox() as connection:
        connection.register(RAW, whole(rows))
        for name in {each.lower(): each for each in (TABLE, *names)}.values():
            connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS SELECT {typed} FROM {RAW}")
        yield connection


@contextmanager
def interrupted_after(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    timer = threading.Timer(max(seconds, 0.001), connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it must not meet the next query


class TooSlow(Exception):
    """A page has used its time."""


@dataclass
class Answering:
    """What questions have taken of a batch, in this process."""

    batch: tuple[Any, ...] = ()
    seconds: float = 0.0
    bytes: int = 0

    def begin(self, batch: tuple[Any, ...]) -> None:
        if self.batch != batch:
            self.batch, self.seconds, self.bytes = batch, 0.0, 0

    def parts(self, questions: list[Question], place: Place, rows: Rows) -> Iterator[Part]:
        """What a page answers to questions about one step. What is asked twice is worked out once.

        Never an error: a question must not stop the job.
        """
        known: dict[tuple[Any, ...], Part] = {}
        with ExitStack() as opened:
            page = _Page(rows, opened)
            for question in questions:
                key = question.query, question.bytes, question.seconds
                if key not in known:
                    known[key] = self._part(question, place, page)
                yield replace(known[key], question=question.id)

    def _part(self, question: Question, place: Place, page: _Page) -> Part:
        if self.seconds >= MOST_SECONDS or self.bytes >= BATCH_BYTES:
            return place.part(question, trouble="too busy")
        began = time.monotonic()
        left = min(question.seconds, MOST_SECONDS - self.seconds)
        try:
            found = page.asked(question.query, began + left)
            if (size := found.nbytes) <= 50 * question.bytes:
                data = as_bytes(found)
                if (size := len(data)) <= question.bytes:
                    self.bytes += size
                    return place.part(question, data=data)
            return place.part(question, trouble="too large", detail=str(size))
        except (TooSlow, duckdb.InterruptException):
            return place.part(question, trouble="too slow", detail=f"{left:g}")
        except Exception as error:
            return place.part(question, trouble="failed", detail=_cause(error))
        finally:
            self.seconds += time.monotonic() - began


Rows = Callable[[float], tuple[pa.Table, Schema]]
"""The rows of a step in a page; TooSlow if they are not there by that time."""


@dataclass
class _Page:
    """The rows of a step in a page, made when they are first asked for."""

    rows: Rows
    opened: ExitStack
    connection: duckdb.DuckDBPyConnection | None = None

    def asked(self, query: str, until: float) -> pa.Table:
        if self.connection is None:
            self.connection = self.opened.enter_context(asking(*self.rows(until)))
        with interrupted_after(self.connection, until - time.monotonic()):
            return self.connection.sql(query).to_arrow_table()


@dataclass(frozen=True)
class Place:
    """Where an answer comes from."""

    page: int
    pages: int
    point: Point

    def part(self, question: Question, **found: Any) -> Part:
        return Part(question.id, self.page, self.pages, self.point, **found)


def _cause(error: Exception) -> str:
    return first_line(error)[:1000] if str(error).strip() else type(error).__name__
