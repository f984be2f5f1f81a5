"""Marks rows whose key was seen before, by a Bloom filter of fixed size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.columns import PLACE
from riverrun.errors import Location, ProgramError
from riverrun.kernels.bloom import BloomFilter
from riverrun.kernels.letters import OnError
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Leaving,
    PlainOperator,
    Result,
    StepState,
    Words,
)
from riverrun.kernels.uses import Use
from riverrun.plan.building import checked_policy, free_name, step_fields
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import passed_on
from riverrun.schema import Column, Schema, column_list

FILTER = {"__slot": pl.Int64, "__hash": pl.UInt64, "__filter": pl.Binary}


@dataclass(frozen=True, kw_only=True)
class MarkSeen(PlainOperator):
    column: str
    capacity: int
    error: float
    key: tuple[str, ...]

    kind = "mark seen"
    takes = "facts"
    can_be_late = False

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=self.key)

    def enter(self, number: int, rows: str) -> Entry:
        entering = [name for name in self.schema.names if name != self.column]
        return Entry(f"SELECT {column_list((*entering, *PLACE))} FROM {rows}")

    def uses(self, number: int) -> Iterable[Use]:
        return ()

    def words(self) -> Words:
        filter_text = f"Bloom filter for {self.capacity:,}, error {self.error}"
        return Words.of(("marks", f"{self.column}: seen before, {filter_text}"))

    def frozen(self) -> dict[str, Any]:
        return {"filter": [self.capacity, self.error]}

    def advance(self, state: StepState, batch: Batch) -> Result:
        if batch.rows is None:
            return Result()
        kept = state.rows()
        rows = batch.rows.sort(PLACE)
        known = kept.segments[-1].rows["__filter"][0] if kept.segments else None
        bloom = BloomFilter.from_bytes(known) if known else self._empty(batch.pages)
        seen = bloom.seen(rows["__hash"].to_numpy())
        for segment in list(kept.segments):
            kept.remove(segment)
        row = {"__slot": [0], "__hash": [0], "__filter": [bloom.to_bytes()]}
        kept.append(pl.DataFrame(row, schema=FILTER), -1)
        marked = rows.drop("__hash").with_columns(pl.Series(self.column, seen))
        return Result(streams={"": [marked]})

    def _empty(self, pages: int) -> BloomFilter:
        # keys fall into pages by chance: some pages have more than their share
        share = self.capacity / pages
        return BloomFilter(math.ceil(share + 4 * math.sqrt(share)), self.error)


def mark_seen(
    rows: Node,
    columns: tuple[str, ...],
    *,
    capacity: int,
    error: float,
    into: str,
    name: str | None,
    on_error: OnError | None,
    at: Location,
) -> Step:
    schema = rows.schema.visible
    named = f"seen_by_{'_'.join(columns)}"
    fields = step_fields("mark_seen", rows, columns, name, named=named, at=at)
    free_name(into, schema, "into", at)
    if capacity < 1 or not 0 < error < 1:
        raise ProgramError(
            "mark_seen needs a capacity above 0 and an error between 0 and 1",
            where=at,
            got=f"capacity {capacity}, error {error}",
        )
    does = MarkSeen(
        **fields,
        schema=Schema((*schema.columns, Column(into, "BOOLEAN"))),
        on_error=checked_policy(on_error, rows, at),
        column=into,
        capacity=capacity,
        error=error,
        key=passed_on(rows, rows.schema.visible),
    )
    return Step((rows,), does)
