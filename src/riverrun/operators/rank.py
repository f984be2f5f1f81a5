"""Rankings: of the rows of a group, the first ones by a value.

A group may have many rows of which few are shown. The best of them, up to twice as many as there
are places, are kept in a list of their own, the others in the rest. Only when so many of the best
have gone that places would be empty, the rest is looked through. So a change costs by the number of
places, not by the size of the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from riverrun.durations import BEGINNING
from riverrun.errors import Location, ProgramError
from riverrun.kernels import sql
from riverrun.kernels.changes import changed, latest, net
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Leaving,
    PlainOperator,
    Result,
    Standing,
    StepState,
    Words,
)
from riverrun.kernels.state import SegmentList
from riverrun.kernels.uses import Use
from riverrun.operators.finished import Finished
from riverrun.operators.keep import keeping
from riverrun.plan.building import free_name, step_fields
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import key_of
from riverrun.schema import Column, Schema, nested, plain

PLACE = pl.col("__place")
WAS_BEST, NEW, RESTED = 0, 1, 2
"""Where a row comes from."""


@dataclass(frozen=True, kw_only=True)
class Rank(PlainOperator):
    columns: tuple[str, ...]
    """Of the table that is ranked."""
    identity: tuple[str, ...]
    """What tells the rows of a group apart."""
    limit: int
    by: str
    descending: bool
    place: str | None
    """The column that tells the place of a row, if there is to be one."""
    finished: Finished | None
    """The window that groups belong to and end with, if they do."""

    kind = "rank"
    takes = "changes"
    can_be_late = False

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="changes", key=(*self.keys, *self.identity))

    def enter(self, number: int, rows: str) -> Entry:
        value = f"({self.by}) AS __by"
        if self.finished is None:
            return Entry.of_changes(self.columns, rows, value)
        return Entry.of_changes(self.columns, rows, value, slot=self.finished.slot)

    def uses(self, number: int) -> Iterable[Use]:
        return Use.of_sql("by", self.by)

    def words(self) -> Words:
        word = "highest" if self.descending else "lowest"
        rows = "row" if self.limit == 1 else f"{self.limit} rows"
        ends = "" if self.finished is None else f", of {self.finished.column} while it is open"
        return Words.of(("keeps", f"the {rows} with the {word} {plain(self.by)}{ends}"))

    def frozen(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            "identity": list(self.identity),
            "by": [self.limit, self.by, self.descending, self.place],
        }

    def grows(self, tables: list[str]) -> str | None:
        return None if self.finished else super().grows(tables)

    def leaves_rows(self) -> bool:
        return self.finished is not None

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows if self.finished is None else self.finished.fitted(rows)

    @property
    def standing(self) -> Standing:
        return self._standing

    def _standing(self, state: StepState, clock: int) -> pl.DataFrame | None:
        ranking = _Ranking(self, state)
        best = ranking.best.standing(self._closed(clock))
        return None if best is None else ranking.places(best)

    def advance(self, state: StepState, batch: Batch) -> Result:
        result, ranking = Result(), _Ranking(self, state)
        if batch.rows is not None:
            result.changes = ranking.changes(latest(batch.rows, ranking.row).drop("__op"))
        if self.finished is not None:
            ranking.forget(self._closed(batch.after))
        return result

    def _closed(self, clock: int) -> int:
        """Groups up to this slot do not change any more."""
        return BEGINNING if self.finished is None else self.finished.closed(clock)


def rank(
    rows: Node,
    keys: tuple[str, ...],
    *,
    limit: int,
    by: str,
    descending: bool,
    place: str | None,
    ends: Ends,
    name: str | None,
    at: Location,
) -> Step:
    schema = rows.schema.visible
    if not isinstance(limit, int) or limit < 1:
        raise ProgramError("a ranking has at least one place", where=at, got=repr(limit))
    text = schema.expression(by)
    found = sql.value_type(text, schema, at)
    if nested(found):
        raise ProgramError(
            "rows are ranked by a value that can be ordered", where=at, got=f"{by} is {found}"
        )
    columns = schema.columns
    if place is not None:
        free_name(place, schema, "place", at)
        columns = (*columns, Column(place, "BIGINT"))
    word = "top" if descending else "bottom"
    named = f"{word}_{limit}_by_{'_'.join(keys)}"
    does = Rank(
        **step_fields(word, rows, keys, name, named=named, at=at),
        schema=Schema(columns),
        on_error="stop",
        columns=schema.names,
        identity=tuple(each for each in key_of(rows) if each not in keys),
        limit=limit,
        by=text,
        descending=descending,
        place=place,
        finished=ends.finished,
    )
    return Step((keeping(rows, ends.keep, f"{does.name}_kept", at),), does)


class Ends(NamedTuple):
    """How long rows, and groups, of a ranking are kept."""

    keep: int | None
    finished: Finished | None


class _Ranking:
    """One batch in one page."""

    def __init__(self, step: Rank, state: StepState) -> None:
        self.step = step
        self.group = ["__hash", *step.keys]
        self.row = [*self.group, *step.identity]
        self.state = state
        self.best = state.rows("best", within_key=step.identity)

    @cached_property
    def rest(self) -> SegmentList:
        return self.state.rows("rest", within_key=self.step.identity)

    @cached_property
    def parted(self) -> SegmentList:
        """The groups that have rows in the rest."""
        return self.state.rows("parted")

    def forget(self, closed: int) -> None:
        """Groups of windows that are closed."""
        for rows in (self.best, self.rest, self.parted):
            rows.append(None, closed)

    def changes(self, new: pl.DataFrame) -> list[pl.DataFrame]:
        groups = new.select("__slot", *self.group).unique(maintain_order=True)
        best = _found(self.best, groups, new)
        parted = _found(self.parted, groups, groups)
        left = self._without(best, new)
        rows = self._ranked(_from(left, WAS_BEST), _from(new.filter(~pl.col("__dead")), NEW))
        rows = self._marked(rows, parted)
        short = self._short(rows, parted)
        if short.height:
            rest = self._without(_found(self.rest, short, new), new)
            rows = self._ranked(rows.select(*new.columns, "__from"), _from(rest, RESTED))
            parted = self._without(parted, short, self.group)
            rows = self._marked(rows, parted)
        rows = self._chosen(rows)
        self._keep(best, new, rows)
        self._note(groups, parted, rows)
        return [self._shown(best, rows)]

    def _without(
        self, rows: pl.DataFrame, others: pl.DataFrame, on: list[str] | None = None
    ) -> pl.DataFrame:
        return rows.join(others, on=on or self.row, how="anti", nulls_equal=True)

    def _ranked(self, *parts: pl.DataFrame) -> pl.DataFrame:
        """By the value; of rows with the same one, by their key."""
        by = [*self.group, "__by", *self.step.identity]
        descending = [name == "__by" and self.step.descending for name in by]
        rows = pl.concat(parts).sort(by, descending=descending, nulls_last=True)
        return rows.with_columns((pl.int_range(pl.len()) + 1).over(self.group).alias("__place"))

    def _marked(self, rows: pl.DataFrame, parted: pl.DataFrame) -> pl.DataFrame:
        """`__sure`: no row of the rest is before it. In a group that has a rest, a row is so up to
        the last one that was among the best."""
        marks = parted.select(*self.group, pl.lit(True).alias("__parted"))
        rows = rows.join(marks, on=self.group, how="left", nulls_equal=True, maintain_order="left")
        last = PLACE.filter(pl.col("__from") == WAS_BEST).max().over(self.group).fill_null(0)
        return rows.with_columns(__sure=pl.col("__parted").is_null() | (last >= PLACE))

    def _short(self, rows: pl.DataFrame, parted: pl.DataFrame) -> pl.DataFrame:
        """Groups with a rest that have not enough rows without it."""
        if not parted.height:
            return parted
        counts = rows.group_by(self.group).agg(pl.col("__sure").sum())
        return self._without(parted, counts.filter(pl.col("__sure") >= self.step.limit), self.group)

    def _chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        """`__best`: the rows to be kept as such. When they are too many, some go to the rest."""
        limit = self.step.limit
        count = pl.col("__sure").sum().over(self.group)
        most = pl.when(count > 2 * limit).then(limit + limit // 2).otherwise(count)
        return rows.with_columns(__best=pl.col("__sure") & (most >= PLACE))

    def _keep(self, best: pl.DataFrame, new: pl.DataFrame, rows: pl.DataFrame) -> None:
        origin = pl.col("__from")
        chosen, others = rows.filter("__best"), rows.filter(~pl.col("__best"))
        _append(self.best, chosen.filter(origin != WAS_BEST), self._without(best, chosen), new)
        added = others.filter(origin != RESTED)
        gone = pl.concat([new, chosen.filter(origin == RESTED).select(new.columns)])
        _append(self.rest, added, self._without(gone, added), new, known=bool(self.rest.segments))

    def _note(self, groups: pl.DataFrame, parted: pl.DataFrame, rows: pl.DataFrame) -> None:
        others = rows.filter(~pl.col("__best")).select(*groups.columns)
        now = pl.concat([parted, others]).unique(maintain_order=True)
        alone = groups.join(now, on=self.group, how="anti", nulls_equal=True)
        marks = [(now, False), *([(alone, True)] if self.parted.segments else [])]
        noted = pl.concat([rows.with_columns(__dead=pl.lit(dead)) for rows, dead in marks])
        if noted.height:
            self.parted.append(noted.sort("__slot", "__hash"), BEGINNING)

    def _shown(self, best: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
        """What is different in the places that are shown."""
        step = self.step
        columns = (*step.columns, *((step.place,) if step.place else ()))
        now = self._placed(rows.filter("__best"))
        parts = [changed(part, columns, op) for part, op in ((self.places(best), -1), (now, 1))]
        return net(pl.concat(parts), [*step.keys, *step.identity], columns)

    def places(self, best: pl.DataFrame) -> pl.DataFrame:
        """The rows that are shown, of those that are kept as the best."""
        return self._placed(self._ranked(_from(best, WAS_BEST)))

    def _placed(self, ranked: pl.DataFrame) -> pl.DataFrame:
        shown = ranked.filter(self.step.limit >= PLACE)
        return shown.with_columns(PLACE.alias(self.step.place or "__place"))


def _found(kept: SegmentList, wanted: pl.DataFrame, like: pl.DataFrame) -> pl.DataFrame:
    found = kept.lookup(wanted)
    return like.clear() if found is None else found.select(like.columns)


def _from(rows: pl.DataFrame, origin: int) -> pl.DataFrame:
    return rows.with_columns(pl.lit(origin, pl.Int8).alias("__from"))


def _append(
    kept: SegmentList,
    added: pl.DataFrame,
    gone: pl.DataFrame,
    like: pl.DataFrame,
    *,
    known: bool = True,
) -> None:
    """Keeps rows, and marks those that are gone, unless none can be there."""
    parts = [added.select(like.columns).with_columns(__dead=pl.lit(False))]
    parts += [gone.select(like.columns).with_columns(__dead=pl.lit(True))] if known else []
    rows = pl.concat(parts)
    if rows.height:
        kept.append(rows.sort("__slot", "__hash"), BEGINNING)
