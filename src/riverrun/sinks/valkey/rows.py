"""What a cache holds, how its rows are written, and how they are read again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
AT_ONCE = 1000
"""Rows that are read together."""
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
        return JSON.read_back(records, self.schema).select(list(self.schema.names))

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


def rows_of(client: Any, cache: str, layout: Layout) -> Iterator[list[tuple[bytes, bytes | str]]]:
    """Keys and rows of a table, in JSON, by scanning: what is there all the time comes once."""
    seen: set[bytes] = set()
    pattern = re.sub(r"([\\*?\[\]])", r"\\\1", cache) + ":*"
    for lot in _lots(client.scan_iter(pattern, count=AT_ONCE)):
        fresh = list(dict.fromkeys(key for key in lot if key not in seen))
        seen.update(fresh)
        texts = texts_of(client, fresh, layout)
        yield [(key, text) for key, text in zip(fresh, texts, strict=True) if text is not None]


def texts_of(client: Any, keys: Sequence[str | bytes], layout: Layout) -> list[bytes | str | None]:
    """The JSON of the rows of some keys, at one moment."""
    if not keys:
        return []
    if layout.values == "json":
        return list(client.mget(keys))
    with client.pipeline() as pipe:
        for key in keys:
            pipe.hgetall(key)
        found = pipe.execute()
    return [layout.from_hash(each) if each else None for each in found]


def _lots(found: Iterable[bytes]) -> Iterator[list[bytes]]:
    lot: list[bytes] = []
    for each in found:
        lot.append(each)
        if len(lot) == AT_ONCE:
            yield lot
            lot = []
    if lot:
        yield lot


def _text(value: Any) -> str:
    return value if isinstance(value, str) else exact.dumps(value)


def _json(text: str, type: str) -> str:
    """Texts are as they are; NaN and the infinities are words."""
    number = ("INT" in type and not nested(type)) or type.startswith("DECIMAL")
    if not (nested(type) or number or type in PLAIN):
        return json.dumps(text)
    return json.dumps(text) if text in ("NaN", "Infinity", "-Infinity") else text
