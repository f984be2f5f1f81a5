"""Records as they arrive: what their format gave, with event time, position and what is wrong.

It is one query per source, whatever the format; that of a format which is SQL is part of it.
"""

from __future__ import annotations

from typing import NamedTuple

from riverrun.clock import Now
from riverrun.columns import TRUNCATED
from riverrun.durations import END, duration_text
from riverrun.forgetting.declared import Personal
from riverrun.formats import keys
from riverrun.kernels import positions
from riverrun.kernels.letters import LAST
from riverrun.kernels.personal import subjects
from riverrun.kernels.program import ReadTopic
from riverrun.partitions import real
from riverrun.schema import HUGE, LONGEST, METADATA, RESERVED, literal, quoted
from riverrun.times import (
    AppendTime,
    ColumnTime,
    DeviceTime,
    ExpressionTime,
    ProcessingTime,
)

TICK = "$tick::BIGINT"
LATEST = "$latest::BIGINT"
"""Stand in the query for the batch's tick, and for the latest time that is not too far ahead."""

RECORDED = "TRY(make_timestamp(__timestamp * 1000))"


def at_tick(query: str, source: ReadTopic, now: Now) -> dict[str, int]:
    """The values of the query's parameters."""
    latest = now.tick + (source.max_ahead or 0) if now.wall else END
    values = {TICK: ("tick", now.tick), LATEST: ("latest", latest)}
    return dict(value for word, value in values.items() if word in query)


def arrival(source: ReadTopic) -> str:
    """The query from raw records, as the format wants them, to rows."""
    names = [*source.fields.names, *sorted(source.metadata), *(c.name for c in source.time.added)]
    moment = _moment(source)
    own = [
        f"{moment} AS __at", f"{positions.in_sql(source.index)} AS __pos", "0::BIGINT AS __sub",
        f"{_cause(source)} AS __cause", *_ahead(source, moment), *_producer(source),
        *(["__gone", *_marks(source)] if source.table_key else []), *subjects(source),
    ]  # fmt: skip
    return f"SELECT {', '.join([*map(quoted, names), *own])} FROM ({_known(source)})"


def demands(source: ReadTopic) -> str:
    """A query over the same: `__unmet`, all that records lack beyond what their format tells, each
    with its column if it is of one. Of these `arrival` tells the first."""
    unmet = [
        f"CASE WHEN {each.test} THEN {{'column': {literal(each.column or '')}, "
        f"'cause': {literal(each.cause)}}} END"
        for each in _demands(source)
    ]
    told = f"list_filter([{', '.join([*unmet, 'NULL'])}], lambda x: x IS NOT NULL)"
    return f"SELECT {told} AS __unmet FROM ({_known(source)})"


def _known(source: ReadTopic) -> str:
    """What the format gives, with what Kafka knows and with columns of time."""
    metadata = [f"{_metadata(name, source)} AS {name}" for name in sorted(source.metadata)]
    read = _with_key(source, source.format.relation(source.fields, source.table_key))
    return _repaired(source, f"SELECT {', '.join(['*', *metadata])} FROM ({read})")


def _with_key(source: ReadTopic, read: str) -> str:
    """A stream's key column that a value lacks is that of its record; formats see to a table's."""
    if source.table_key or source.key is None or source.key not in source.fields:
        return read
    own = source.fields.only((source.key,))
    name, of_record = quoted(source.key), keys.read(own, own.columns[0])
    return f"SELECT * REPLACE (coalesce({name}, {of_record}) AS {name}) FROM ({read})"


def _moment(source: ReadTopic) -> str:
    if source.table_key:
        stated = _stated_moment(source)
        return f"CASE WHEN __gone THEN coalesce({stated}, {RECORDED}) ELSE {stated} END"
    return _stated_moment(source)


def _stated_moment(source: ReadTopic) -> str:
    match source.time:
        case ColumnTime(column) if column != "_timestamp":
            return quoted(column)
        case DeviceTime() | ExpressionTime():
            return "event_time"
        case ProcessingTime():
            return f"make_timestamp({TICK})"
        case ColumnTime() | AppendTime():
            return RECORDED


def _repaired(source: ReadTopic, rows: str) -> str:
    """Rows with the columns of a time that is worked out. What is out of any range is null."""
    time = source.time
    if isinstance(time, ExpressionTime):
        worked_out = f"TRY(({time.expression})::TIMESTAMP)"
        return f"SELECT *, {worked_out} AS event_time FROM ({rows})"
    if not isinstance(time, DeviceTime):
        return rows
    received = RECORDED if time.received == "_timestamp" else quoted(time.received)
    occurred, sent = quoted(time.occurred), quoted(time.sent)
    offset = f"TRY(epoch_us({received}) - epoch_us({sent})) AS __off"
    suspect = f"coalesce(abs(__off) > {time.max_offset}, true) OR {sent} < {occurred}"
    repaired = f"TRY(make_timestamp(epoch_us({occurred}) + __off))"
    return (
        f"SELECT * EXCLUDE (__off), CASE WHEN clock_suspect THEN {received} ELSE {repaired} END "
        f"AS event_time FROM (SELECT *, __off // 1000 AS clock_offset, {suspect} AS clock_suspect "
        f"FROM (SELECT *, {offset} FROM ({rows})))"
    )


def _marks(source: ReadTopic) -> list[str]:
    """What the format tells of a record beside its columns."""
    return [name for name in source.format.marks if name.startswith(RESERVED)]


def _producer(source: ReadTopic) -> list[str]:
    if source.producer is None:
        return []
    return [f"CAST({quoted(source.producer)} AS VARCHAR) AS __producer"]


def _ahead(source: ReadTopic, moment: str) -> list[str]:
    """Why a record is too far ahead of the clocks that can be trusted, or NULL."""
    if source.max_ahead is None or isinstance(source.time, ProcessingTime):
        return []
    most = f" is more than {duration_text(source.max_ahead)} ahead of "
    latest = f"make_timestamp({LATEST})"
    recorded = f"epoch_ms({moment}) - {source.max_ahead // 1000} > __timestamp"

    def cause(clock: str, time: str) -> str:
        return f"'its time ' || {_iso(moment)} || {literal(most + clock + ', ')} || {_iso(time)}"

    wall = cause("the wall clock", f"make_timestamp({TICK})")
    own = cause("the record's timestamp", RECORDED)
    return [
        f"CASE WHEN {moment} > {latest} THEN {wall} "
        f"WHEN __timestamp > 0 AND {recorded} THEN {own} END AS __ahead"
    ]


def _iso(time: str) -> str:
    return f"strftime({time}, '%Y-%m-%dT%H:%M:%SZ')"


def _metadata(name: str, source: ReadTopic) -> str:
    return {
        "_key": "TRY(decode(__key))",
        "_headers": "__headers",
        "_timestamp": RECORDED,
        "_topic": literal(real(source.topic)),
        "_partition": "__partition",
        "_offset": "__offset",
    }[name]


def _cause(source: ReadTopic) -> str:
    """Why a record cannot be read, or has no time, producer or key; else NULL."""
    nameless = [each.when for each in _nameless(source)]
    checks = [
        "WHEN __cause IS NOT NULL THEN __cause",
        *([f"WHEN {TRUNCATED} THEN NULL"] if TRUNCATED in _marks(source) else []),
        *([f"WHEN __gone THEN CASE {' '.join(nameless)} END"] if nameless else []),
        *(each.when for each in _demands(source)),
    ]
    return f"CASE {' '.join(checks)} END"


class Demand(NamedTuple):
    """A condition under which a record cannot be used, and the cause to tell."""

    test: str
    cause: str
    column: str | None = None

    @property
    def when(self) -> str:
        return f"WHEN {self.test} THEN {literal(self.cause)}"


def _demands(source: ReadTopic) -> list[Demand]:
    """Beyond the format, in the order that they are told."""
    long = [_too_long(each.name) for each in source.fields.columns if each.type in HUGE]
    whose = [each for each in map(_nobody, source.personal) if each is not None]
    keys = [Demand("__key IS NOT NULL AND _key IS NULL", "its key is not UTF-8", "_key")]
    own = keys if "_key" in source.metadata else []
    return [*own, *_timeless(source), *_nobodys(source), *_nameless(source), *whose, *long]


def _nobody(personal: Personal) -> Demand | None:
    """What is personal and nobody's has no key. A field of JSON is its aggregate's."""
    if personal.inside is not None:
        return None
    given = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in personal.columns)
    test = f"{quoted(personal.by)} IS NULL AND ({given})"
    return Demand(test, f"no {personal.subject}: {personal.by} is missing", personal.by)


def _nameless(source: ReadTopic) -> list[Demand]:
    return [_missing("key", key) for key in source.table_key]


def _missing(what: str, column: str) -> Demand:
    return Demand(f"{quoted(column)} IS NULL", f"no {what}: {column} is missing", column)


def _too_long(name: str) -> Demand:
    lost = f"{quoted(name)} IS NOT NULL AND TRY_CAST({quoted(name)} AS {LONGEST}) IS NULL"
    return Demand(lost, f"{name} has more than 38 digits", name)


def _timeless(source: ReadTopic) -> list[Demand]:
    known = dict(METADATA)
    found = [_missing("time", name) for name in source.time.columns if name not in known]
    if "_timestamp" in source.time.columns:
        late = "no time: the record's timestamp is out of range"
        found.append(Demand(f"__timestamp > {LAST}", late))
    if isinstance(source.time, ExpressionTime):
        found.append(Demand("event_time IS NULL", f"no time: {source.time.said} gives none"))
    if isinstance(source.time, DeviceTime):
        if source.time.received == "_timestamp":
            found.append(Demand("__timestamp <= 0", "no time: the record has no timestamp"))
        found.append(Demand("event_time IS NULL", "no time: its clocks are out of range"))
    return found


def _nobodys(source: ReadTopic) -> list[Demand]:
    return [] if source.producer is None else [_missing("producer", source.producer)]
