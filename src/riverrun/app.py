"""The application: a name, its sources and its outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from riverrun.errors import ProgramError, caller
from riverrun.event_time import Duration, Pace, microseconds, milliseconds_of
from riverrun.plan.compile import compile_program, spark_functions
from riverrun.plan.nodes import Output, Source
from riverrun.program import Program, Screen, Topic
from riverrun.schema import METADATA, parse
from riverrun.stream import Stream

PAGES = 32


class App:
    """A program under construction. State, topics and checkpoints carry its name."""

    def __init__(self, name: str, *, pages: int = PAGES) -> None:
        self.at = caller()
        if not re.fullmatch(r"[A-Za-z][\w.-]*", name):
            raise ProgramError(
                "an application's name starts with a letter and has letters, digits, _ . and -",
                where=self.at,
                got=repr(name),
            )
        if not 1 <= pages <= 4096:
            raise ProgramError("pages is a number from 1 to 4096", where=self.at, got=pages)
        self.name, self.pages = name, pages
        self.outputs: list[Output] = []

    def stream(
        self,
        topic: str,
        *,
        schema: str,
        key: str | None = None,
        time: str = "_timestamp",
        lateness: Duration = "0 seconds",
        idle: Duration = "10 seconds",
        start: str = "earliest",
        on_loss: Literal["stop", "skip"] = "stop",
    ) -> Stream:
        """Read a topic of JSON records.

        `time` names the column that tells when an event happened (the record's timestamp if none);
        `lateness` is how far out of order events may come, `idle` the silence after which a
        partition no longer holds time back, `start` where a new application begins: "earliest",
        "latest" or a time; `on_loss` what to do when retention has deleted unread records.
        """
        at = caller()
        _check_topic(topic, at)
        columns = parse(schema, at)
        for name in (key, time):
            if name is not None and name not in dict(METADATA):
                columns.require(name, at)
        found = dict(METADATA).get(time) or columns.type_of(time)
        if not found.startswith("TIMESTAMP"):
            raise ProgramError(
                f"the time column {time!r} is {found}, not a timestamp",
                where=at,
                hint="declare it as timestamp (ISO 8601), timestamp_s or timestamp_ms (numbers)",
            )
        if start not in ("earliest", "latest"):
            milliseconds_of(start, at)
        if on_loss not in ("stop", "skip"):
            raise ProgramError("on_loss is one of stop, skip", where=at, got=repr(on_loss))
        pace = Pace(microseconds(lateness, at), microseconds(idle, at))
        schema_ = columns.with_plain_times.with_metadata
        node = Source(topic, columns, schema_, key, time, pace, start, on_loss, at)
        return Stream(self, node)

    def add(self, output: Output) -> None:
        if isinstance(output.sink, Topic):
            _check_topic(output.sink.name, output.at)
        self.outputs.append(output)

    def program(self) -> Program:
        """The program, compiled; an error here names the line at fault."""
        if not self.outputs:
            raise ProgramError(
                f"the application {self.name!r} has no output",
                where=self.at,
                hint="end a stream or table with .to(…)",
            )
        return compile_program(self.name, self.pages, tuple(self.outputs))

    def spark_functions(self) -> dict[str, Callable[[Any], Any]]:
        """The functions of .spark(…) steps, by the step's name."""
        return spark_functions(tuple(self.outputs))


def _check_topic(name: str, where: object) -> None:
    if not re.fullmatch(r"[\w.-]{1,249}", name, re.ASCII) or name in (".", ".."):
        raise ProgramError(
            "a topic's name has letters, digits, _ . and -, at most 249",
            where=where,
            got=repr(name),
        )


def topic(name: str, *, partitions: int | None = None) -> Topic:
    """A Kafka topic to write to, created with this many partitions when it is missing."""
    return Topic(name, partitions)


def screen(name: str | None = None) -> Screen:
    """The terminal of `riverrun run`. A name tells two screens of one stream apart."""
    return Screen(f"screen:{name}" if name else "screen")
