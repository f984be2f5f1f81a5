"""Tables of a database, by what was done to their rows.

A change may leave out large values that stayed as they were: they are taken from the row that is
kept. Truncating deletes what its partition has told before. A row that refers to a value that
nobody knows is set aside, and changes nothing. What the source says of a row before its change is a
check on the row that is kept, and never taken for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypeGuard

import polars as pl

from riverrun.columns import BEFORE, GONE, PLACE, TRUNCATED
from riverrun.durations import BEGINNING
from riverrun.formats.query import arrow_schema
from riverrun.kernels import positions
from riverrun.kernels.letters import Failure, Place, judge
from riverrun.kernels.operator import (
    NO_SLOT,
    Batch,
    Entry,
    Input,
    Leaving,
    Operator,
    PlainOperator,
    Result,
    Standing,
    StepState,
    Words,
)
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.state import SegmentList
from riverrun.kernels.uses import Use
from riverrun.operators.before import OTHERWISE, differences, doubt
from riverrun.operators.to_table import beside, replaced
from riverrun.partitions import short
from riverrun.plan.nodes import Node, Step
from riverrun.schema import Schema, column_list

KEPT = "__kept"
"""Of a change: the columns that it leaves as they were."""
BARE = "__bare"
"""Of a deletion: whether its record had no value. One that follows another tells nothing new."""
ORDER = list(PLACE[1:])
VERSIONS = ".versions"
"""Ends the name of a step that tells versions."""
LOST = "the value is not in the record, and none before it is known"


@dataclass(frozen=True, kw_only=True)
class Captured(PlainOperator):
    form: Literal["changes", "versions"] = "changes"
    """Versions are for joins as of event time, which keep them."""
    whole: bool = False
    """Whether rows come by whole transactions: later than their time would have it."""

    kind = "captured"
    takes = "facts"
    can_be_late = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        truncates = Input(
            port="truncated", word="truncated by", takes="facts", late=False, everywhere=True
        )
        return (Input(takes="facts", late=False), truncates)

    @property
    def leaving(self) -> Leaving:
        return Leaving(form=self.form, key=self.keys)

    def enter(self, number: int, rows: str) -> Entry:
        if number == 1:
            columns = column_list((*self.keys, *PLACE))
            return Entry(f"SELECT {columns}, {NO_SLOT} FROM {rows} WHERE {TRUNCATED}")
        columns = column_list((*self.schema.names, *PLACE, GONE, KEPT, BEFORE))
        bare = f"{TRUNCATED} IS NULL AS {BARE}"
        truncates = f"coalesce({TRUNCATED}, false)"
        return Entry(f"SELECT {columns}, {bare}, {NO_SLOT} FROM {rows} WHERE NOT {truncates}")

    def uses(self, number: int) -> Iterable[Use]:
        return ()

    def words(self) -> Words:
        return Words.of(("keeps", "the row as it was last changed"))

    def frozen(self) -> dict[str, Any]:
        return {"columns": self.schema.ddl()}

    @property
    def fails_on(self) -> str | None:
        return "a value that is not in the record, and was in none before"

    def versions(self, rows: str) -> str | None:
        return None if self.whole else f"SELECT * FROM {rows}"

    def telling_versions(self) -> Operator | None:
        return replace(self, form="versions", name=f"{self.name}{VERSIONS}")

    @property
    def standing(self) -> Standing:
        return lambda state, clock: self._kept(state).standing()

    def _kept(self, state: StepState) -> SegmentList:
        """The rows, with the columns that the table has now."""
        kept = state.rows()
        kept.have(_kept_columns(self.schema))
        return kept

    def advance(self, state: StepState, batch: Batch) -> Result:
        result, kept = Result(), self._kept(state)
        told = _Told(self, kept, batch).rows()
        if told is None:
            return result
        told, failures = self._whole(told, kept)
        result.failed = judge(failures, batch.topics)
        if not told.height:
            return result
        self._compare(told, kept, result)
        columns, key = self.schema.names, ["__hash", *self.keys]
        new = told.sort(ORDER).unique(key, keep="last", maintain_order=True)
        old = beside(kept, new, key)
        found = replaced(new, old, columns, old["__revision"].is_not_null())
        if self.form == "versions":
            told = self._without_echoes(told, kept)
            result.streams[""] = [told.sort(ORDER).select(*columns, *PLACE, GONE)]
        else:
            result.changes += found.changes
        written = found.rows.filter(found.differs)
        written = written.select(list(_kept_columns(self.schema)))
        kept.append(written.sort("__slot", "__hash"), BEGINNING)
        return result

    def _whole(self, told: pl.DataFrame, kept: SegmentList) -> tuple[pl.DataFrame, list[Failure]]:
        """Rows with the values that they leave as they were; where nobody knows them, they fail."""
        if told[KEPT].null_count() == told.height:
            return told, []
        key, left_out = ["__hash", *self.keys], sorted(set(told[KEPT].explode().drop_nulls()))
        rows = self._after_those_kept(told, kept).sort(*key, *ORDER).with_row_index("__number")
        for name in left_out:
            absent = pl.col(KEPT).list.contains(name).fill_null(False)
            last = pl.when(~absent).then("__number").forward_fill().over(key)
            found = pl.col(name).gather(last.fill_null(0))
            known = last.is_not_null() & ~pl.col(GONE).gather(last.fill_null(0))
            rows = rows.with_columns(
                pl.when(absent).then(found).otherwise(name),
                _lost(name, absent & ~known & ~pl.col(GONE)),
            )
        lost = pl.any_horizontal(map(_lost, left_out))
        failures = [self._failure(r, left_out) for r in rows.filter(lost).iter_rows(named=True)]
        return rows.filter(~lost & (pl.col("__pos") >= 0)).select(told.columns), failures

    def _compare(self, told: pl.DataFrame, kept: SegmentList, result: Result) -> None:
        """What the source says of rows before their change is held against those that are kept."""
        if told[BEFORE].null_count() == told.height:
            return
        key = ["__hash", *self.keys]
        changed = told.filter(pl.col(BEFORE).is_not_null()).select(key)
        rows = self._after_those_kept(told.join(changed, on=key, how="semi"), kept)
        found = differences(rows.sort(*key, *ORDER), self.schema, key)
        if found:
            result.failed.causes[f"{self.name}: {OTHERWISE}"] = len(found)
            result.doubt = doubt(found)

    def _without_echoes(self, told: pl.DataFrame, kept: SegmentList) -> pl.DataFrame:
        """Without records that have no value where the row is gone already: their time is that of
        the record, when the row may long be there again."""
        if not told[BARE].any():
            return told
        key = ["__hash", *self.keys]
        rows = self._after_those_kept(told, kept).sort(*key, *ORDER)
        gone = pl.col(GONE).shift().over(key).fill_null(True)
        new = (pl.col("__pos") >= 0) & ~(pl.col(BARE).fill_null(False) & gone)
        return rows.filter(new).select(told.columns)

    def _after_those_kept(self, told: pl.DataFrame, kept: SegmentList) -> pl.DataFrame:
        before = kept.lookup(told)
        if before is None:
            return told
        first = before.with_columns(__pos=pl.lit(-1, pl.Int64), __gone=pl.lit(False))
        return pl.concat([first.drop("__revision", "__dead"), told], how="diagonal")

    def _failure(self, row: dict[str, Any], left_out: list[str]) -> Failure:
        lost = ", ".join(name for name in left_out if row[f"__lost:{name}"])
        cause = f"{LOST}: {lost}"
        place = Place(*(row[name] for name in PLACE))
        key = {name: row[name] for name in self.keys}
        shown = {name: row[name] for name in self.schema.names}
        return Failure(place, self.name, cause, self.on_error, key, shown)


@cache
def _kept_columns(schema: Schema) -> dict[str, pl.DataType]:
    """What a row of state has."""
    own = pl.DataFrame(pl.from_arrow(arrow_schema(schema).empty_table())).schema
    after = {"__pos": pl.Int64(), "__revision": pl.Int64(), "__dead": pl.Boolean()}
    return {"__slot": pl.Int64(), "__hash": pl.UInt64(), **own, **after}


def _lost(name: str, lost: pl.Expr | None = None) -> pl.Expr:
    """Whether a row's value of the column is known to nobody."""
    column = f"__lost:{name}"
    return pl.col(column) if lost is None else lost.alias(column)


class _Told:
    """What a page is told in a batch, truncating as the deletion of every row."""

    def __init__(self, step: Captured, kept: SegmentList, batch: Batch) -> None:
        self.step, self.kept, self.batch = step, kept, batch
        self.key = ["__hash", *step.keys]
        self.columns = ["__slot", "__hash", *step.schema.names]

    def rows(self) -> pl.DataFrame | None:
        rows, truncates = self.batch.rows, self.batch.right
        if truncates is None:
            return rows
        deleted = [self._deleted(each) for each in truncates.select(PLACE).iter_rows(named=True)]
        found = [each for each in [rows, *deleted] if each is not None and each.height]
        return pl.concat(found, how="diagonal") if found else None

    def _deleted(self, truncate: dict[str, Any]) -> pl.DataFrame | None:
        """A deletion for each key that its partition has told before."""
        first = positions.first_of_partition(truncate["__pos"])
        before = pl.col("__pos").is_between(first, truncate["__pos"], closed="left")
        parts = [self.batch.rows] if self.batch.rows is not None else []
        if (standing := self.kept.standing()) is not None:
            parts.append(standing)
        if not parts:
            return None
        found = pl.concat([each.filter(before).select(self.columns) for each in parts])
        return found.unique(self.key).with_columns(
            pl.lit(truncate["__at"], pl.Datetime("us")).alias("__at"),
            pl.lit(truncate["__pos"], pl.Int64).alias("__pos"),
            pl.lit(truncate["__sub"], pl.Int64).alias("__sub"),
            pl.lit(True).alias(GONE),
            pl.lit(None, pl.List(pl.String)).alias(KEPT),
            pl.lit(False).alias(BARE),
            pl.lit(None, pl.String).alias(BEFORE),
        )


def is_captured(node: Node) -> TypeGuard[Step]:
    """Whether a node is a captured table as it is read."""
    if not isinstance(node, Step) or not isinstance(node.does, Captured):
        return False
    return isinstance(node.inputs[0], ReadTopic)


def in_transactions(does: Operator) -> Captured:
    assert isinstance(does, Captured)
    return replace(does, whole=True)


def captured_table(source: ReadTopic) -> Step:
    """The rows of a captured table, by the changes in a topic."""
    does = Captured(
        name=short(source.topic),
        keys=source.table_key,
        key_types=tuple(map(source.schema.type_of, source.table_key)),
        schema=source.schema.visible,
        at=source.at,
        on_error=source.on_error,
    )
    return Step((source, source), does)
