"""What all joins have in common: rows of two sides by key, as columns of the result.

Keys have names of their own in a join, the same on both sides: columns that are compared may be
called differently. Where both are called the same, they are one column of the result.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Required, TypedDict

import polars as pl

from riverrun.columns import HIDDEN, PLACE, RowForm
from riverrun.durations import Duration
from riverrun.errors import Location
from riverrun.kernels.letters import OnError
from riverrun.kernels.operator import (
    NO_SLOT,
    Entry,
    Input,
    PlainOperator,
    Words,
    split_late,
)
from riverrun.kernels.typed import columns_of
from riverrun.kernels.uses import Use
from riverrun.plan.nodes import Node
from riverrun.schema import Schema, quoted

On = str | Sequence[str] | Mapping[str, str]
How = Literal["inner", "left", "right", "full"]
AsOf = Literal["latest", "event time"]
PairTime = Literal["later", "left", "right"]
Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
PORTS: dict[Side, str] = {"left": "", "right": "right"}

RIGHT = "__right"
"""The suffix of hidden columns that both sides have, for those of the right one."""


class TableJoinArguments(TypedDict, total=False):
    """What a join of a stream with a table takes, whichever way the table is joined."""

    on: Required[On]
    how: Literal["inner", "left"]
    history: Duration | None
    prefix: str | None
    name: str | None
    was: str | None
    on_error: OnError | None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a program says of a join, beside its two sides."""

    on: On
    how: How
    at: Location
    prefix: str | None = None
    name: str | None = None
    on_error: OnError | None = None
    within: Duration | None = None
    """Both before and after."""
    before: Duration | None = None
    after: Duration | None = None
    condition: str | None = None
    time: PairTime = "later"
    as_of: AsOf | None = None
    history: Duration | None = None
    corrections: bool = False
    keep: Duration | None = None
    spread: int = 1


@dataclass(frozen=True)
class JoinSide:
    """What a join knows of the rows of one side."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    """Of the table, if it is one."""
    form: RowForm
    renamed: Mapping[str, str]
    """Columns that are not shared, and what they are called in the result."""


@dataclass(frozen=True, kw_only=True)
class Join(PlainOperator):
    how: How
    on: tuple[tuple[str, str], ...]
    """Pairs of columns, left and right."""
    left: JoinSide
    right: JoinSide

    hows: ClassVar[tuple[How, ...]]
    """What `how` may be."""
    phrase: ClassVar[str]
    """What is joined, for people."""

    @classmethod
    @abstractmethod
    def own_fields(cls, left: Node, right: Node, schema: Schema, asked: Asked) -> dict[str, Any]:
        """The fields that only this kind of join has, checked."""

    @classmethod
    @abstractmethod
    def right_form(cls, right: Node) -> RowForm:
        """What the join takes of its right side."""

    @classmethod
    @abstractmethod
    def added_columns(cls, right: Node, asked: Asked) -> tuple[str, ...]:
        """Texts that the join adds to the columns of both sides."""

    @abstractmethod
    def more_words(self) -> list[tuple[str, str]]: ...

    def input(self, side: Side, *, late: bool, **more: Any) -> Input:
        form = getattr(self, side).form
        return Input(port=PORTS[side], word=side, takes=form, late=late, **more)

    def key_words(self) -> list[str]:
        return [a if a == b else f"{a} = {b}" for a, b in self.on]

    def uses(self, number: int) -> Iterable[Use]:
        return ()

    def passes(self, number: int, output: str) -> Mapping[str, str]:
        side: JoinSide = getattr(self, SIDES[number])
        own = {made: name for name, made in side.renamed.items()}
        return own | {name: name for name in self.shared}

    def words(self) -> Words:
        return Words.of(("join", f"{self.how}, {self.phrase}"), *self.more_words())

    def frozen(self) -> dict[str, Any]:
        identities = [list(self.identity(side)) for side in SIDES]
        return {"keeps": self.how, "columns": self.schema.ddl(), "identities": identities}

    def keeps(self, side: Side) -> bool:
        """Whether rows of the side that match none are part of the result."""
        return self.how in (side, "full")

    def salts(self, number: int) -> tuple[str, ...]:
        """SQL for keys beyond those that are joined by."""
        return ()

    @cached_property
    def own_keys(self) -> tuple[str, ...]:
        """The keys that are columns."""
        return self.keys[: len(self.on)]

    @cached_property
    def shared(self) -> dict[str, str]:
        """Columns of the result that are keys."""
        return {a: key for key, (a, b) in zip(self.own_keys, self.on, strict=True) if a == b}

    @cached_property
    def right_columns(self) -> tuple[str, ...]:
        return tuple(self.right.renamed.values())

    @property
    def side_key(self) -> list[str]:
        return ["__hash", *self.keys]

    def identity(self, side: Side) -> tuple[str, ...]:
        """What tells the rows of a key apart: the table's key, without what the join is on."""
        rows: JoinSide = getattr(self, side)
        on = {pair[SIDES.index(side)] for pair in self.on}
        return tuple(rows.renamed[name] for name in rows.key if name not in on)

    def enter(self, number: int, rows: str) -> Entry:
        side = SIDES[number]
        entering: JoinSide = getattr(self, side)
        keys = [
            f"CAST({quoted(pair[number])} AS {type}) AS {key}"
            for key, pair, type in zip(self.own_keys, self.on, self.key_types, strict=False)
        ]
        keys += self.salts(number)
        columns = [f"{quoted(name)} AS {quoted(made)}" for name, made in entering.renamed.items()]
        place = "epoch_us(__at) AS __time" if entering.form == "facts" else NO_SLOT
        chosen = ", ".join([*keys, *columns, *HIDDEN[entering.form], place])
        present = " AND ".join(f"{quoted(pair[number])} IS NOT NULL" for pair in self.on)
        # a key that is null matches none; versions without one have failed before
        kept = self.keeps(side) or entering.form == "versions"
        return Entry(f"SELECT {chosen} FROM {rows}{'' if kept else f' WHERE {present}'}")

    def split_late(
        self, rows: pl.DataFrame, before: int, side: Side = "left"
    ) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
        timely, late = split_late(rows, self.last_closed(before), partial(self.as_entered, side))
        return timely, {PORTS[side]: late[""]} if late else {}

    def as_entered(self, side: Side, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows under the names that they had before."""
        entering: JoinSide = getattr(self, side)
        pairs = zip(self.own_keys, self.on, strict=True)
        own = {pair[SIDES.index(side)]: key for key, pair in pairs}
        names = {name: entering.renamed.get(name) or own[name] for name in entering.columns}
        return rows.select(*(pl.col(c).alias(name) for name, c in names.items()), *PLACE)

    def pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        """Pairs of rows with the same key. A key that is null is like no other."""
        return left.join(right, on=self.side_key, suffix=RIGHT, maintain_order="left_right")

    def own_columns(self) -> list[pl.Expr]:
        """The columns of the result, in their order, from pairs of rows."""
        return [pl.col(self.shared.get(name, name)).alias(name) for name in self.schema.names]

    def with_nulls(self, side: Side, rows: pl.DataFrame, *hidden: str) -> pl.DataFrame:
        """Rows of one side as rows of the result: the other side's columns are null."""
        rest: JoinSide = getattr(self, side)
        own = {name: name for name in rest.renamed.values()} | self.shared
        types = columns_of(self.schema).types
        columns = [
            (pl.col(own[name]) if name in own else pl.lit(None, type)).alias(name)
            for name, type in types.items()
        ]
        return rows.select(*columns, *hidden)
