"""Numbers that JSON does not have: infinity, and what is not a number."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.formats.nesting import changed, holds, leaves
from riverrun.formats.query import run

WRITTEN = (
    "CASE WHEN isfinite(x) THEN to_json(x)::VARCHAR WHEN isnan(x) THEN '\"NaN\"' "
    "WHEN x > 0 THEN '\"Infinity\"' WHEN x < 0 THEN '\"-Infinity\"' END"
)


def with_words(rows: pa.Table) -> pa.Table:
    """Columns in which there is one, however deep, as JSON: such numbers are words."""
    for place, field in enumerate(rows.schema):
        if holds(field.type, pa.types.is_floating) and not _finite(rows[field.name]):
            words = changed(rows[field.name].combine_chunks(), pa.types.is_floating, _words)
            rows = rows.set_column(place, field.name, words)
    return rows


def _finite(column: pa.ChunkedArray) -> bool:
    numbers = (
        leaf for chunk in column.chunks for leaf in leaves(chunk) if pa.types.is_floating(leaf.type)
    )
    return all(pc.all(pc.is_finite(each)).as_py() is not False for each in numbers)


def _words(numbers: pa.Array) -> pa.Array:
    found = run(f"SELECT {WRITTEN} AS text FROM numbers", numbers=pa.table({"x": numbers}))
    return found["text"].combine_chunks().cast(pa.string()).cast(pa.json_())
