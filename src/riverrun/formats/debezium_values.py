"""What Debezium's values mean, where JSON alone does not tell: times as numbers, decimals as bytes.

How they are written depends on the connector's settings, and stands in the schema part of its
records. Without one it is seen from the first values.
"""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from functools import cache
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.formats.query import arrow_schema, run
from riverrun.schema import Column, Schema, literal

Way = Literal["days", "s", "ms", "us", "ns", "with Z", "bytes", "scaled bytes", "text"]

SAMPLE = 100
"""So many rows are looked at; others that are not alike are read again."""


class Kind(NamedTuple):
    way: Way
    scale: int = 0
    """Of a decimal in bytes."""


_NAMED: dict[str, Way] = {
    "io.debezium.time.Date": "days",
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "io.debezium.time.IsoDate": "with Z",
    "io.debezium.time.IsoTime": "with Z",
    "io.debezium.time.ZonedTime": "with Z",
    "io.debezium.data.Json": "text",
    "io.debezium.data.VariableScaleDecimal": "scaled bytes",
    "org.apache.kafka.connect.data.Date": "days",
    "org.apache.kafka.connect.data.Time": "ms",
    "org.apache.kafka.connect.data.Timestamp": "ms",
    "org.apache.kafka.connect.data.Decimal": "bytes",
}
FIRST_DAY, LAST_DAY, LONGEST = -719_162, 2_932_896, 2**63 - 1
"""The years 1 to 9999, and the longest number."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@cache
def kinds_of(schema: str | None) -> dict[str, Kind]:
    """What an envelope's schema part says of the columns of its rows."""
    fields = json.loads(schema).get("fields") or [] if schema else []
    row: dict[str, Any] = next((each for each in fields if each.get("field") == "after"), {})
    found = {}
    for each in row.get("fields") or []:
        # any other: JSON tells what it is
        if way := _NAMED.get(each.get("name") or ""):
            scale = (each.get("parameters") or {}).get("scale", 0)
            found[each["field"]] = Kind(way, int(scale))
    return found


def seen(texts: pa.ChunkedArray, columns: Schema) -> dict[str, Kind]:
    """What the first rows tell of columns that can be written in several ways."""
    several = {c.name: c for c in columns.columns if c.type in _GUESSED}
    if not several:
        return {}
    picked = ", ".join(f"first(c{n}) FILTER (c{n} <> 'null') AS c{n}" for n in range(len(several)))
    values = ", ".join(
        f"TRY(json_extract(row, {literal(_path(name))}))::VARCHAR AS c{n}"
        for n, name in enumerate(several)
    )
    found = run(
        f"SELECT {picked} FROM (SELECT {values} FROM lot)",
        lot=pa.table({"row": texts.slice(0, SAMPLE)}),
    )
    first = [found[f"c{n}"][0].as_py() for n in range(len(several))]
    guesses = {
        name: _guess(column.type, value)
        for (name, column), value in zip(several.items(), first, strict=True)
        if value is not None
    }
    return {name: guess for name, guess in guesses.items() if guess}


_GUESSED = (
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "JSON",
)  # fmt: skip


def _guess(type: str, value: str) -> Kind | None:
    if type == "JSON":
        return Kind("text") if value.startswith('"') else None
    if not value.startswith('"'):
        return Kind("days" if type == "DATE" else "us")
    return Kind("with Z") if type in ("DATE", "TIME") and value.endswith('Z"') else None


def _path(name: str) -> str:
    return f'$."{name}"'


def read_as(column: Column, kind: Kind | None) -> str:
    """The type that a column has in JSON."""
    match kind.way if kind else None:
        case None:
            return column.type
        case "days" | "s" | "ms" | "us" | "ns":
            return "BIGINT"
        case "with Z" | "bytes" | "text":
            return "VARCHAR"
        case "scaled bytes":
            return "STRUCT(scale INTEGER, value VARCHAR)"


def meant(found: pa.Table, place: int, column: Column, kind: Kind) -> pa.Table:
    """The table with the column as it is meant; what is none of its type has a cause."""
    values = found[column.name].combine_chunks()
    made = _made(values, column, kind)
    lost = pc.and_(pc.is_valid(values), pc.is_null(made))
    if pc.any(lost).as_py():
        causes = pc.if_else(lost, f"{column.name} is not a {column.type}", found["__cause"])
        where = found.column_names.index("__cause")
        found = found.set_column(where, "__cause", causes)
    return found.set_column(place, column.name, made)


def _made(values: pa.Array, column: Column, kind: Kind) -> pa.Array:
    type = arrow_schema(Schema((column,))).field(0).type
    if kind.way == "text":
        return values
    if kind.way in ("bytes", "scaled bytes"):
        return _cast(pa.array(map(_decimal, values.to_pylist(), [kind] * len(values))), type)
    if kind.way == "with Z":
        plain = pa.table({"v": pc.utf8_rtrim(values, "Z")})
        return run(f"SELECT TRY_CAST(v AS {column.type}) AS v FROM t", t=plain)["v"]
    per_day = 1 if kind.way == "days" else 86_400 * _PER_SECOND[kind.way]
    first, last = max(FIRST_DAY * per_day, -LONGEST), min(LAST_DAY * per_day, LONGEST)
    within = pc.and_(pc.less_equal(first, values), pc.less_equal(values, last))
    values = pc.if_else(within, values, None)
    if kind.way == "days":
        return values.cast(pa.int32()).cast(type)
    scaled = pc.multiply(values, max(1_000_000 // _PER_SECOND[kind.way], 1))
    return _cast(pc.divide(scaled, max(_PER_SECOND[kind.way] // 1_000_000, 1)), type)


def _cast(values: pa.Array, type: pa.DataType) -> pa.Array:
    try:
        return values.cast(type)
    except pa.ArrowInvalid:
        return pa.array([_cast_one(each, type) for each in values], type)


def _cast_one(value: pa.Scalar, type: pa.DataType) -> Any:
    try:
        return value.cast(type).as_py()
    except pa.ArrowInvalid:
        return None


def _decimal(value: Any, kind: Kind) -> str | None:
    """The unscaled number in two's complement, as Java's BigInteger writes it."""
    if value is None:
        return None
    with_scale = kind.way == "scaled bytes"
    scale, text = (value["scale"], value["value"]) if with_scale else (kind.scale, value)
    try:
        number = int.from_bytes(base64.b64decode(text, validate=True), signed=True)
    except (ValueError, TypeError):
        return None
    return format(Decimal(f"{number}e{-scale}"), "f")
