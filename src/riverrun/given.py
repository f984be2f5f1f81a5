"""What a source is declared with, checked: its columns, its time, its key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from riverrun.clock import By, Pace
from riverrun.durations import Duration, microseconds, milliseconds_of
from riverrun.errors import Location, ProgramError
from riverrun.forgetting.declared import Personal, checked_personal
from riverrun.formats import Format
from riverrun.kernels.letters import OnError
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.sql import type_of
from riverrun.partitions import FILES, reading
from riverrun.plan.building import checked_condition, checked_policy, refuse_twice
from riverrun.schema import METADATA, Schema, nested, no_key
from riverrun.sinks.kafka.sink import check_topic
from riverrun.times import ColumnTime, EventTime, ExpressionTime, ProcessingTime


def kept_by(time: EventTime, producer: str | None) -> By:
    if isinstance(time, ProcessingTime):
        return "tick"
    return "producer" if producer is not None else "partition"


ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
"""Of files that a stream can be read from."""


def named_source(topic: str, name: str | None, at: Location) -> tuple[str, str | None]:
    """What a stream is read as, and its files as an absolute pattern, if it is one of files."""
    if re.search(r"[/*?]", topic):
        return _stream_of_files(topic, name, at), str(Path(topic).expanduser().absolute())
    check_topic(topic, at)
    return reading(topic, name), None


def _stream_of_files(pattern: str, name: str | None, at: Location) -> str:
    """What stands for the topic of a stream of files."""
    if not pattern.lower().endswith(ENDINGS):
        raise ProgramError(
            "a stream of files has a pattern that tells what they are",
            where=at,
            got=repr(pattern),
            hint=f'"folder/*.csv"; they end with {", ".join(ENDINGS)}',
        )
    return FILES + (name or re.sub(r"\W+", "-", pattern, flags=re.ASCII).strip("-"))


def refuse_use(personal: Personal, source: ReadTopic) -> None:
    """What the clock is made of is written as it is, and a row that goes has its key only."""
    for column in personal.columns:
        named = re.compile(rf"\b{re.escape(column)}\b", re.IGNORECASE)
        if any(named.search(each) for each in source.reads):
            raise ProgramError(
                f"{column!r} is personal, and cannot be used to tell the time",
                where=source.at,
                hint="time, producer and punctuation are of other columns",
            )
        if column in source.table_key and personal.by not in source.table_key:
            raise ProgramError(
                f"{column!r} is a key and personal, and a row that is deleted has its key only",
                where=source.at,
                hint=f"whose it is must be known from the key: key=[{column!r}, {personal.by!r}]",
            )


@dataclass(frozen=True)
class Changelog:
    """How the changes of a table are read."""

    time: str | EventTime | None
    lateness: Duration
    idle: Duration
    max_ahead: Duration | None
    on_loss: Literal["stop", "skip"]
    on_error: OnError | None
    personal: Personal | Sequence[Personal] | None = None

    def source(self, topic: str, given: Given, keys: tuple[str, ...], read: Format) -> ReadTopic:
        at, time = given.at, read.time if self.time is None else self.time
        when = given.time(time)
        given.check_time(when, read)
        pace = Pace(
            microseconds(self.lateness, at), microseconds(self.idle, at), kept_by(when, None)
        )
        rows = given.rows(when)
        policy = checked_policy(self.on_error, None, at)
        ahead = None if self.max_ahead is None else microseconds(self.max_ahead, at)
        return ReadTopic(
            topic, given.columns, rows, None, when, pace, "earliest", self.on_loss, at,
            max_ahead=ahead, on_error=policy, table_key=keys, format=read,
        )  # fmt: skip


@dataclass(frozen=True)
class Given:
    """What a source was declared with, to be checked. `columns` is what its records hold."""

    columns: Schema
    at: Location

    def rows(self, time: EventTime) -> Schema:
        """The columns of its rows."""
        plain = self.columns.with_plain_times
        return Schema((*plain.columns, *time.added)).with_metadata

    def with_record(self, rows: Schema, names: tuple[str, ...]) -> Schema:
        """The same rows, with some of what Kafka knows of a record as columns like any other."""
        known = dict(METADATA)
        for name in names or ("",):
            refuse_twice(name, names, self.at)
            if name not in known:
                raise ProgramError(
                    "record names what Kafka knows of a record",
                    where=self.at,
                    got=repr(name) if name else "nothing",
                    hint=", ".join(known),
                )
        return Schema(
            tuple(replace(c, hidden=c.hidden and c.name not in names) for c in rows.columns)
        )

    def time(self, time: str | EventTime) -> EventTime:
        """A text that is no name is an expression over the columns."""
        if not isinstance(time, str):
            return time
        if re.fullmatch(r"\w+", time) or time in self.columns:
            return ColumnTime(time)
        known = self.columns.with_plain_times.with_metadata
        text = known.expression(time)
        found = type_of(text, known, self.at)
        if not found.startswith("TIMESTAMP") and found != "DATE":
            raise ProgramError(
                f"the time {time!r} is {found}, not a timestamp",
                where=self.at,
                hint="make it one: strptime(text, '%d.%m.%Y %H:%M'), to_timestamp(seconds), "
                "epoch_ms(milliseconds)",
            )
        return ExpressionTime(time, text)

    def check_time(self, time: EventTime, read: Format) -> None:
        if not isinstance(time, EventTime):
            raise ProgramError(
                "time is a column, an expression, or made by device_time(), append_time() or "
                "processing_time()",
                where=self.at,
                got=repr(time),
            )
        known = {**dict(METADATA), **read.marks}
        for name in time.columns:
            if name not in known:
                self.columns.require(name, self.at)
            found = known.get(name) or self.columns.type_of(name)
            if not found.startswith("TIMESTAMP"):
                hint = "declare it as timestamp (ISO 8601), timestamp_s or timestamp_ms (numbers)"
                raise ProgramError(
                    f"the time column {name!r} is {found}, not a timestamp",
                    where=self.at,
                    hint=hint,
                )
        names = [name.lower() for name in self.columns.names]
        for column in time.added:
            if column.name in names:
                raise ProgramError(
                    f"the column name {column.name!r} is taken",
                    where=self.at,
                    got="a time that is worked out adds a column of that name",
                    hint="give the field of the records another name",
                )

    def check_keys(self, keys: tuple[str, ...], *, single: bool = False) -> None:
        """`single`: what reads the table puts its rows in the order of the key, and takes no lists
        and structs."""
        if not keys:
            raise ProgramError("a table needs a key", where=self.at, hint='key="id"')
        for name in keys:
            self.columns.require(name, self.at)
            self._check_key(name, single=single)
            refuse_twice(name, keys, self.at)

    def _check_key(self, name: str, *, single: bool) -> None:
        found = self.columns.type_of(name)
        if no_key(found) or (single and nested(found)):
            hint = "a key is of single values, lists and structs"
            raise ProgramError(
                f"{name!r} is {found}, and cannot be a key",
                where=self.at,
                hint="the key of a captured table is of single values" if single else hint,
            )

    def with_personal(
        self, source: ReadTopic, given: Personal | Sequence[Personal] | None
    ) -> ReadTopic:
        """The source, whose personal columns are what they can be."""
        personal = checked_personal(given, source.fields, self.at)
        for each in personal:
            refuse_use(each, source)
        return replace(source, personal=personal)

    def check_start(self, start: str) -> None:
        if start not in ("earliest", "latest"):
            milliseconds_of(start, self.at, "a starting position")

    def check_processing_time(
        self, pace: Pace, producer: str | None, punctuation: str | None
    ) -> None:
        options = {"lateness": pace.lateness, "producer": producer, "punctuation": punctuation}
        for name, value in options.items():
            if value:
                raise ProgramError(
                    f"{name} has no meaning with processing_time()",
                    where=self.at,
                    hint=f"the time is that of the batch, and never late: leave {name} out",
                )

    def checked_producer(self, name: str | None) -> str | None:
        if name is not None:
            found = dict(METADATA).get(name) or self.columns.type_of(name)
            if re.search(r"\]$|^(STRUCT|MAP)", found):
                raise ProgramError(
                    f"{name!r} is {found}, and cannot name a producer",
                    where=self.at,
                    hint="give a column with a single value",
                )
        return name

    def checked_condition(self, condition: str | None, time: EventTime) -> str | None:
        if condition is None:
            return None
        return checked_condition(condition, self.rows(time), self.at)
