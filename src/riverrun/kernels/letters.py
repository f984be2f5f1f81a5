"""Dead letters: what could not be read or processed, where it was, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from riverrun.errors import JobError
from riverrun.kafka.records import text_or_base64
from riverrun.kernels import positions
from riverrun.partitions import real

OnError = Literal["set aside", "stop", "drop"]
"""What happens to a row that fails on its way into a source, step or output."""

DECODE, AHEAD, POISON = "decode", "max_ahead", "poison"
"""What a step is called in letters of records that could not be read, are too far ahead, or end the
run that reads them."""

RECORD_STOPS, TIMER_STOPS = "a record cannot be processed", "a timer cannot be processed"
"""The job has stopped because the program says `on_error="stop"`."""

HEADERS = pa.list_(
    pa.struct([("name", pa.string()), ("value", pa.string()), ("value_base64", pa.string())])
)
LETTER = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us")), ("step", pa.string()), ("cause", pa.string()),
        ("key", pa.string()), ("key_base64", pa.string()),
        ("value", pa.string()), ("value_base64", pa.string()),
        ("headers", HEADERS), ("row", pa.string()), ("cut", pa.list_(pa.string())),
        ("__at", pa.timestamp("us")), ("__pos", pa.int64()), ("__sub", pa.int64()),
    ]
)  # fmt: skip

OF_RECORDS = ["key", "value", "headers"]
"""What of a letter is its record's own."""

LAST = 9_000_000_000_000_000
"""Milliseconds; a record's timestamp beyond it is no time, though Kafka takes it."""

NO_TIME = datetime(1970, 1, 1)
"""Of records that could not be read; their letters have the records' own."""

AT_ONCE = 20_000
"""Letters that are completed together: a topic may be of nothing else."""


class Place(NamedTuple):
    """Where a row stands among all: its time, and its position."""

    at: datetime
    pos: int
    sub: int


class RecordPlace(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return "/".join(map(str, self))


class Original(NamedTuple):
    """A record as it was written: bytes, and milliseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]


Fetch = Callable[[list[RecordPlace]], Mapping[RecordPlace, Original]]
"""Reads records again, those that are still there."""


class Failure(NamedTuple):
    """A row that failed, and what the program says is to happen to it."""

    place: Place
    step: str
    cause: str
    on_error: OnError
    key: Mapping[str, Any] = {}
    row: Mapping[str, Any] = {}
    """What the step was given."""


@dataclass
class Verdict:
    """What becomes of failures: those to be set aside, and how many there were of each cause."""

    aside: list[Failure] = field(default_factory=list)
    dropped: int = 0
    causes: dict[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, Any]:
        return {"dead": len(self.aside), "dropped": self.dropped, "causes": self.causes}


def judge(failures: list[Failure], topics: tuple[str, ...]) -> Verdict:
    """One letter for a row that fails in several branches; JobError if one is to stop the job."""
    found: dict[tuple[int, int], Failure] = {}
    for each in failures:
        if each.on_error == "stop":
            raise _stopped(each, topics)
        known = found.get(each.place[1:])
        if known is None or known.on_error == "drop":
            found[each.place[1:]] = each
    aside = [each for each in found.values() if each.on_error != "drop"]
    return Verdict(aside, len(found) - len(aside), dict(Counter(map(_kind, found.values()))))


def _stopped(failure: Failure, topics: tuple[str, ...]) -> JobError:
    record = record_at(failure.place.pos, topics)
    return JobError(
        RECORD_STOPS if record else TIMER_STOPS,
        where=record or failure.step,
        got=f"{failure.step}: {failure.cause.splitlines()[0]}",
        hint='mend the program, or choose on_error="set aside" or "drop": it goes on at this batch',
    )


def _kind(failure: Failure) -> str:
    """The step, and the cause without what is different in each record."""
    kind = "too far ahead" if failure.step == AHEAD else failure.cause.partition(":")[0]
    return f"{failure.step}: {kind}"


def record_at(pos: int, topics: tuple[str, ...]) -> RecordPlace | None:
    """The record of a position; None for what a timer gave, which was never in a topic."""
    if pos < 0:
        return None
    source, partition, offset = positions.unpack(pos)
    return RecordPlace(real(topics[source]), partition, offset)


def letter(failure: Failure, topics: tuple[str, ...]) -> dict[str, Any]:
    """A row of a step as a dead letter. Its record's bytes are not at hand: see `completed`."""
    place = failure.place
    record = record_at(place.pos, topics)
    keys = list(failure.key.values())
    plain = len(keys) == 1 and isinstance(keys[0], str)
    return {
        "topic": record and record.topic,
        "partition": record and record.partition,
        "offset": record and record.offset,
        "timestamp": place.at,
        "step": failure.step,
        "cause": failure.cause,
        "key": (keys[0] if plain else as_json(failure.key)) if keys else None,
        "row": as_json(failure.row),
        "__at": place.at,
        "__pos": place.pos,
        "__sub": place.sub,
    }


def letters_table(verdict: Verdict, topics: tuple[str, ...]) -> pa.Table:
    letters = [letter(each, topics) for each in verdict.aside]
    return pa.Table.from_pylist(letters, schema=LETTER)


def completed(letters: pa.Table, fetch: Fetch, without: Collection[str] = ()) -> pa.Table:
    """Letters with their records as they were written, read again: headers too, which are not read
    of all records, since few fail and few have any. Records `without` which letters stay are those
    of topics that hold personal values."""
    starts = range(0, letters.num_rows, AT_ONCE)
    parts = (letters.slice(each, AT_ONCE) for each in starts)
    return pa.concat_tables([_completed(each, fetch, without) for each in parts])


def _completed(letters: pa.Table, fetch: Fetch, without: Collection[str]) -> pa.Table:
    rows = _with_numbers(letters).to_pylist()
    places = [None if row["topic"] in without else _origin(row) for row in rows]
    found = fetch(sorted({place for place in places if place is not None}))
    for row, place in zip(rows, places, strict=True):
        if row["topic"] in without:
            row["cut"] = OF_RECORDS
        if place is not None and place in found:
            row.update(_original_fields(found[place]))
            row["__at"] = row["__at"] or row["timestamp"]
    return pa.Table.from_pylist(rows, schema=LETTER)


def _with_numbers(letters: pa.Table) -> pa.Table:
    """Times as numbers: Python's own end with the year 9999, those of records do not."""
    schema = pa.schema(
        [(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in LETTER]
    )
    return letters.cast(schema)


def _origin(row: Mapping[str, Any]) -> RecordPlace | None:
    if row["topic"] is None:
        return None
    return RecordPlace(row["topic"], row["partition"], row["offset"])


def _original_fields(record: Original) -> dict[str, Any]:
    headers = [
        {"name": name, **dict(zip(("value", "value_base64"), text_or_base64(value), strict=True))}
        for name, value in record.headers
    ]
    key, key_base64 = text_or_base64(record.key)
    value, value_base64 = text_or_base64(record.value)
    return {
        "timestamp": min(record.timestamp, LAST) * 1000,
        "key": key,
        "key_base64": key_base64,
        "value": value,
        "value_base64": value_base64,
        "headers": headers or None,
    }


def as_json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), default=_text)


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    return value.isoformat() if isinstance(value, date | time) else str(value)
