"""How keys are written and read: the text of one text column, JSON for others and for several.

A table's row whose key is null has a key too, since compacted topics take none without: `null` in
JSON, and for text, which may be anything else, a zero byte.
"""

from __future__ import annotations

import json

from riverrun.formats.json_types import decoded, json_type, object_of
from riverrun.schema import Column, Schema, literal, quoted


def plain(columns: Schema) -> bool:
    return len(columns.columns) == 1 and columns.columns[0].type == "VARCHAR"


def written(columns: Schema, *, table: bool) -> str:
    """The key of a record as an expression over rows."""
    key = quoted(columns.names[0]) if plain(columns) else as_json(columns)
    if not table:
        return key
    return f"coalesce({key}, {'chr(0)' if plain(columns) else literal('null')})"


def as_json(columns: Schema) -> str:
    if not columns.columns:
        return "NULL::VARCHAR"
    if len(columns.columns) == 1:
        return f"to_json({quoted(columns.names[0])})::VARCHAR"
    return object_of(columns.names)


def read(columns: Schema, column: Column) -> str:
    """A column of the key as an expression over records."""
    text = "TRY(decode(__key))"
    if plain(columns):
        return f"nullif({text}, chr(0))"
    if len(columns.columns) == 1:
        text = f"{literal('{' + json.dumps(column.name) + ':')} || {text} || '}}'"
    shape = json.dumps({column.name: json_type(column.type)})
    parsed = f"TRY(json_transform({text}, {literal(shape)})).{quoted(column.name)}"
    return decoded(parsed, column.type)
