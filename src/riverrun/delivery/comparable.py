"""Rows in a form in which those of a program and those of any store can be compared.

A store may keep a time as text, a boolean as a number, a list as JSON. Cast to the type that the
output declares, and written as JSON, they are the same text again.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from riverrun import exact
from riverrun.delivery.encode import key_of
from riverrun.formats import JSON, keys
from riverrun.formats.json_types import object_of
from riverrun.outputs import Evaluator, OutputSpec
from riverrun.schema import nested, quoted

CLOSE = 1e-9
"""Sums of floats that were added in another order differ by less, in proportion."""

NO_NUMBER = (None, "NaN", "Infinity", "-Infinity")
"""What stores without words for them, such as JSON and SQLite, keep as null."""


NULL_SHOWN = ord("\N{SYMBOL FOR NULL}")


def comparable(output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
    """`k`, the key, and `v`, the row, as JSON; and `__op`, if rows have it. Of a stream, the row is
    the key. What does not fit its declared type stays as the store has it."""
    read, unfit = [], []
    for column in output.schema.columns:
        name = quoted(column.name)
        made = _read(name, column.type, rows.schema.field(column.name).type)
        read.append(f"{made} AS {name}")
        unfit.append(f"({name} IS NOT NULL AND {made} IS NULL)")
    op = [name for name in ("__op",) if name in rows.column_names]
    raw = f"CASE WHEN {' OR '.join(unfit)} THEN {object_of(output.schema.names)} END AS __raw"
    typed = evaluator.run(f"SELECT {', '.join([*read, raw, *op])} FROM rows", rows=rows)
    value = f"coalesce(__raw, {object_of(output.schema.names)})"
    key = f"coalesce({keys.as_json(key_of(output))}, 'null')" if output.table else value
    return evaluator.run(
        f"SELECT {', '.join([f'{key} AS k', f'{value} AS v', *op])} FROM rows",
        rows=JSON.shown(typed),
    )


def as_additions(output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
    """Rows of a store, typed again, as the first changes of a table."""
    return _as_changes(output, rows, evaluator, ("1::TINYINT AS __op", "0::BIGINT AS __revision"))


def as_deletions(output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
    """Rows of a store, typed again, as changes of a table that take them back."""
    back = ("(-1)::TINYINT AS __op", "1::BIGINT AS __revision")
    return _as_changes(output, rows, evaluator, back)


def _as_changes(
    output: OutputSpec, rows: pa.Table, evaluator: Evaluator, change: tuple[str, str]
) -> pa.Table:
    read = [
        f"{_read(quoted(c.name), c.type, rows.schema.field(c.name).type)} AS {quoted(c.name)}"
        for c in output.schema.columns
    ]
    return evaluator.run(f"SELECT {', '.join([*read, *change])} FROM rows", rows=rows)


def _read(name: str, declared: str, stored: pa.DataType) -> str:
    text = pa.types.is_string(stored) or pa.types.is_large_string(stored)
    if nested(declared):
        return f"TRY_CAST({f'TRY_CAST({name} AS JSON)' if text else name} AS {declared})"
    if declared.startswith("TIMESTAMP"):
        # all stores have microseconds; a text may name its zone
        zoned = f"TRY_CAST({name} AS TIMESTAMPTZ)" if text else name
        return f"TRY_CAST({zoned} AS TIMESTAMP)"
    if declared == "VARCHAR":
        # PostgreSQL has no null character: a picture of it stands there
        return f"replace(TRY_CAST({name} AS VARCHAR), chr(0), chr({NULL_SHOWN}))"
    if declared.startswith("ENUM") or declared == '"NULL"':
        return f"TRY_CAST({name} AS VARCHAR)"
    return f"TRY_CAST({name} AS {declared})"


def unlike(output: OutputSpec, one: str, other: str) -> list[str]:
    """The columns in which two rows differ; none of rows that say the same in other words."""
    mine, theirs = exact.loads(one), exact.loads(other)
    return [
        column.name
        for column in output.schema.columns
        if not _alike(
            *(
                _parsed(each.get(column.name)) if column.type == "JSON" else each.get(column.name)
                for each in (mine, theirs)
            ),
            floats=bool(re.search("DOUBLE|FLOAT", column.type)),
        )
    ]


def _parsed(value: Any) -> Any:
    """A database may have put the fields of an object in another order."""
    try:
        return exact.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _alike(one: Any, other: Any, *, floats: bool) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        same = one.keys() == other.keys()
        return same and all(_alike(one[name], other[name], floats=floats) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_alike(*pair, floats=floats) for pair in pairs)
    if not floats:
        return type(one) is type(other) and bool(one == other)
    if _number(one) and _number(other):
        return math.isclose(one, other, rel_tol=CLOSE)
    if any(isinstance(each, dict | list) for each in (one, other)):
        return False
    return bool(one == other) or (one in NO_NUMBER and other in NO_NUMBER)


def _number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
