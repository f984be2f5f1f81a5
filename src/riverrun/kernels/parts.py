"""What an aggregate is made of: parts, which are columns, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl


@dataclass(frozen=True)
class Since:
    """Of an aggregate that a program got while its state was there already."""

    generation: int
    """Tells its parts from those of others that had its name before."""
    empty: bytes
    """Its parts where no row has come since: a packed frame of one row."""


@dataclass(frozen=True)
class Aggregation:
    """One result column: what is computed, over which expression."""

    name: str
    kind: str
    expression: str | None
    type: str
    argument: str | None = None
    """The expression's type."""
    total: str | None = None
    """The type that sums have."""
    signed: bool = False
    """Over the rows of a table, which come and go."""
    fractions: tuple[float, ...] = ()
    k: int = 0
    weight: str | None = None
    other: str | None = None
    """A second expression; a row without a value of it counts for nothing."""
    values: tuple[str | int | float | bool, ...] = ()
    compared_to: int = 0
    """Microseconds to the earlier window that the result is compared with; 0 is none."""
    falls: bool = False
    """Whether a window without rows is compared with an earlier one that had some."""
    own: Any = None
    """What is known of an aggregate of the user's own, if it is one."""
    since: Since | None = None
    """Where it is younger than its step's state: nothing is known of rows that came before."""

    @property
    def kept_as(self) -> str:
        """The name of its parts."""
        return self.name if self.since is None else f"{self.name}@{self.since.generation}"

    @property
    def frozen(self) -> dict[str, Any]:
        """What its parts depend on."""
        found = asdict(replace(self, own=None, since=None))
        del found["own"], found["since"], found["falls"]
        if self.other is None:  # as checkpoints have it that know of none
            del found["other"]
        return found if self.own is None else {**found, "state": self.own.state.ddl()}


def compared_names(name: str) -> tuple[str, str, str]:
    return f"{name}_earlier", f"{name}_difference", f"{name}_ratio"


Parts = dict[str, pl.Expr]
"""The parts of an aggregate by suffix; in results also `seconds`, the length of the window."""
Change = Callable[[pl.DataFrame, dict[str, str]], pl.DataFrame]
"""Changes the part columns of a frame, whose names are given by suffix."""


@dataclass(frozen=True)
class Part:
    """One column of an accumulator."""

    suffix: str
    from_rows: str
    """SQL over the rows of a group: `{x}` is the argument, `{given}` says that it is not null."""
    merge: Callable[[Parts], pl.Expr]
    from_row: str = ""
    """The same of a single row, without a group; empty where there is no simple way."""


@dataclass(frozen=True)
class Kind:
    """An aggregate: its parts, and the result that they give."""

    parts: tuple[Part, ...]
    result: Callable[[Parts, Aggregation], pl.Expr]
    prepare: Change | None = None
    """Done once, after the SQL."""
    settle: Change | None = None
    """Done after each merge."""

    def columns(self, name: str) -> dict[str, str]:
        """The columns of the parts of an aggregate with this name."""
        return {part.suffix: f"__{name}__{part.suffix}" for part in self.parts}


def younger(kind: Kind) -> Kind:
    """The same where nothing is known of rows that came before: no result without any since."""
    return replace(
        kind,
        parts=(*kind.parts, KNOWN),
        result=lambda parts, each: pl.when(parts["known"]).then(kind.result(parts, each)),
    )


def total(suffix: str) -> Callable[[Parts], pl.Expr]:
    """Merges by summing."""
    return lambda parts: parts[suffix].sum()


def of_lists(change: Callable[[pl.Series], pl.Series]) -> Change:
    """A change of the only part, `v`, as a whole column."""
    return lambda rows, columns: rows.with_columns(change(rows[columns["v"]]))


KNOWN = Part("known", "count(*) > 0", lambda parts: parts["known"].any(), "true")
"""Of an aggregate that is younger than its step's state: whether any row has come since."""
N = Part("n", "count({x})", total("n"), "({given})::BIGINT")
SIGNED_N = Part("n", "coalesce(sum(__op) FILTER ({given}), 0)::BIGINT", total("n"))
S = Part("s", "coalesce(sum({x}), 0)::{sum}", total("s"), "coalesce({x}, 0)::{sum}")
SIGNED_S = Part("s", "coalesce(sum({x}::{sum} * __op), 0)::{sum}", total("s"))


def counted(suffix: str, condition: str) -> Part:
    """How many values of a table's rows hold a condition."""
    return Part(suffix, f"coalesce(sum(__op) FILTER ({condition}), 0)::BIGINT", total(suffix))


ODD = (counted("nan", "isnan({x})"), counted("up", "{x} = 'inf'"), counted("down", "{x} = '-inf'"))
"""Numbers that nothing is left of when they are taken out of a sum: they are counted instead."""
FINITE_S = Part("s", "coalesce(sum({x}::DOUBLE * __op) FILTER (isfinite({x})), 0)", total("s"))


def with_odd(parts: Parts) -> pl.Expr:
    """The sum of numbers, some of which may not be finite."""
    nan = (parts["nan"] > 0) | ((parts["up"] > 0) & (parts["down"] > 0))
    return (
        pl.when(nan)
        .then(float("nan"))
        .when(parts["up"] > 0)
        .then(float("inf"))
        .when(parts["down"] > 0)
        .then(float("-inf"))
        .otherwise(parts["s"])
    )
