"""Types of columns: riverrun's (DuckDB's names) as SQLite's, and back.

SQLite has five kinds of values; the declared type of a column says which of them it prefers.
"""

from __future__ import annotations

import re

from riverrun.schema import nested

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
TEXTS = ("VARCHAR", "HUGEINT", "UBIGINT", "UHUGEINT", "TIME", "UUID", "JSON", '"NULL"')
"""Numbers beyond 64 bits, and decimals, are written as text: no digit is lost."""

BACK = {"INTEGER": "BIGINT", "REAL": "DOUBLE", "TEXT": "VARCHAR", "BLOB": "BLOB"}


def column_type(type: str) -> str | None:
    """The type of a column that holds this; None if there is none."""
    if type in INTEGERS:
        return "INTEGER"
    if type in ("FLOAT", "DOUBLE"):
        return "REAL"
    if type in ("BOOLEAN", "DATE", "BLOB"):
        return type
    if type.startswith("TIMESTAMP"):
        return "TIMESTAMP"
    return "TEXT" if nested(type) or type in TEXTS or re.match("ENUM|DECIMAL", type) else None


def schema_type(found: str) -> str:
    """What a column of this declared type is read as."""
    if found in ("BOOLEAN", "DATE", "TIMESTAMP"):
        return found
    return BACK.get(affinity(found), "VARCHAR")


def affinity(declared: str) -> str:
    """The kind of value that SQLite prefers in a column, by its own rules."""
    name = declared.upper()
    for words, kind in (
        (("INT",), "INTEGER"),
        (("CHAR", "CLOB", "TEXT"), "TEXT"),
        (("BLOB",), "BLOB"),
        (("REAL", "FLOA", "DOUB"), "REAL"),
    ):
        if any(word in name for word in words):
            return kind
    return "NUMERIC" if name else "BLOB"


def fits(wanted: str, found: str) -> bool:
    """Whether a column holds every value as it is written, without SQLite's changing it."""
    kinds = {
        "INTEGER": ("INTEGER", "NUMERIC", "BLOB"),
        "BOOLEAN": ("INTEGER", "NUMERIC", "BLOB"),
        "REAL": ("REAL", "BLOB"),
        "TEXT": ("TEXT", "BLOB"),
        "TIMESTAMP": ("TEXT", "NUMERIC", "BLOB"),
        "DATE": ("TEXT", "NUMERIC", "BLOB"),
        "BLOB": ("TEXT", "NUMERIC", "BLOB"),
    }
    return affinity(found) in kinds[wanted]
