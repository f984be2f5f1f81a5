"""What Debezium's values mean, where JSON alone does not tell: times as numbers, decimals as bytes.

How they are written depends on the connector's settings, and stands in the schema part of its
records. Without one it is seen from the values. What is so of a value is so of the items of lists.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.formats.query import arrow_schema, run
from riverrun.formats.types import Type, type_tree
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
        item = each
        while item.get("type") == "array":
            item = item.get("items") or {}
        # any other: JSON tells what it is
        if way := _NAMED.get(item.get("name") or ""):
            scale = (item.get("parameters") or {}).get("scale", 0)
            found[each["field"]] = Kind(way, int(scale))
    return found


def with_kinds(texts: pa.ChunkedArray, kinds: Mapping[str, Kind]) -> pa.ChunkedArray:
    """Rows in JSON that travel without their schema: what it says stands in a line before them."""
    if texts.null_count == len(texts):
        return texts
    return pc.binary_join_element_wise(json.dumps(kinds), texts, "\n")


def kinds_in(line: str) -> dict[str, Kind]:
    """What `with_kinds` has put before a row."""
    return {name: Kind(*each) for name, each in json.loads(line).items()}


def seen(texts: pa.ChunkedArray, columns: Schema) -> dict[str, Kind]:
    """What the first rows tell of columns that can be written in several ways."""
    several = _several(columns)
    if not several:
        return {}
    first = ", ".join(f"first(c{n}) FILTER (c{n} <> '') AS c{n}" for n in range(len(several)))
    found = run(
        f"SELECT {first} FROM ({_beginnings(several)})",
        lot=pa.table({"row": texts.slice(0, SAMPLE)}),
    )
    guesses = {
        column.name: _guess(_item(column).text, found[f"c{n}"][0].as_py() or "")
        for n, column in enumerate(several)
    }
    return {name: guess for name, guess in guesses.items() if guess}


def written(texts: pa.ChunkedArray, columns: Schema) -> pa.ChunkedArray:
    """A text for each row, the same for rows whose columns are written in the same ways."""
    several = _several(columns)
    ways = [
        f"CASE WHEN c{n} LIKE '\"%Z\"' THEN 'Z' ELSE left(c{n}, 1) END"
        if _item(column).text != "JSON" else f"left(c{n}, 1)"
        for n, column in enumerate(several)
    ]  # fmt: skip
    # of numbers the first letter says nothing
    alike = [f"CASE WHEN {way} IN ('\"', 'Z', '') THEN {way} ELSE '0' END" for way in ways]
    return run(
        f"SELECT {' || '.join(alike) or literal('')} AS way FROM ({_beginnings(several)})",
        lot=pa.table({"row": texts}),
    )["way"]


_GUESSED = (
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "JSON",
)  # fmt: skip
_BEGINNING = r'^(?:[\[\],\s]|null)*("[^"]*"|.)?'
"""The first value, of lists the first item."""


def _several(columns: Schema) -> list[Column]:
    """Those that can be written in several ways."""
    return [each for each in columns.columns if _item(each).text in _GUESSED]


def _item(column: Column) -> Type:
    """The type of a value, of lists that of their items."""
    type = type_tree(column.type)
    while type.kind == "list":
        type = type.item
    return type


def _beginnings(columns: list[Column]) -> str:
    """How the value of each column begins; empty where there is none."""
    values = (
        f"coalesce(regexp_extract(TRY(json_extract(row, {literal(_path(each.name))}))::VARCHAR, "
        f"{literal(_BEGINNING)}, 1), '') AS c{n}"
        for n, each in enumerate(columns)
    )
    return f"SELECT {', '.join(['row', *values])} FROM lot"


def _guess(type: str, value: str) -> Kind | None:
    if not value or (type == "JSON" and not value.startswith('"')):
        return None
    if type == "JSON":
        return Kind("text")
    if not value.startswith('"'):
        return Kind("days" if type == "DATE" else "us")
    return Kind("with Z") if type in ("DATE", "TIME") and value.endswith('Z"') else None


def _path(name: str) -> str:
    return f'$."{name}"'


def read_as(column: Column, kind: Kind | None) -> str:
    """The type that a column has in JSON."""
    if kind is None:
        return column.type
    return _IN_JSON[kind.way] + "[]" * (column.type.count("[]") if column.type[-1] == "]" else 0)


_IN_JSON: dict[Way, str] = {
    **dict.fromkeys(("days", "s", "ms", "us", "ns"), "BIGINT"),
    **dict.fromkeys(("with Z", "bytes", "text"), "VARCHAR"),
    "scaled bytes": "STRUCT(scale INTEGER, value VARCHAR)",
}


def meant(found: pa.Table, place: int, column: Column, kind: Kind) -> pa.Table:
    """The table with the column as it is meant; what is none of its type has a cause."""
    values = found[column.name].combine_chunks()
    type = arrow_schema(Schema((column,))).field(0).type
    made = _made(values, type, _item(column).text, kind)
    lost = _lost(values, made)
    if pc.any(lost).as_py():
        causes = pc.if_else(lost, f"{column.name} is not a {column.type}", found["__cause"])
        where = found.column_names.index("__cause")
        found = found.set_column(where, "__cause", causes)
    return found.set_column(place, column.name, made)


def _made(values: pa.Array, type: pa.DataType, item: str, kind: Kind) -> pa.Array:
    if not pa.types.is_list(type):
        return _single(values, type, item, kind)
    inside = _made(values.values, type.value_type, item, kind)
    return pa.ListArray.from_arrays(values.offsets, inside, type, mask=values.is_null())


def _lost(values: pa.Array, made: pa.Array) -> pa.Array:
    """Where a value, or one in a list, is none of its type."""
    if not pa.types.is_list(made.type):
        return pc.and_(pc.is_valid(values), pc.is_null(made))
    inside = _lost(values.flatten(), made.flatten())
    lists = pc.list_parent_indices(values).filter(inside)
    return pc.is_in(pa.array(range(len(values)), lists.type), lists)


def _single(values: pa.Array, type: pa.DataType, item: str, kind: Kind) -> pa.Array:
    if kind.way == "text":
        query = "SELECT CASE WHEN json_valid(v) THEN v END AS v FROM t"
        return run(query, t=pa.table({"v": values}))["v"].combine_chunks().cast(type)
    if kind.way in ("bytes", "scaled bytes"):
        return _cast(pa.array(map(_decimal, values.to_pylist(), [kind] * len(values))), type)
    if kind.way == "with Z":
        plain = pa.table({"v": pc.utf8_rtrim(values, "Z")})
        found = run(f"SELECT TRY_CAST(v AS {item}) AS v FROM t", t=plain)["v"]
        return found.combine_chunks().cast(type)
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
