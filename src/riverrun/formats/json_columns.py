"""Columns of a record's own, as they are read from its JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from riverrun.formats.json_checks import incomplete
from riverrun.formats.json_scalars import EXACT, whole
from riverrun.formats.json_types import Reading
from riverrun.formats.types import type_tree
from riverrun.schema import Column, literal, quoted


@dataclass(frozen=True)
class Reader:
    """Reads a column in two steps: the second sees what the first gave by its name."""

    column: Column
    lenient: bool

    @property
    def reading(self) -> Reading:
        return Reading("lenient" if self.lenient else "quick")

    @property
    def read_as(self) -> str:
        return self.reading.read_as(type_tree(self.column.type))

    def first(self, value: str) -> str:
        type = type_tree(self.column.type)
        if type.parts:
            return self.reading.decoded(value, type)
        return self.reading.scalar(type).first.format(value)

    def then(self, value: str) -> str:
        """What a double does not hold is read again."""
        type = type_tree(self.column.type)
        if self.lenient or not re.search(r"\bBIGINT\b", self.column.type):
            return value if type.parts else self.reading.scalar(type).then.format(value)
        if type.parts:
            return f"CASE WHEN {incomplete(value, type)} THEN {self._again()} ELSE {value} END"
        shape = literal(json.dumps({self.column.name: "BIGINT"}))
        again = f"TRY(json_transform(__text, {shape})).{quoted(self.column.name)}"
        return f"CASE WHEN abs({value}) >= {EXACT} THEN {again} ELSE {whole('BIGINT', value)} END"

    def _again(self) -> str:
        reading, type = Reading(), type_tree(self.column.type)
        shape = literal(json.dumps({self.column.name: reading.read_as(type)}))
        parsed = f"TRY(json_transform(__text, {shape})).{quoted(self.column.name)}"
        # in a list, so that it is parsed once
        return f"list_transform([{parsed}], lambda y: {reading.decoded('y', type)})[1]"
