"""Streams joined with the version of a table that was valid at a row's own time.

A row waits until the table's clock has passed it. Versions are kept until they have been replaced
for as long as the declared history; a list of looks tells when to see after a key's old ones. With
corrections, rows that have left are kept for as long, and leave again when a late version comes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import polars as pl

from riverrun.columns import EVENT, PLACE, RowForm
from riverrun.durations import BEGINNING, duration_text, microseconds
from riverrun.kernels import positions
from riverrun.kernels.operator import Batch, Input, Leaving, Result, StepState
from riverrun.kernels.positions import event_name
from riverrun.kernels.typed import columns_of
from riverrun.operators.joins.join import Asked, Join
from riverrun.plan.building import origin_name
from riverrun.plan.nodes import Node
from riverrun.plan.rows import passed_on
from riverrun.schema import Schema

HISTORY = "7 days"
IDENTITY = ("__from", "__vpos", "__vsub")
"""Of a version: since when it is valid, and the record that said so."""
NO_SLOT = pl.lit(0, pl.Int64).alias("__slot")


@dataclass(frozen=True, kw_only=True)
class VersionJoin(Join):
    key: tuple[str, ...]
    """That rows are written with."""
    history: int
    """How long versions are kept after they were replaced."""
    corrections: bool
    version: str
    """The column that tells which version it is."""

    kind = "join versions"
    hows = ("inner", "left")
    phrase = "with the version that was valid then"

    @classmethod
    def own_fields(cls, left: Node, right: Node, schema: Schema, asked: Asked) -> dict[str, Any]:
        return {
            "key": passed_on(left, schema),
            "history": microseconds(HISTORY if asked.history is None else asked.history, asked.at),
            "corrections": asked.corrections,
            "version": _version_name(right, asked),
        }

    @classmethod
    def right_form(cls, right: Node) -> RowForm:
        return "versions"

    @classmethod
    def added_columns(cls, right: Node, asked: Asked) -> tuple[str, ...]:
        return (_version_name(right, asked), *([EVENT] if asked.corrections else []))

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.input("left", late=True), self.input("right", late=False, awaited=True)

    @property
    def holds(self) -> bool:
        return True

    @property
    def leaving(self) -> Leaving:
        if self.corrections:
            return Leaving(form="changes", key=(EVENT,))
        return Leaving(form="facts", key=self.key)

    def more_words(self) -> list[tuple[str, str]]:
        corrected = ", corrected by late versions" if self.corrections else ""
        return [("history", duration_text(self.history) + corrected)]

    def frozen(self) -> dict[str, Any]:
        return super().frozen() | {"corrections": self.corrections}

    def settings(self) -> dict[str, Any]:
        return {"history": self.history}

    def grows(self, tables: list[str]) -> str | None:
        return f"the last version of every {', '.join(theirs for _, theirs in self.on)}"

    def leaves_rows(self) -> bool:
        return self.corrections

    def last_closed(self, clock: int) -> int:
        return clock - 1 - self.history

    def advance(self, state: StepState, batch: Batch) -> Result:
        join = _Join(self, state, batch)
        late_versions = join.learn()
        rows = batch.rows
        if rows is not None:
            rows, join.result.late = self.split_late(rows, batch.before)
            rows = rows.with_columns(NO_SLOT).rename({"__time": "__until"})
        join.resolve(join.released(rows))
        if self.corrections:
            if late_versions is not None:
                join.correct(late_versions)
            join.resolved.append(None, batch.after - self.history)
        join.forget()
        join.result.waiting = join.waiting.last_time() >= batch.release
        return join.result


class _Join:
    """One batch of a join in one page."""

    def __init__(self, step: VersionJoin, state: StepState, batch: Batch) -> None:
        self.step, self.batch, self.key = step, batch, step.side_key
        self.result = Result()
        self.versions = state.rows("versions", within_key=IDENTITY)
        self.waiting = state.rows("waiting", within_key=None)
        self.looks = state.rows("looks", within_key=None)
        self.resolved = state.rows("resolved", within_key=("__pos", "__sub"))

    def learn(self) -> pl.DataFrame | None:
        """Keeps new versions. Returns the keys of those that are late: some rows have left that
        they were valid for."""
        rows = self.batch.right
        if rows is None:
            return None
        new = rows.select(
            NO_SLOT,
            *self.key,
            pl.col("__at").cast(pl.Int64).alias("__from"),
            pl.col("__pos").alias("__vpos"),
            pl.col("__sub").alias("__vsub"),
            "__gone",
            *self.step.right_columns,
            pl.lit(False).alias("__dead"),
        )
        self.versions.append(new.sort("__slot", "__hash"), BEGINNING)
        # when the history of what a version replaces, or deletes, is over
        until = pl.max_horizontal("__from", pl.lit(self._closed_before + 1)).alias("__until")
        looks = new.select(NO_SLOT, *self.key, until)
        self.looks.append(looks.sort("__slot", "__hash"), BEGINNING)
        late = new.filter(pl.col("__from") < self.batch.release_before)
        return late.select("__slot", *self.key).unique() if late.height else None

    def released(self, rows: pl.DataFrame | None) -> pl.DataFrame | None:
        """Rows that the table's clock has passed; the others wait."""
        low, high = self.batch.release_before - 1, self.batch.release - 1
        due = self.waiting.due(max(low, BEGINNING), high)
        parts = [] if due is None else [due]
        held = None
        if rows is not None and rows.height:
            passed = pl.col("__until") <= high
            parts.append(rows.filter(passed))
            held = rows.filter(~passed).sort("__slot", "__hash")
        self.waiting.append(held, high)
        return pl.concat(parts) if parts else None

    def resolve(self, rows: pl.DataFrame | None) -> None:
        if rows is None or not rows.height:
            return
        found = self._with_versions(rows)
        shown = found if self.step.keeps("left") else found.filter("__matched")
        if not self.step.corrections:
            self.result.streams[""] = [shown.select(*self.step.schema.names, *PLACE)]
            return
        first = pl.lit(0, pl.Int64).alias("__revision")
        self._emit(shown.with_columns(first), 1)
        kept = found.with_columns(first, NO_SLOT).sort("__slot", "__hash")
        self.resolved.append(kept, BEGINNING)

    def correct(self, keys: pl.DataFrame) -> None:
        """Rows that have left with another version than the one that was valid leave again."""
        old = self.resolved.lookup(keys)
        if old is None:
            return
        # rows that are forgotten may still be found, as they were before their last correction
        old = old.filter(pl.col("__until") > self._closed_before)
        old = old.sort("__until", "__pos", "__sub")
        entered = old.select(*self.key, *self._left_columns(), *PLACE, "__until")
        new = self._with_versions(entered).sort("__until", "__pos", "__sub")
        differs = old["__vpos"].ne_missing(new["__vpos"])
        new = new.with_columns(NO_SLOT, __revision=old["__revision"] + 1).filter(differs)
        old = old.filter(differs)
        outer = self.step.keeps("left")
        self._emit(old if outer else old.filter("__matched"), -1)
        self._emit(new if outer else new.filter("__matched"), 1)
        self.resolved.append(new.select(old.columns).sort("__slot", "__hash"), BEGINNING)

    def _emit(self, rows: pl.DataFrame, op: int) -> None:
        sign = pl.lit(op, pl.Int8).alias("__op")
        self.result.changes.append(rows.select(*self.step.schema.names, sign, "__revision"))

    def _left_columns(self) -> list[pl.Expr]:
        return [pl.col(name) for name in self.step.left.renamed.values()]

    def _with_versions(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of the result, with their key and place and the version's."""
        step = self.step
        rows = rows.sort("__until", "__pos", "__sub")
        found = self.versions.lookup(rows.with_columns(NO_SLOT))
        if found is None:
            types = {**dict.fromkeys(IDENTITY, pl.Int64()), "__gone": pl.Boolean()}
            types |= {n: columns_of(step.schema).types[n] for n in step.right_columns}
            rows = rows.with_columns(pl.lit(None, type).alias(n) for n, type in types.items())
        else:
            rows = _as_of(rows, found.drop("__slot", "__dead").sort(IDENTITY), self.key)
        matched = pl.col("__vpos").is_not_null() & ~pl.col("__gone")
        rows = rows.with_columns(
            pl.when(matched).then(pl.col("__vpos", "__vsub", *step.right_columns)),
            matched.fill_null(False).alias("__matched"),
        )
        own = [_version(self.batch.topics).alias(step.version)]
        own += [event_name().alias(EVENT)] if step.corrections else []
        return rows.with_columns(own).select(
            *(key for key in self.key if key not in step.schema),
            *step.own_columns(), *PLACE, "__until", "__vpos", "__matched",
        )  # fmt: skip

    def forget(self) -> None:
        """Versions that were replaced, or deletions, longer ago than the history goes."""
        closed = self.batch.after - self.step.history
        due = self.looks.due(max(self._closed_before, BEGINNING), closed)
        found = None if due is None or not due.height else self.versions.lookup(due)
        if found is not None:
            found = found.sort(*self.key, *IDENTITY)
            replaced = pl.col("__from").shift(-1).over(self.key) <= closed
            deleted = pl.col("__gone") & (pl.col("__from") <= closed)
            gone = found.filter(replaced.fill_null(False) | deleted)
            if gone.height:
                marks = gone.with_columns(__dead=pl.lit(True)).sort("__slot", "__hash")
                self.versions.append(marks, BEGINNING)
        self.looks.append(None, closed)

    @property
    def _closed_before(self) -> int:
        return self.batch.before - self.step.history


def _as_of(rows: pl.DataFrame, versions: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Rows with the version of their key that was valid then."""
    by = key
    if any(versions.schema[name].is_nested() for name in key):
        # Polars takes no lists and structs here
        by = ["__number"]
        numbers = versions.select(key).unique().with_row_index(by[0])
        versions = versions.join(numbers, on=key, maintain_order="left").drop(key)
        rows = rows.join(numbers, on=key, how="left", maintain_order="left")
    return rows.join_asof(
        versions, left_on="__until", right_on="__from", by=by, check_sortedness=False
    ).drop("__number", strict=False)


def _version(topics: tuple[str, ...]) -> pl.Expr:
    """The record that a version was read from: topic/partition/offset."""
    source, partition, offset = positions.in_polars(pl.col("__vpos"))
    topic = source.replace_strict(dict(enumerate(topics)), default=None)
    return pl.concat_str(topic, partition, offset, separator="/")


def _version_name(right: Node, asked: Asked) -> str:
    prefix = f"{origin_name(right)}_" if asked.prefix is None else asked.prefix
    return re.sub(r"\W", "_", f"{prefix}version")
