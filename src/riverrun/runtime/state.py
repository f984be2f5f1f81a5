"""What an application keeps, as its checkpoint has it: sizes, the largest keys, rows of a key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from riverrun.compiler import upgrades
from riverrun.compiler.shape import Shape
from riverrun.config import Settings
from riverrun.errors import InputError
from riverrun.formats import JSON
from riverrun.kernels.chunks import unpack
from riverrun.kernels.known import places
from riverrun.kernels.pages import Head
from riverrun.runtime.batches import Batches
from riverrun.runtime.stored import FOLDER, StoredState
from riverrun.runtime.widths import row_bytes
from riverrun.schema import Column, Schema, nested, schema_of
from riverrun.sinks.keyed import key_text

LARGEST = 10


class Place(NamedTuple):
    """Where rows are kept: a step may have several lists."""

    step: str
    list: str
    page: int


@dataclass(frozen=True)
class Size:
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.rows + other.rows, self.bytes + other.bytes)


@dataclass
class Kept:
    """What is kept of all steps, after a batch."""

    application: str
    batch: int
    pages: int
    parts: int
    """Into how many the pages are dealt: tasks of a batch."""
    keys: dict[str, list[str]]
    """The key columns of steps."""
    sizes: dict[Place, Size] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)

    def of_step(self, step: str) -> Size:
        return sum((s for place, s in self.sizes.items() if place.step == step), Size())

    def by_page(self, step: str) -> dict[int, Size]:
        found: dict[int, Size] = defaultdict(Size)
        for place, size in self.sizes.items():
            if place.step == step:
                found[place.page] += size
        return dict(found)

    def skew(self, step: str) -> float:
        """How much more the fullest page has than it would have if all had the same."""
        rows = [size.rows for size in self.by_page(step).values()]
        return max(rows) * self.pages / sum(rows) if sum(rows) else 1.0


@dataclass(frozen=True)
class LargeKey:
    step: str
    key: dict[str, Any]
    page: int
    rows: int
    bytes: int


class State:
    """The state of one application, as its checkpoint has it."""

    def __init__(self, application: str, stored: StoredState, shape: Shape) -> None:
        self.application, self.stored = application, stored
        self.pages = shape["pages"]
        self.keys = {name: step["keys"] for name, step in shape["steps"].items()}
        self.types = {name: step["types of keys"] for name, step in shape["steps"].items()}
        self.heads = {each: stored.heads(each) for each in stored.exchanges()}

    def kept(self) -> Kept:
        batches = Batches(self.stored.query.parent)
        found = Kept(self.application, batches.committed(), self.pages, batches.parts(), self.keys)
        for each in places(self.stored.query):
            known = each.before(self.stored.batch + 1)
            found.clocks |= known.clocks if known else {}
        for heads in self.heads.values():
            for page, head in heads.items():
                for step, lists in head.sizes.items():
                    for name, size in lists.items():
                        found.sizes[Place(step, name, page)] = Size(*size)
        return found

    def frames(self, step: str | None = None) -> Iterator[tuple[Place, int, pl.DataFrame]]:
        """Rows of segments, with their age among those of their list: 0 is the newest."""
        for exchange, heads in self.heads.items():
            places = dict(_places(heads, step))
            for page, segment, data in self.stored.segments(exchange) if places else ():
                if (page, segment) in places:
                    place, age = places[page, segment]
                    yield place, age, unpack(data)

    def largest(self, step: str | None = None) -> list[LargeKey]:
        """The keys with the most bytes, with what is replaced and not merged yet."""
        found: dict[tuple[str, int], list[pl.DataFrame]] = defaultdict(list)
        for place, _, rows in self.frames(step):
            keys = self.keys.get(place.step, [])
            if keys and set(keys) <= set(rows.columns):
                sized = rows.select(keys).with_columns(row_bytes(rows).alias("__bytes"))
                found[place.step, place.page].append(_by_key(sized, keys, pl.len()))
        best = [each for (name, page), parts in found.items() for each in
                _largest(name, page, self.keys[name], parts)]  # fmt: skip
        return sorted(best, key=lambda each: -each.bytes)[:LARGEST]

    def rows(self, step: str, key: tuple[str, ...]) -> list[dict[str, Any]]:
        """The rows of a key as they are kept, the newest first."""
        columns, found = schema_of(list(zip(self.keys[step], self.types[step], strict=True))), []
        for place, age, rows in self.frames(step):
            if set(columns.names) <= set(rows.columns):
                pairs = zip(columns.columns, key, strict=True)
                wanted = [_is(column, rows, text) for column, text in pairs]
                told = {"list": place.list, "page": place.page, "segment": age}
                found += [told | row for row in rows.filter(*wanted).to_dicts()]
        return sorted(found, key=lambda row: (row["list"], row["segment"]))


def check_asked(
    settings: Settings, application: str, step: str | None, key: tuple[str, ...]
) -> None:
    """Before anything is started: there is such a step, and its key has so many columns."""
    steps = _shape(settings, application)["steps"]
    if step is None:
        return
    if step not in steps:
        known = ", ".join(steps)
        raise InputError(f"{application!r} has no step {step!r}", hint=f"there are: {known}")
    columns = steps[step]["keys"]
    if key and len(key) != len(columns):
        raise InputError(
            f"the key of {step!r} has {len(columns)} columns",
            got=f"{len(key)} values",
            hint=f"one for each of {', '.join(columns)}",
        )


def _shape(settings: Settings, application: str) -> Shape:
    folder = settings.checkpoint_of(application)
    shape = upgrades.read(folder)
    if shape is None or not (folder / "query" / FOLDER).is_dir():
        raise InputError(
            f"the application {application!r} keeps nothing",
            where=folder,
            got="no state" if shape else "no checkpoint",
            hint="has it run here? `riverrun ps` lists those that have",
        )
    upgrades.require_layout(shape, folder)
    return shape


def opened(settings: Settings, application: str) -> State:
    """The application may run, or not."""
    shape = _shape(settings, application)
    return State(application, StoredState.of(settings.checkpoint_of(application)), shape)


def _places(
    heads: dict[int, Head], step: str | None
) -> Iterator[tuple[tuple[int, str], tuple[Place, int]]]:
    for page, head in heads.items():
        for name, lists in head.segments.items():
            for each, ids in lists.items() if step in (None, name) else ():
                for age, segment in enumerate(reversed(ids)):
                    yield (page, segment), (Place(name, each, page), age)


def _is(column: Column, rows: pl.DataFrame, text: str) -> pl.Series:
    """Lists and structs are asked for as JSON."""
    if not nested(column.type):
        return rows[column.name].cast(pl.String) == text
    own = Schema((column,))
    texts = JSON.encode_key(rows.select(column.name).to_arrow(), own, table=True)
    return pl.Series(texts) == key_text(own, [text])


def _by_key(rows: pl.DataFrame, keys: list[str], count: pl.Expr) -> pl.DataFrame:
    return rows.group_by(keys).agg(count.alias("__rows"), pl.col("__bytes").sum())


def _largest(step: str, page: int, keys: list[str], parts: list[pl.DataFrame]) -> list[LargeKey]:
    found = _by_key(pl.concat(parts), keys, pl.col("__rows").sum()).top_k(LARGEST, by="__bytes")
    return [
        LargeKey(step, {name: row[name] for name in keys}, page, row["__rows"], row["__bytes"])
        for row in found.to_dicts()
    ]
