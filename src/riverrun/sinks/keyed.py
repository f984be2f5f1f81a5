"""Keys as destinations write them, from values as people give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from riverrun import exact
from riverrun.errors import InputError
from riverrun.formats import JSON, keys
from riverrun.formats.query import run
from riverrun.schema import Column, Schema, first_line, literal, nested, quoted

QUERY = "SELECT {} FROM (SELECT 1)"


def key_text(columns: Schema, values: Sequence[Any]) -> str:
    """The text of a key; an error if a value is not of its column's type."""
    pairs = list(zip(columns.columns, values, strict=True))
    given = [f"{_typed(column, value)} AS {quoted(column.name)}" for column, value in pairs]
    try:
        rows = run(QUERY.format(", ".join(given)))
    except Exception as error:  # DuckDB's, for a value that is none of the type
        raise InputError("the key is not of its columns' types", got=first_line(error)) from error
    for column, value in pairs:
        if value is not None and rows[column.name].null_count:
            got = f"{value!r:.200}, and {column.name} is {column.type}"
            raise InputError("the key is not of its columns' types", got=got)
    return str(JSON.encode_key(rows, columns, table=True)[0].as_py())


def _typed(column: Column, value: Any) -> str:
    """Lists and structs are given as JSON, or as Python has them."""
    if value is None or not nested(column.type):
        return f"CAST({'NULL' if value is None else literal(str(value))} AS {column.type})"
    text = value if isinstance(value, str) else exact.dumps(value, other=str)
    record = f"SELECT encode({literal(text)}) AS __key"
    return f"(SELECT {keys.read(Schema((column,)), column)} FROM ({record}))"
