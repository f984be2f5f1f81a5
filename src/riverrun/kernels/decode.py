"""From raw records to columns: one query per source, with event time and what is wrong."""

from __future__ import annotations

import json

from riverrun.event_time import END, Now, duration_text
from riverrun.kernels.letters import LAST
from riverrun.kernels.program import SourceSpec
from riverrun.schema import METADATA, Column, literal, quoted
from riverrun.times import AppendTime, ColumnTime, DeviceTime, ProcessingTime

TIMESTAMP_NUMBERS = {"TIMESTAMP_S": 1_000_000, "TIMESTAMP_MS": 1_000}

TICK = "/*tick*/"
LATEST = "/*latest*/"
"""Stand in the query for the batch's tick, and for the latest time that is not too far ahead."""

RECORDED = "TRY(make_timestamp(__timestamp * 1000))"

DELETES = "__value IS NULL"
"""Of a table's records: one without a value deletes the row of its key."""


def at_tick(query: str, source: SourceSpec, now: Now) -> str:
    latest = now.tick + (source.max_ahead or 0) if now.wall else END
    return query.replace(TICK, str(now.tick)).replace(LATEST, str(latest))


def decoder(source: SourceSpec) -> str:
    """The query from raw records to columns, with event time, position and what is wrong."""
    shape = {column.name: _json_type(column.type) for column in source.schema.columns}
    columns = [f"{_column(source, each)} AS {quoted(each.name)}" for each in source.schema.columns]
    metadata = [f"{_metadata(name, source)} AS {name}" for name in sorted(source.metadata)]
    moment = _moment(source)
    own = [
        f"{moment} AS __at", "__place AS __pos", "0::BIGINT AS __sub",
        f"{_cause(source)} AS __cause", *_ahead(source, moment), *_producer(source),
        *([f"{DELETES} AS __gone"] if source.table_key else []),
    ]  # fmt: skip
    place = f"{source.index << 56} + (__partition::BIGINT << 40) + __offset AS __place"
    parsed = (
        f"SELECT {', '.join([*columns, *metadata])}, __timestamp, __value, __parsed, {place} "
        f"FROM (SELECT *, TRY(json_transform(__value, {literal(json.dumps(shape))})) AS __parsed "
        "FROM lot)"
    )
    return (
        "SELECT * EXCLUDE (__value, __parsed, __place, __timestamp), "
        f"{', '.join(own)} FROM ({_repaired(source, parsed)})"
    )


def _column(source: SourceSpec, column: Column) -> str:
    value = _decoded(f"__parsed.{quoted(column.name)}", column.type)
    if column.name not in source.table_key:
        return value
    return f"coalesce({value}, {_from_key(source, column)})"


def _from_key(source: SourceSpec, column: Column) -> str:
    """A column of a table's key as the record's own key has it: see `delivery.encode`."""
    text = "TRY(decode(__key))"
    if len(source.table_key) == 1:
        if column.type == "VARCHAR":
            return f"nullif({text}, chr(0))"
        text = f"{literal('{' + json.dumps(column.name) + ':')} || {text} || '}}'"
    shape = json.dumps({column.name: _json_type(column.type)})
    parsed = f"TRY(json_transform({text}, {literal(shape)})).{quoted(column.name)}"
    return _decoded(parsed, column.type)


def _moment(source: SourceSpec) -> str:
    if source.table_key:
        return f"CASE WHEN {DELETES} THEN {RECORDED} ELSE {_stated_moment(source)} END"
    return _stated_moment(source)


def _stated_moment(source: SourceSpec) -> str:
    match source.time:
        case ColumnTime(column) if column != "_timestamp":
            return quoted(column)
        case DeviceTime():
            return "event_time"
        case ProcessingTime():
            return f"make_timestamp({TICK})"
        case ColumnTime() | AppendTime():
            return RECORDED


def _repaired(source: SourceSpec, rows: str) -> str:
    """Rows with the columns of a repaired device time. What is out of any range is null."""
    time = source.time
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


def _producer(source: SourceSpec) -> list[str]:
    if source.producer is None:
        return []
    return [f"CAST({quoted(source.producer)} AS VARCHAR) AS __producer"]


def _ahead(source: SourceSpec, moment: str) -> list[str]:
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
        f"CASE WHEN NOT isfinite({moment}) THEN 'its time is ' || {moment}::VARCHAR "
        f"WHEN {moment} > {latest} THEN {wall} "
        f"WHEN __timestamp > 0 AND {recorded} THEN {own} END AS __ahead"
    ]


def _iso(time: str) -> str:
    return f"strftime({time}, '%Y-%m-%dT%H:%M:%SZ')"


def _json_type(type: str) -> str:
    """The type that JSON is read with: timestamps come as text or numbers."""
    if type.endswith("[]"):
        return f"{_json_type(type.removesuffix('[]'))}[]"
    if type in TIMESTAMP_NUMBERS:
        return "BIGINT"
    return "VARCHAR" if type.startswith("TIMESTAMP") else type


def _decoded(value: str, type: str) -> str:
    if _json_type(type) == type:
        return value
    if type.endswith("[]"):
        return f"list_transform({value}, lambda x: {_decoded('x', type.removesuffix('[]'))})"
    if type in TIMESTAMP_NUMBERS:
        return f"TRY(make_timestamp({value} * {TIMESTAMP_NUMBERS[type]}))"
    return f"(TRY_CAST({value} AS TIMESTAMPTZ) AT TIME ZONE 'UTC')"


def _metadata(name: str, source: SourceSpec) -> str:
    return {
        "_key": "decode(__key)",
        "_headers": "__headers",
        "_timestamp": RECORDED,
        "_topic": literal(source.topic),
        "_partition": "__partition",
        "_offset": "__offset",
    }[name]


def _cause(source: SourceSpec) -> str:
    """What is wrong with a record, or NULL. Only those with something missing are looked at."""
    nameless = [
        f"WHEN {quoted(key)} IS NULL THEN {literal(f'no key: {key} is missing')}"
        for key in source.table_key
    ]
    checks = [
        *([f"WHEN {DELETES} THEN CASE {' '.join(nameless)} END"] if nameless else []),
        "WHEN coalesce(__value, '') = '' THEN 'the value is empty or not UTF-8 text'",
        "WHEN NOT json_valid(__value) THEN 'the value is not JSON'",
        "WHEN json_type(__value) <> 'OBJECT' THEN 'the value is not a JSON object'",
    ]
    for column in source.schema.columns:
        path = literal(f'$."{column.name}"')
        shown = f"left(json_extract_string(__value, {path}), 100)"
        wrong = f"{literal(f'{column.name} is not a {column.type}: ')} || {shown}"
        checks.append(f"WHEN {_lost(column)} THEN {wrong}")
    absent = _absent(source)
    checks += [f"WHEN {test} THEN {literal(cause)}" for test, cause in absent.items()]
    checks += nameless
    missing = dict.fromkeys([*map(_incomplete, source.schema.columns), *absent])
    return f"CASE WHEN {' OR '.join(missing)} THEN CASE {' '.join(checks)} END END"


def _absent(source: SourceSpec) -> dict[str, str]:
    """Conditions under which a record has no time or no producer, and the cause to tell."""
    known = dict(METADATA)
    found = {
        f"{quoted(name)} IS NULL": f"no time: {name} is missing"
        for name in source.time.columns
        if name not in known
    }
    if "_timestamp" in source.time.columns:
        found[f"__timestamp > {LAST}"] = "no time: the record's timestamp is out of range"
    if isinstance(source.time, DeviceTime):
        if source.time.received == "_timestamp":
            found["__timestamp <= 0"] = "no time: the record has no timestamp"
        found["event_time IS NULL"] = "no time: its clocks are out of range"
    if source.producer:
        missing = f"no producer: {source.producer} is missing"
        found[f"{quoted(source.producer)} IS NULL"] = missing
    return found


def _incomplete(column: Column) -> str:
    name = quoted(column.name)
    has_nulls = f" OR list_count({name}) < len({name})" if column.type.endswith("[]") else ""
    return f"{name} IS NULL{has_nulls}"


def _lost(column: Column) -> str:
    """Whether JSON has a value where the column, or an element of its list, is null."""
    name = quoted(column.name)
    field, items = literal(f'$."{column.name}"'), literal(f'$."{column.name}"[*]')
    lost = f"{name} IS NULL AND coalesce(json_type(__value, {field}), 'NULL') <> 'NULL'"
    if not column.type.endswith("[]"):
        return lost
    # an element may be null in JSON too, so those with a value are counted on both sides
    given = f"list_filter(json_extract(__value, {items}), lambda x: json_type(x) <> 'NULL')"
    return f"{lost} OR list_count({name}) < len({given})"
