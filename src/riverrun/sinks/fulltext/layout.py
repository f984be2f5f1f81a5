"""What an index holds of each column: how it is searched, filtered and given back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import tantivy
from tantivy import SchemaBuilder

from riverrun.schema import Schema, quoted, schema_of
from riverrun.sinks.fulltext.analysis import analyzer

Kind = Literal["text", "word", "integer", "unsigned", "float", "boolean", "time", "clock"]
"""Words of a text; a text as a whole; numbers; times and dates; times of a day."""

KEY, ROW, PROGRESS = "_key", "_row", "_progress"
"""Fields beside those of columns: what a row is replaced by, the row, the note of a batch."""

VERSION = 2
"""Of how words are indexed: 2 has one form for all small letters of a capital."""
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
FLOATS = ("FLOAT", "DOUBLE", "HUGEINT", "UHUGEINT")
WORDS = r"(VARCHAR|UUID|ENUM\(.*\))(\[\])?"
EXACT_DIGITS = 18
"""Decimals of so many digits fit into 64 bits."""


@dataclass(frozen=True)
class Field:
    """A column that can be searched, under a name that tantivy takes."""

    column: str
    type: str
    kind: Kind
    name: str
    language: str | None = None
    stop_words: bool = False

    @property
    def many(self) -> bool:
        return self.type.endswith("[]")

    @property
    def scale(self) -> int:
        """Digits after the point of a decimal that is kept as a whole number."""
        found = re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", self.type)
        return int(found[1]) if found and self.kind == "integer" else 0

    @property
    def analyzer(self) -> tantivy.TextAnalyzer:
        return analyzer(self.language, self.stop_words)

    @property
    def tokenizer(self) -> str:
        return f"riverrun-{self.language}-{self.stop_words}" if self.kind == "text" else "raw"

    def expression(self) -> str:
        """The column's value as the index takes it."""
        column = quoted(self.column)
        match self.kind:
            case "text" | "word":
                return f"{column}::VARCHAR{'[]' if self.many else ''}"
            case "integer" if self.scale:
                return f"({column}::DECIMAL(38,{self.scale}) * {10**self.scale})::BIGINT"
            case "integer":
                return f"{column}::BIGINT"
            case "unsigned":
                return f"{column}::UBIGINT"
            case "float":
                return f"CASE WHEN isfinite({column}::DOUBLE) THEN {column}::DOUBLE END"
            case "boolean":
                return column
            case "time":
                return f"CASE WHEN isfinite({column}) THEN epoch_us({column}::TIMESTAMP) END"
            case "clock":
                return f"epoch_us({column})"


@dataclass(frozen=True)
class Layout:
    """Noted beside the index: a program that wants another one is refused."""

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    """None for a stream, whose rows are only added."""
    text: tuple[str, ...]
    languages: tuple[tuple[str, str], ...]
    stop_words: tuple[str, ...]
    stored: tuple[str, ...]
    version: int = VERSION

    @staticmethod
    def read(text: str) -> Layout:
        found = json.loads(text)
        pairs = {name: tuple(map(tuple, found[name])) for name in ("columns", "languages")}
        lists = {name: tuple(found[name]) for name in ("key", "text", "stop_words", "stored")}
        given: dict[str, Any] = {**pairs, **lists, "version": found["version"]}
        return Layout(**given)

    def written(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)

    @property
    def row(self) -> Schema:
        """The columns that are given back."""
        return schema_of([pair for pair in self.columns if pair[0] in self.stored])

    @cached_property
    def fields(self) -> dict[str, Field]:
        return {each.column: each for each in self._fields()}

    def _fields(self) -> Iterator[Field]:
        languages = dict(self.languages)
        for number, (column, type) in enumerate(self.columns):
            kind = "text" if column in self.text else kind_of(type)
            if kind is not None:
                name = f"c{number}"
                own = languages.get(column), column in self.stop_words
                yield Field(column, type, kind, name, *own)

    @cached_property
    def schema(self) -> tantivy.Schema:
        made = SchemaBuilder()
        made.add_text_field(KEY, tokenizer_name="raw", index_option="basic")
        made.add_bytes_field(ROW, stored=True)
        made.add_bytes_field(PROGRESS, stored=True)
        for field in self.fields.values():
            _add(made, field)
        return made.build()

    def differences(self, found: Layout) -> list[str]:
        """What another layout has that this one does not want, in words."""
        if found.version != self.version:
            return [f"it was made by another version ({found.version}, not {self.version})"]
        there, wanted = dict(found.columns), dict(self.columns)
        names = [*wanted, *(name for name in there if name not in wanted)]
        told = [
            f"{name} is {there.get(name, 'missing')}, not {wanted.get(name, 'written')}"
            for name in names
            if there.get(name) != wanted.get(name)
        ]
        for option in ("key", "text", "languages", "stop_words", "stored"):
            mine, other = getattr(self, option), getattr(found, option)
            if mine != other and not told:
                told.append(f"{option.replace('_', ' ')}: {_listed(other)}, not {_listed(mine)}")
        return told


def _add(made: SchemaBuilder, field: Field) -> None:
    match field.kind:
        case "text":
            made.add_text_field(field.name, tokenizer_name=field.tokenizer)
        case "word":
            made.add_text_field(field.name, tokenizer_name="raw", index_option="basic")
        case "integer" | "time" | "clock":
            made.add_integer_field(field.name, indexed=True, fast=True)
        case "unsigned":
            made.add_unsigned_field(field.name, indexed=True, fast=True)
        case "float":
            made.add_float_field(field.name, indexed=True, fast=True)
        case "boolean":
            made.add_boolean_field(field.name, indexed=True, fast=True)


def kind_of(type: str) -> Kind | None:
    """How a column that is not searched by its words can be looked for; None if it cannot."""
    if re.fullmatch(WORDS, type):
        return "word"
    if type in INTEGERS:
        return "integer"
    if found := re.fullmatch(r"DECIMAL\((\d+),\d+\)", type):
        return "integer" if int(found[1]) <= EXACT_DIGITS else "float"
    if type in FLOATS:
        return "float"
    if type == "DATE" or type.startswith("TIMESTAMP"):
        return "time"
    # any other: lists, structs, maps and JSON are only given back
    return {"UBIGINT": "unsigned", "BOOLEAN": "boolean", "TIME": "clock"}.get(type)  # type: ignore[return-value]


def _listed(value: tuple[object, ...]) -> str:
    texts = [" ".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value]
    return ", ".join(texts) or "none"
