"""Rows of several tables wait until all of their transaction are there.

The topic of transactions tells how many rows each has in which table, in the order of commits; rows
leave in that order. All is kept in one page, and written by one task: a reader of the results sees
all that a transaction did, or nothing of it.

What retention or compaction has deleted never comes. It is known to be gone once the partitions of
its table tell of later transactions, or have told nothing new for a while: what is left of the
transaction goes on then, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from riverrun.clock import Pace
from riverrun.columns import BEFORE, GONE, PLACE, TRUNCATED
from riverrun.durations import duration_text, microseconds
from riverrun.errors import Location
from riverrun.formats.debezium_transactions import (
    BOUNDARIES,
    TRANSACTION,
    TURN,
    Boundaries,
    DebeziumInTransactions,
    same_transaction,
)
from riverrun.formats.query import arrow_schema
from riverrun.kernels.operator import (
    NO_SLOT,
    Batch,
    Entry,
    Input,
    Leaving,
    PlainOperator,
    Result,
    StepState,
    Words,
)
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.uses import Use
from riverrun.operators.captured import KEPT, in_transactions
from riverrun.operators.whole.lists import ONE
from riverrun.operators.whole.waiting import SINCE, Asked, Waiting, WhenFull
from riverrun.plan.nodes import Emitted, Step
from riverrun.schema import Schema, column_list, literal
from riverrun.times import ColumnTime


@dataclass(frozen=True, kw_only=True)
class Whole(PlainOperator):
    tables: tuple[str, ...]
    """The topics of the tables, which are also the names of the outputs."""
    columns: tuple[Schema, ...]
    patience: int
    """How long to wait for rows that may have been deleted, in microseconds."""
    most: int
    """Rows that wait."""
    when_full: WhenFull

    kind = "whole transactions"
    one_writer = True

    @property
    def inputs(self) -> tuple[Input, ...]:
        tables = (
            Input(port=str(number or ""), word=f"table {number + 1}", takes="facts", late=False)
            for number in range(len(self.tables))
        )
        told = Input(port="told", word="told by", takes="facts", late=False)
        return (*tables, told)

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=())

    def enter(self, number: int, rows: str) -> Entry:
        since = f"epoch_us(_timestamp) AS {SINCE}"
        hidden = f"{column_list(PLACE)}, {since}, 0::BIGINT AS {ONE}, {NO_SLOT}"
        if number == len(self.tables):
            counts = [f"{_count(topic)} AS n{n}" for n, topic in enumerate(self.tables)]
            told = [f"{same_transaction('id')} AS {TRANSACTION}", "status = 'END' AS ends"]
            chosen = f"SELECT {', '.join([*told, *counts])}, {hidden} FROM {rows}"
            return Entry(f"{chosen} WHERE {_BOUNDARY}")
        marks = (GONE, KEPT, BEFORE, TRUNCATED, TRANSACTION, TURN)
        columns = column_list((*self.columns[number].names, *marks))
        return Entry(f"SELECT {columns}, {hidden} FROM {rows}")

    def passes(self, number: int, output: str) -> Mapping[str, str] | None:
        return None if self.tables[number : number + 1] == (output,) else {}

    def key_words(self) -> list[str]:
        return ["none: all in one page"]

    def uses(self, number: int) -> Iterable[Use]:
        return ()

    def words(self) -> Words:
        full = "stops" if self.when_full == "stop" else "lets all go"
        return Words.of(
            ("keeps", "rows until their transaction is complete; they leave as it was committed"),
            ("most", f"{self.most:,} rows, else it {full}"),
            ("patience", f"{duration_text(self.patience)} for rows that may be gone"),
        )

    def frozen(self) -> dict[str, Any]:
        return {"tables": {t: c.ddl() for t, c in zip(self.tables, self.columns, strict=True)}}

    def settings(self) -> dict[str, Any]:
        return {"patience": self.patience, "most": self.most, "when full": self.when_full}

    @property
    def wakes_with_tick(self) -> bool:
        return True

    def advance(self, state: StepState, batch: Batch) -> Result:
        asked = Asked(
            self.name, self.tables, self.name, self.patience, self.most, self.when_full
        )  # fmt: skip
        waiting, result = Waiting(asked, state, batch), Result()
        marks = (*PLACE, GONE, KEPT, BEFORE, TRUNCATED)
        for topic, columns, rows in zip(self.tables, self.columns, waiting.advance(), strict=True):
            if rows is not None:
                result.streams[topic] = [_with_all(rows, columns).select(*columns.names, *marks)]
        result.waiting = waiting.impatient
        result.failed.causes |= {f"{self.name}: {cause}": n for cause, n in waiting.warned.items()}
        return result


def _with_all(rows: pl.DataFrame, columns: Schema) -> pl.DataFrame:
    """Rows that have waited since the table had fewer columns: what is new is null."""
    if all(name in rows.columns for name in columns.names):
        return rows
    like = pl.DataFrame(pl.from_arrow(arrow_schema(columns).empty_table()))
    return pl.concat([like, rows], how="diagonal")


_BOUNDARY = (
    "CASE WHEN id IS NULL OR status NOT IN ('BEGIN', 'END') "
    "THEN error('it tells of no transaction')::BOOLEAN ELSE true END"
)


def _count(topic: str) -> str:
    """How many rows a transaction has in the table of a topic."""
    mine = f"ends_with({literal('.' + topic)}, '.' || x.data_collection)"
    found = f"list_filter(data_collections, lambda x: {mine})"
    counts = f"list_transform({found}, lambda x: x.event_count)"
    return f"coalesce(list_sum({counts}), 0)::BIGINT"


def boundaries(topic: str, at: Location) -> ReadTopic:
    """The topic that tells of transactions."""
    reading = Boundaries()
    plain = BOUNDARIES.with_plain_times.with_metadata
    pace = Pace(0, microseconds("10 seconds"))
    return ReadTopic(
        topic, BOUNDARIES, plain, None, ColumnTime(reading.time), pace, "earliest", "stop", at,
        format=reading,
    )  # fmt: skip


def whole_transactions(
    tables: Sequence[Step], told: ReadTopic, *, patience: int, most: int, when_full: WhenFull
) -> list[Step]:
    """Captured tables that change by whole transactions only."""
    sources = [replace(_source(each), format=DebeziumInTransactions()) for each in tables]
    does = Whole(
        name=told.topic,
        keys=(ONE,),
        key_types=("BIGINT",),
        schema=BOUNDARIES,
        at=told.at,
        on_error="set aside",
        tables=tuple(each.topic for each in sources),
        columns=tuple(each.schema.visible for each in sources),
        patience=patience,
        most=most,
        when_full=when_full,
    )
    step = Step((*sources, told), does)
    rows = [Emitted(step, each.topic, each.schema.visible, each.at) for each in sources]
    return [
        Step((mine, mine), in_transactions(table.does))
        for mine, table in zip(rows, tables, strict=True)
    ]


def _source(table: Step) -> ReadTopic:
    source = table.inputs[0]
    assert isinstance(source, ReadTopic)
    return source
