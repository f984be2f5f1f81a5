"""Keys as destinations write them, from values as people give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from riverrun.errors import InputError
from riverrun.formats import JSON
from riverrun.formats.query import run
from riverrun.schema import Schema, first_line, literal, quoted

QUERY = "SELECT {} FROM (SELECT 1)"


def key_text(columns: Schema, values: Sequence[Any]) -> str:
    """The text of a key; an error if a value is not of its column's type."""
    given = [
        f"CAST({'NULL' if value is None else literal(str(value))} AS {c.type}) AS {quoted(c.name)}"
        for c, value in zip(columns.columns, values, strict=True)
    ]
    try:
        rows = run(QUERY.format(", ".join(given)))
    except Exception as error:  # DuckDB's, for a value that is none of the type
        raise InputError("the key is not of its columns' types", got=first_line(error)) from error
    return str(JSON.encode_key(rows, columns, table=True)[0].as_py())
