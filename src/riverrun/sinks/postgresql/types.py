"""Types of columns: riverrun's (DuckDB's names) as PostgreSQL's, and back."""

from __future__ import annotations

import re

from riverrun.schema import nested

SIMPLE = {
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INTEGER": "integer",
    "BIGINT": "bigint",
    "HUGEINT": "numeric",
    "UTINYINT": "smallint",
    "USMALLINT": "integer",
    "UINTEGER": "bigint",
    "UBIGINT": "numeric",
    "UHUGEINT": "numeric",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DATE": "date",
    "TIME": "time without time zone",
    "UUID": "uuid",
    "BLOB": "bytea",
    "JSON": "jsonb",
    '"NULL"': "text",
}

WIDER = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "text": ("character varying",),
    "uuid": ("text", "character varying"),
    "timestamp with time zone": ("timestamp without time zone",),
    "jsonb": ("json", "text"),
}
"""Other types that hold every value. A timestamp without a zone holds UTC."""

BACK = {
    "text": "VARCHAR",
    "character varying": "VARCHAR",
    "character": "VARCHAR",
    "name": "VARCHAR",
    "boolean": "BOOLEAN",
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "date": "DATE",
    "time without time zone": "TIME",
    "timestamp with time zone": "TIMESTAMP",
    "timestamp without time zone": "TIMESTAMP",
    "uuid": "UUID",
    "bytea": "BLOB",
    "json": "JSON",
    "jsonb": "JSON",
}

_DECIMAL = re.compile(r"(?:DECIMAL|numeric)\((\d+),(\d+)\)")
WIDEST_DECIMAL = 38


def column_type(type: str) -> str | None:
    """The type of a column that holds this; None if there is none."""
    if nested(type):
        return "jsonb"
    if type.startswith("TIMESTAMP"):
        return "timestamp with time zone"
    if type.startswith("ENUM"):
        return "text"
    if decimal := _DECIMAL.fullmatch(type):
        return f"numeric({decimal[1]},{decimal[2]})"
    return SIMPLE.get(type)  # any other: has none


def schema_type(found: str) -> str:
    """What a column of this type (as `format_type` names it) is read as; text if nothing fits."""
    if found.endswith("[]"):
        return f"{schema_type(found.removesuffix('[]'))}[]"
    if decimal := _DECIMAL.fullmatch(found):
        digits, scale = int(decimal[1]), int(decimal[2])
        return f"DECIMAL({digits},{scale})" if digits <= WIDEST_DECIMAL else "VARCHAR"
    bare = re.sub(r"\(\d+\)", "", found)
    return BACK.get(bare, "VARCHAR")  # any other: text


def fits(wanted: str, found: str) -> bool:
    """Whether a column of the type that was found holds every value of the one that is wanted."""
    bare = re.sub(r"(timestamp|time)\(6\)", r"\1", found)
    # any other: only itself is wide enough
    if wanted == bare or bare in WIDER.get(wanted, ()):
        return True
    if not wanted.startswith("numeric"):
        return False
    if found == "numeric":
        return True
    asked, there = _DECIMAL.fullmatch(wanted), _DECIMAL.fullmatch(found)
    if asked is None or there is None:
        return False
    digits, scale = int(asked[1]), int(asked[2])
    return int(there[2]) >= scale and int(there[1]) - int(there[2]) >= digits - scale
