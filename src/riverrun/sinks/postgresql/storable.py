"""Texts as PostgreSQL can store them: it has no null character, neither in text nor in JSON."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.outputs import OutputSpec
from riverrun.schema import nested

STANDS_FOR_IT = "\N{SYMBOL FOR NULL}"
ESCAPED = re.compile(r"\\(?:u0000|.)", re.DOTALL)
"""A sign of JSON that is escaped; `\\\\u0000` is a backslash, and then letters."""


def storable(output: OutputSpec, rows: pa.Table) -> pa.Table:
    """Rows as they are written, with a picture of the null character instead of it. Keys that are
    the same then are one row, the last: two in one statement would be refused."""
    changed = False
    for column in output.schema.columns:
        if column.name in rows.column_names:
            found = _without(rows[column.name], json=nested(column.type) or column.type == "JSON")
            if found is not None:
                place = rows.schema.get_field_index(column.name)
                rows = rows.set_column(place, column.name, found)
                changed = changed or column.name in output.key
    return _last_of_each(output, rows) if changed and output.table else rows


def _without(values: pa.ChunkedArray, *, json: bool) -> pa.ChunkedArray | None:
    """None if there is nothing to be done."""
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return None
    sign = "\\u0000" if json else "\0"
    if not pc.any(pc.match_substring(values, sign)).as_py():
        return None
    if not json:
        return pc.replace_substring(values, sign, STANDS_FOR_IT)
    made = [None if each is None else ESCAPED.sub(_shown, each) for each in values.to_pylist()]
    return pa.chunked_array([pa.array(made, values.type)])


def _shown(found: re.Match[str]) -> str:
    return STANDS_FOR_IT if found[0] == "\\u0000" else found[0]


def _last_of_each(output: OutputSpec, rows: pa.Table) -> pa.Table:
    keys = zip(*(rows[name].to_pylist() for name in output.key), strict=True)
    last = {key: number for number, key in enumerate(keys)}
    return rows.take(sorted(last.values()))
