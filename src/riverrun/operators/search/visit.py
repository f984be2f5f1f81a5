"""The kernel of stored-query search: one page through one batch."""

from __future__ import annotations

import json
from time import perf_counter_ns
from typing import Any

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.changes import latest
from riverrun.kernels.letters import Failure, Place, judge
from riverrun.kernels.operator import Batch, Result, StepState
from riverrun.kernels.sql import shared_evaluator
from riverrun.operators.search import costs
from riverrun.operators.search.arrays import Numbers
from riverrun.operators.search.collection import Change, Collection
from riverrun.operators.search.commands import Changes
from riverrun.operators.search.documents import Documents
from riverrun.operators.search.log import Known, Log, Told
from riverrun.operators.search.matching import Matching
from riverrun.operators.search.spec import Search
from riverrun.operators.search.telling import told

AT_ONCE, LETTERS = 1_024, 4_000_000
"""Documents, and characters of their texts, that are cut into words together."""
SHOWN = 100
"""Hits of a lot of documents that are told to those who watch."""
ODD = np.uint64(0x9E3779B97F4A7C15)


class Visit:
    def __init__(self, step: Search, state: StepState, batch: Batch) -> None:
        self.step, self.batch = step, batch
        self.waiting = state.rows("waiting", within_key=None)
        self.over = step.over()
        self.log = Log(state.rows("queries", within_key=None), self.over)
        self.result = Result()

    def run(self) -> Result:
        collection = self._queries()
        parts = self._released() if self.step.queries is None else self._at_once()
        if parts and (collection.standing or collection.leaving):
            rows = pl.concat(parts).sort(TIME, "__pos", "__sub")
            found = [self._found(collection, lot) for lot in _lots(rows, self.step.text)]
            self.result.streams[""] = [each for each in found if each.height]
        self.result.waiting = bool(self.waiting.segments)
        return self.result

    def _queries(self) -> Collection:
        """The queries that stand, after what comes with this batch."""
        clock, asked = self.batch.before, self._asked()
        known = self.log.known(clock)
        if not asked_anything(asked) and not known.unfit:
            if known.collection.leaving:
                known.settle(clock)
            return known.collection
        answer = self.log.changed(asked, clock, self._changed)
        self.result.answers = answer.answers
        self._set_aside(asked, answer)
        return self.log.known(clock).collection

    def _asked(self) -> Any:
        if self.step.queries is None:
            return self.batch.commands
        return None if self.batch.right is None else self._standing(self.batch.right)

    def _changed(self, known: Known) -> tuple[list[Change], Told]:
        changes = Changes(known, self.batch.before, self.step.max_unindexed)
        changes.drop(self.step.name, known.unfit)
        asked = self._asked()
        if isinstance(asked, pl.DataFrame):
            names = [name for name in asked.columns if not name.startswith("__")]
            changes.table(asked.select(*names, gone="__dead").to_dicts())
        else:
            changes.take(asked or ())
        return changes.made, changes.told

    def _standing(self, rows: pl.DataFrame) -> pl.DataFrame:
        """What a table tells: the last of each name, and whether it is gone."""
        assert self.step.queries is not None
        if self.step.queries.form == "versions":
            rows = rows.sort("__pos", "__sub").unique("name", keep="last", maintain_order=True)
            return rows.with_columns(__dead=pl.col("__gone"))
        return latest(rows, ["name"]).sort("name")

    def _set_aside(self, asked: Any, answer: Told) -> None:
        """Rows that are no queries become dead letters, of one page: all have the same."""
        if not answer.refused or self.batch.outside.page:
            return
        step, failures = self.step, []
        for number, cause in answer.refused:
            row = asked.row(number, named=True)
            place = Place(row.get("__at"), row.get("__pos", -1), row.get("__sub", 0))
            given = {name: value for name, value in row.items() if not name.startswith("__")}
            failures.append(Failure(place, step.name, cause, step.on_error, row=given))
        self.result.failed = judge(failures, self.batch.topics)

    def _at_once(self) -> list[pl.DataFrame]:
        return [] if self.batch.rows is None else [self.batch.rows.select(self.step.kept)]

    def _released(self) -> list[pl.DataFrame]:
        """The documents that the clock has passed: which queries see them is decided."""
        after = self.batch.after
        parts = [
            part.drop("__slot") for part in self.waiting.between(self.batch.before - 1, after - 1)
        ]
        ahead = None
        if self.batch.rows is not None:
            rows = self.batch.rows.select(self.step.kept)
            passed = rows[TIME] < after
            if not passed.all():
                ahead = rows.filter(~passed).with_columns(__slot=pl.col(TIME))
                ahead, rows = ahead.sort("__slot", "__hash"), rows.filter(passed)
            parts.append(rows)
        self.waiting.append(ahead, after - 1)
        return [part for part in parts if part.height]

    def _found(self, collection: Collection, rows: pl.DataFrame) -> pl.DataFrame:
        """The hits of some documents."""
        index = collection.index
        docs = Documents(rows, index.vocabulary, shared_evaluator(self.batch.functions))
        # what comes late is seen by the queries that stand now
        times = np.maximum(rows[TIME].to_numpy(), self.batch.before)
        match = Matching(index, docs, times)
        doc, query = match.hits()
        index.learn(docs.term, docs.count)
        began = perf_counter_ns()
        found = self._leaving(collection, match, doc, query)
        costs.note(collection, match, query, perf_counter_ns() - began)
        return found

    def _leaving(
        self, collection: Collection, match: Matching, doc: Numbers, query: Numbers
    ) -> pl.DataFrame:
        rows = match.docs.rows.with_columns(__at=pl.col(TIME).cast(pl.Datetime("us")))
        rows = rows.select(*self.step.keep, "__at", "__pos", "__sub")[doc]
        said = collection.said[query]
        made = told(match, doc, query, fragments=self.step.highlight)
        # several queries find the same document
        sub = (rows["__sub"].to_numpy().astype(np.uint64) * ODD) ^ said["__mark"].to_numpy()
        place = pl.Series("__sub", (sub >> np.uint64(1)).astype(np.int64))
        found = self.step.leaves(rows.with_columns(place, *made).hstack(said))
        watched = said["__watch"]
        if not watched.any():
            return found
        self.result.replies += [_reply(hit) for hit in found.filter(watched).head(SHOWN).to_dicts()]
        return found.filter(~watched)


def cost(step: Search, state: StepState, clock: int) -> pl.DataFrame:
    """What queries have cost in this process."""
    log = Log(state.rows("queries", within_key=None), step.over())
    return costs.told(log.known(clock).collection)


def _reply(hit: dict[str, Any]) -> bytes:
    """A hit, for those who watch its query."""
    said = {name: hit.pop(name) for name in ("query", "fields", "score")}
    fragment = hit.pop("fragment", None)
    row = {name: value for name, value in hit.items() if not name.startswith("__")}
    for name in ("owner", "metadata"):
        row.pop(name)
    told = {"watch": said.pop("query"), **said, "fragment": fragment, "row": row}
    return json.dumps(told, default=str, ensure_ascii=False).encode()


def asked_anything(asked: Any) -> bool:
    return asked is not None and len(asked) > 0


def _lots(rows: pl.DataFrame, text: tuple[str, ...]) -> list[pl.DataFrame]:
    """Some documents after the other, not too many letters at a time."""
    sizes = sum(rows[name].str.len_bytes().fill_null(0).cast(pl.Int64) for name in text)
    cut, begin, letters = [], 0, 0
    for number, size in enumerate(sizes.to_list()):  # type: ignore[union-attr]
        if number - begin >= AT_ONCE or (letters and letters + size > LETTERS):
            cut.append(rows[begin:number])
            begin, letters = number, 0
        letters += size
    return [*cut, rows[begin:]]
