"""What a cache holds, how its rows are written, and how they are read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from riverrun import exact
from riverrun.formats import JSON
from riverrun.outputs import OutputSpec
from riverrun.schema import Schema, nested, schema_of
from riverrun.sinks.valkey.sink import Cache, Values

ENTRY = "row"
"""The field of an entry of a stream."""
EMPTY = ""
"""The field of a hash whose row has nothing but nulls: there are no empty hashes."""
PLAIN = ("BOOLEAN", "JSON", "FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Layout:
    """Noted in the server: a program that wants another one is refused."""

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    """None for a stream."""
    values: Values

    @staticmethod
    def of(output: OutputSpec) -> Layout:
        assert isinstance(output.sink, Cache)
        columns = tuple((column.name, column.type) for column in output.schema.columns)
        return Layout(columns, output.key if output.table else (), output.sink.values)

    @staticmethod
    def read(text: bytes | str) -> Layout:
        found = json.loads(text)
        return Layout(tuple(map(tuple, found["columns"])), tuple(found["key"]), found["values"])

    def written(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @property
    def schema(self) -> Schema:
        return schema_of(list(self.columns))

    def differences(self, found: Layout) -> list[str]:
        there, wanted = dict(found.columns), dict(self.columns)
        names = [*wanted, *(name for name in there if name not in wanted)]
        told = [
            f"{name} is {there.get(name, 'missing')}, not {wanted.get(name, 'written')}"
            for name in names
            if there.get(name) != wanted.get(name)
        ]
        if found.key != self.key:
            told.append(f"the key is {', '.join(found.key)}, not {', '.join(self.key)}")
        if found.values != self.values:
            told.append(f"rows are kept as {found.values}, not as {self.values}")
        return told

    def typed(self, texts: Sequence[bytes | str]) -> pa.Table:
        """Rows from their JSON."""
        values = pa.array([t.encode() if isinstance(t, str) else t for t in texts], pa.binary())
        records = pa.table({"__value": values, "__key": pa.nulls(len(texts), pa.binary())})
        return JSON.read(records, self.schema).select(list(self.schema.names))

    def as_hash(self, text: str) -> dict[str, str]:
        """A row's columns as texts; those that are null are left out."""
        row = {name: value for name, value in exact.loads(text).items() if value is not None}
        return {name: _text(value) for name, value in row.items()} or {EMPTY: EMPTY}

    def from_hash(self, found: Mapping[bytes, bytes]) -> str:
        """The row's JSON again."""
        texts = {name.decode(): value.decode() for name, value in found.items()}
        parts = [
            f"{json.dumps(name)}: {_json(texts[name], type)}"
            for name, type in self.columns
            if name in texts
        ]
        return f"{{{', '.join(parts)}}}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else exact.dumps(value)


def _json(text: str, type: str) -> str:
    """Texts are as they are; NaN and the infinities are words."""
    number = ("INT" in type and not nested(type)) or type.startswith("DECIMAL")
    if not (nested(type) or number or type in PLAIN):
        return json.dumps(text)
    return json.dumps(text) if text in ("NaN", "Infinity", "-Infinity") else text
