"""How keys are written and read: the text of one text column, JSON for others and for several.

A table's row whose key is null has a key too, since compacted topics take none without: `null` in
JSON, and for text a zero byte; text that begins with one has another before it.
"""

from __future__ import annotations

import json

from riverrun.formats.json_checks import lost
from riverrun.formats.json_types import Reading, object_of
from riverrun.formats.types import type_tree
from riverrun.schema import Column, Schema, literal, quoted


def plain(columns: Schema) -> bool:
    return len(columns.columns) == 1 and columns.columns[0].type == "VARCHAR"


def written(columns: Schema, *, table: bool) -> str:
    """The key of a record as an expression over rows."""
    key = quoted(columns.names[0]) if plain(columns) else as_json(columns)
    if not table:
        return key
    if not plain(columns):
        return f"coalesce({key}, 'null')"
    odd = f"{key} IS NULL OR starts_with({key}, chr(0))"
    return f"CASE WHEN {odd} THEN chr(0) || coalesce({key}, '') ELSE {key} END"


def told(columns: Schema, key: str) -> str:
    """The written key of a table's row as JSON, which has a word for null."""
    if not plain(columns):
        return key
    text = f"to_json(nullif(substr({key}, 2), ''))"
    odd = f"coalesce({text}::VARCHAR, 'null')"
    return f"CASE WHEN starts_with({key}, chr(0)) THEN {odd} ELSE to_json({key})::VARCHAR END"


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
        rest = f"nullif(substr({text}, 2), '')"
        return f"CASE WHEN starts_with({text}, chr(0)) THEN {rest} ELSE {text} END"
    if len(columns.columns) == 1:
        text = f"{literal('{' + json.dumps(column.name) + ':')} || {text} || '}}'"
    reading, type = Reading(), type_tree(column.type)
    shape = json.dumps({column.name: reading.read_as(type)})
    parsed = f"TRY(json_transform({text}, {literal(shape)})).{quoted(column.name)}"
    if not type.parts:
        return reading.decoded(parsed, type)
    # in lists, so that it is parsed once; a key of which a part does not fit would be another one
    made = f"list_transform([{parsed}], lambda y: {reading.decoded('y', type)})"
    unfit = lost("z", type, text, f'$."{column.name}"')
    return f"TRY(list_transform({made}, lambda z: CASE WHEN {unfit} THEN NULL ELSE z END)[1])"
