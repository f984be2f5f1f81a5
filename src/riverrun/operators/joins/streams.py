"""Streams joined within a time: either side may come first.

Rows are kept in buckets of time as long as both bounds together, so that what may match a row is in
two of them. For outer joins, rows that have matched none yet are noted in a list of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import polars as pl

from riverrun.columns import PLACE, RowForm
from riverrun.durations import BEGINNING, duration_text, microseconds
from riverrun.errors import ProgramError
from riverrun.kernels.functions import Function
from riverrun.kernels.isolation import isolated
from riverrun.kernels.letters import Failure, judge
from riverrun.kernels.operator import Batch, Input, Leaving, Result, StepState
from riverrun.kernels.sql import shared_evaluator
from riverrun.kernels.state import SegmentList
from riverrun.kernels.uses import Use
from riverrun.operators.joins.join import RIGHT, Asked, How, Join, PairTime, Side
from riverrun.plan.building import checked_condition
from riverrun.plan.nodes import Node
from riverrun.plan.rows import passed_on
from riverrun.schema import Schema, plain

ROW = ["__pos", "__sub"]
MIXERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""Odd numbers that spread others over 64 bits."""
SALT = "__salt"
MOST_SPREAD = 1024
OTHER: dict[Side, Side] = {"left": "right", "right": "left"}


@dataclass(frozen=True, kw_only=True)
class StreamJoin(Join):
    key: tuple[str, ...]
    """That rows are written with."""
    before: int
    after: int
    """A right row matches from `before` a left one's time until `after` it."""
    condition: str | None
    time: PairTime
    spread: int
    """Over how many keys each key is spread: left rows are dealt to them, right ones are in all."""

    kind = "join streams"
    hows = get_args(How)
    phrase = "two streams"

    @classmethod
    def own_fields(cls, left: Node, right: Node, schema: Schema, asked: Asked) -> dict[str, Any]:
        before, after = _bounds(asked)
        condition = asked.condition and checked_condition(asked.condition, schema, asked.at)
        _check_spread(asked)
        times = {"before": before, "after": after, "time": asked.time, "spread": asked.spread}
        return {"key": passed_on(left, schema), "condition": condition, **times}

    @classmethod
    def right_form(cls, right: Node) -> RowForm:
        return "facts"

    @classmethod
    def added_columns(cls, right: Node, asked: Asked) -> tuple[str, ...]:
        return ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.input("left", late=True), self.input("right", late=True)

    @property
    def holds(self) -> bool:
        return self.keeps("left") or self.keeps("right")

    @property
    def leaving(self) -> Leaving:
        # a row that matches none leaves when it no longer can, a pair when its later row comes
        delay = max(
            self.after if self.keeps("left") or self.time == "left" else 0,
            self.before if self.keeps("right") or self.time == "right" else 0,
        )
        return Leaving(form="facts", key=self.key, delay=delay)

    def more_words(self) -> list[tuple[str, str]]:
        before, after = duration_text(self.before), duration_text(self.after)
        said = [("within", f"{before} before, {after} after")]
        if self.time != "later":
            said.append(("time", f"that of the {self.time} row"))
        if self.spread > 1:
            said.append(("spread", f"each key over {self.spread} pages"))
        return said + ([("where", plain(self.condition))] if self.condition else [])

    def uses(self, number: int) -> Iterable[Use]:
        """The condition is over the columns of the result."""
        for each in Use.of_sql("where", self.condition):
            known = self.passes(number, "").items()
            named = [name for made, name in known if made.lower() in each.columns]
            yield Use.of(each.what, named, each.text)

    def frozen(self) -> dict[str, Any]:
        # rows are kept in buckets as long as both bounds together
        return super().frozen() | {"bounds": [self.before, self.after], "spread": self.spread}

    def salts(self, number: int) -> tuple[str, ...]:
        if self.spread == 1:
            return ()
        # the low end of a position is the offset: rows are dealt evenly, and always in the same way
        left = f"(abs(__pos) % {self.spread} + abs(__sub) % {self.spread}) % {self.spread}"
        chosen = f"unnest(range({self.spread}))" if number else left
        return (f"CAST({chosen} AS BIGINT) AS {SALT}",)

    def settings(self) -> dict[str, Any]:
        return {"condition": self.condition, "time": self.time}

    def last_closed(self, clock: int) -> int:
        return clock - 1

    def _late_once(self, rows: pl.DataFrame, before: int) -> dict[str, pl.DataFrame]:
        """Of rows that are in all of its keys, one is enough."""
        return self.split_late(rows.filter(pl.col(SALT) == 0), before, "right")[1]

    @property
    def fails_on(self) -> str | None:
        return "pairs that a condition fails on" if self.condition else None

    def advance(self, state: StepState, batch: Batch) -> Result:
        join = _Join(self, state, batch.functions)
        result = join.result
        new: dict[Side, pl.DataFrame | None] = {"left": batch.rows, "right": batch.right}
        for side, rows in new.items():
            if rows is not None:
                timely, late = self.split_late(rows, batch.before, side)
                if late and self.spread > 1 and side == "right":
                    late = self._late_once(rows, batch.before)
                new[side] = _bucketed(self, timely) if timely.height else None
                result.late |= late
        join.match(new["left"], new["right"])
        join.match(new["left"], join.near("right", new["left"]))
        join.match(join.near("left", new["right"]), new["right"])
        for side, rows in new.items():
            join.keep(side, rows, batch)
        result.failed = judge(join.failures, batch.topics)
        result.waiting = any(
            join.open(side).last_time() >= batch.after for side in OTHER if self.keeps(side)
        )
        return result


def _reach(step: StreamJoin, side: Side) -> tuple[int, int]:
    """How far before and after a row of the side its partners may be."""
    return (step.before, step.after) if side == "left" else (step.after, step.before)


def _width(step: StreamJoin) -> int:
    return max(step.before + step.after, 1)


def _bucketed(step: StreamJoin, rows: pl.DataFrame) -> pl.DataFrame:
    """With `__slot`, the bucket of its time."""
    time = pl.col("__time")
    return rows.with_columns(__slot=time - time % _width(step))


class _Join:
    """One batch of a join in one page."""

    def __init__(self, step: StreamJoin, state: StepState, functions: tuple[Function, ...]) -> None:
        self.step, self.state, self.result = step, state, Result()
        self.evaluator = shared_evaluator(functions)
        self.failures: list[Failure] = []
        self.matched: dict[Side, list[pl.DataFrame]] = {"left": [], "right": []}

    def rows(self, side: Side) -> SegmentList:
        return self.state.rows(side, within_key=None)

    def open(self, side: Side) -> SegmentList:
        """Rows that have matched none so far."""
        return self.state.rows(f"open {side}", within_key=tuple(ROW))

    def near(self, side: Side, rows: pl.DataFrame | None) -> pl.DataFrame | None:
        """Rows kept of a side that may match rows of the other."""
        if rows is None:
            return None
        before, after = _reach(self.step, OTHER[side])
        width = _width(self.step)
        bounds = [pl.col("__time") - before, pl.col("__time") + after]
        key = self.step.side_key
        wanted = [rows.select((bound - bound % width).alias("__slot"), *key) for bound in bounds]
        return self.rows(side).lookup(pl.concat(wanted).unique(maintain_order=True))

    def match(self, left: pl.DataFrame | None, right: pl.DataFrame | None) -> None:
        if left is None or right is None:
            return
        step, time, other = self.step, pl.col("__time"), pl.col(f"__time{RIGHT}")
        pairs = step.pairs(left, right)
        pairs = pairs.filter(other.is_between(time - step.before, time + step.after))
        pairs = self._fulfilling(pairs)
        if not pairs.height:
            return
        for side, suffix in (("left", ""), ("right", RIGHT)):
            if step.keeps(side):  # type: ignore[arg-type]
                place = [pl.col(f"{name}{suffix}").alias(name) for name in ["__slot", *ROW]]
                self.matched[side].append(pairs.select(*step.side_key, *place))  # type: ignore[index]
        made = pairs.select(*step.own_columns(), *_place_of_pair(step))
        self.result.streams.setdefault("", []).append(made)

    def _fulfilling(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Those for which the program's own condition holds."""
        step = self.step
        if step.condition is None or not pairs.height:
            return pairs
        numbered = pairs.with_row_index("__number")
        rows = numbered.select("__number", *step.own_columns(), *PLACE).to_arrow()
        query = f"SELECT __number FROM rows WHERE ({step.condition})"
        kept, failed = isolated(
            self.evaluator, query, rows, line=str(step.at), on_error=step.on_error
        )
        self.failures += failed
        chosen = pl.Series(kept["__number"].to_numpy())
        return pairs.filter(pl.int_range(pl.len()).is_in(chosen.implode()))

    def keep(self, side: Side, rows: pl.DataFrame | None, batch: Batch) -> None:
        """Keeps the side's rows, and gives those that can match no more."""
        after, width = _reach(self.step, side)[1], _width(self.step)
        kept = self.rows(side)
        if rows is not None:
            kept.append(rows.sort("__slot", "__hash"), BEGINNING)
        if self.step.keeps(side):
            self._note(side, rows, after)
            self._fire(side, batch.before - 1, batch.after - 1)
        kept.append(None, batch.after - after - width)

    def _note(self, side: Side, rows: pl.DataFrame | None, after: int) -> None:
        """Rows that match none are open; those that have matched are so no more."""
        unmatched, key = self.open(side), self.step.side_key
        matched = self.matched[side]
        done = pl.concat(matched).unique(maintain_order=True) if matched else None
        identity = ["__slot", *key, *ROW]
        if rows is not None:
            alone = rows if done is None else rows.join(done, on=ROW, how="anti")
            until = pl.col("__time") + after
            noted = alone.select(*identity, until.alias("__until"), __dead=pl.lit(False))
            if noted.height:
                unmatched.append(noted.sort("__slot", "__hash"), BEGINNING)
        known = None if done is None else unmatched.lookup(done)
        if known is not None and done is not None:
            gone = known.join(done, on=ROW, how="semi").with_columns(__dead=pl.lit(True))
            if gone.height:
                unmatched.append(gone.sort("__slot", "__hash"), BEGINNING)

    def _fire(self, side: Side, low: int, high: int) -> None:
        unmatched = self.open(side)
        due = unmatched.due(max(low, BEGINNING), high) if high > low else None
        if due is not None and due.height:
            found = self.rows(side).lookup(due)
            assert found is not None
            alone = found.join(due, on=ROW, how="semi")
            made = self.step.with_nulls(side, alone, *PLACE)
            self.result.streams.setdefault("", []).append(made)
        unmatched.append(None, high)


def _place_of_pair(step: StreamJoin) -> Iterator[pl.Expr]:
    """Where a pair stands among others does not depend on which row came first."""
    times = {"left": ["__at"], "right": [f"__at{RIGHT}"], "later": ["__at", f"__at{RIGHT}"]}
    yield pl.max_horizontal(times[step.time]).alias("__at")
    yield pl.col(f"__pos{RIGHT}").alias("__pos")
    parts = ("__pos", "__sub", f"__sub{RIGHT}")
    mixed = pl.lit(0, pl.UInt64)
    for name, odd in zip(parts, MIXERS, strict=True):
        mixed = mixed + pl.col(name).reinterpret(signed=False) * pl.lit(odd, pl.UInt64)
    yield (mixed // (1 << 32)).cast(pl.Int64).alias("__sub")


def _check_spread(asked: Asked) -> None:
    if not 1 <= asked.spread <= MOST_SPREAD:
        raise ProgramError(
            f"spread is a number of keys from 1 to {MOST_SPREAD}", where=asked.at, got=asked.spread
        )
    if asked.spread > 1 and asked.how not in ("inner", "left"):
        raise ProgramError(
            "only inner and left joins can be spread",
            where=asked.at,
            got=f"how={asked.how!r}",
            hint="rows of the right side are copied: one without a partner would leave many times",
        )


def _bounds(asked: Asked) -> tuple[int, int]:
    if asked.before is None and asked.after is None:
        raise ProgramError(
            "a join of two streams needs a time",
            where=asked.at,
            hint='within="1 minute"; or before="…", after="…": where the right row may be, '
            "seen from the left one",
        )
    before, after = (
        0 if each is None else microseconds(each, asked.at) for each in (asked.before, asked.after)
    )
    return before, after
