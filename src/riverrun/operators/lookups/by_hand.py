"""A table that a test gives instead of a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from riverrun.operators.lookups.database import (
    Answer,
    Away,
    Cells,
    DatabaseTable,
    Question,
)
from riverrun.outputs import Need

Row = Mapping[str, Any]


@dataclass
class Content:
    """What is in the table now; None while it is away."""

    rows: list[Row] | None


@dataclass(frozen=True)
class TableByHand(DatabaseTable):
    table: str
    content: Content = field(repr=False, compare=False)

    kind = "a test's"

    @property
    def where(self) -> str:
        return "given by hand"

    def columns(self) -> dict[str, str]:
        return {name: "VARCHAR" for row in self._rows() for name in row}

    def unfit_key(self, column: str, type: str) -> str | None:
        return None

    def rows(self, question: Question, keys: Sequence[tuple[str, ...]]) -> list[Answer]:
        there: dict[Cells, list[Cells]] = {}
        for row in self._rows():
            key = tuple(_text(row.get(name)) for name in question.on)
            cells = tuple(_text(row.get(name)) for name in question.columns)
            there.setdefault(key, []).append(cells)
        found = ((n, cells) for n, key in enumerate(keys) for cells in there.get(key, ()))
        return [Answer(n, cells) for n, cells in found]

    def needs(self) -> frozenset[Need]:
        return frozenset()

    def _rows(self) -> list[Row]:
        if self.content.rows is None:
            raise Away("the test says so")
        return self.content.rows


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.hex()
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
