"""What types are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb


@dataclass(frozen=True)
class Type:
    """A type of DuckDB's, and what it is made of."""

    text: str
    kind: str
    parts: tuple[tuple[str, Type], ...] = ()
    size: int = 0
    """Of an array."""

    @property
    def item(self) -> Type:
        """Of a list, an array, or the values of a map."""
        return self.parts[-1][1]


@cache
def type_tree(type: str) -> Type:
    return _tree(duckdb.type(type))


def _tree(found: Any) -> Type:
    text, kind = str(found), str(found.id)
    if kind not in ("struct", "list", "map", "array"):
        return Type(text, kind)
    parts = dict(found.children)
    size = int(str(parts.pop("size", 0)))
    return Type(text, kind, tuple((name, _tree(each)) for name, each in parts.items()), size)
