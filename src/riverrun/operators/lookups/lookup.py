"""Lookup: rows of a stream get columns of a table in a database, asked once per batch and page.

What was found is kept in state for a while, and what is asked in a batch is kept with the batch:
one that is run again is not told something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from itertools import count
from typing import Any, Literal, NamedTuple

import polars as pl

from riverrun.columns import PLACE
from riverrun.durations import duration_text
from riverrun.errors import DatabaseError
from riverrun.kernels.chunks import pack, unpack
from riverrun.kernels.kept import Outside
from riverrun.kernels.letters import Failure, Place, judge
from riverrun.kernels.operator import (
    Batch,
    Entry,
    Leaving,
    PlainOperator,
    Result,
    StepState,
    Words,
)
from riverrun.kernels.sql import shared_evaluator
from riverrun.kernels.state import SegmentList
from riverrun.kernels.uses import Use
from riverrun.operators.lookups.asking import Asking, asked
from riverrun.operators.lookups.database import (
    Away,
    DatabaseTable,
    Question,
    known_columns,
    read_as,
)
from riverrun.outputs import Need
from riverrun.schema import literal, quoted

How = Literal["left", "inner"]
WhenAway = Literal["wait", "set aside", "null"]

ROOM = 0.75
"""What is left of a cache that is full: it is not to be written anew with every batch."""


class Found(NamedTuple):
    """A column of the table, its name in the result, and its type there."""

    column: str
    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class Lookup(PlainOperator):
    reads: DatabaseTable
    on: tuple[str, ...]
    """The columns of the table that the keys are looked for in."""
    entering: tuple[str, ...]
    found: tuple[Found, ...]
    how: How
    cache: int | None
    """Microseconds that an answer holds for later batches."""
    entries: int
    away: WhenAway
    patience: int
    key: tuple[str, ...]
    """That rows are written with."""

    kind = "lookup"
    takes = "facts"
    can_be_late = False

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=self.key)

    def enter(self, number: int, rows: str) -> Entry:
        return Entry.of_facts(self.entering, rows)

    def key_words(self) -> list[str]:
        pairs = zip(self.keys, self.on, strict=True)
        return [mine if mine == theirs else f"{mine} = {theirs}" for mine, theirs in pairs]

    def uses(self, number: int) -> Iterable[Use]:
        return (Use.of("on", self.keys),)

    def words(self) -> Words:
        kept = "nothing" if self.cache is None else duration_text(self.cache)
        word = "for" if self.away == "wait" else "after"
        many = "" if self.cache is None else f", at most {self.entries:,} keys"
        return Words.of(
            ("looks up", f"{', '.join(each.name for each in self.found)} ({self.how})"),
            ("in", self.reads.text),
            ("caches", f"{kept}{many}"),
            ("away", f"{self.away} {word} {duration_text(self.patience)}"),
        )

    def frozen(self) -> dict[str, Any]:
        return {}  # what is cached of another question is not used

    def settings(self) -> dict[str, Any]:
        return {
            "table": self.reads.text, "on": list(self.on), "columns": list(map(list, self.found)),
            "how": self.how, "cache": self.cache, "entries": self.entries, "away": self.away,
            "patience": self.patience,
        }  # fmt: skip

    @property
    def fails_on(self) -> str | None:
        return "rows whose lookup fails"

    def needs(self) -> frozenset[Need]:
        return self.reads.needs()

    def check_surroundings(self) -> None:
        """The database answers, and has a table with these columns."""
        try:
            known = self.reads.columns()
            known_columns(known, (*self.on, *self.question.columns), self.reads)
            for mine, theirs, type in zip(self.keys, self.on, self.key_types, strict=True):
                if unfit := self.reads.unfit_key(theirs, type):
                    raise unfit_key((mine, type), theirs, unfit, self.at)
        except Away as error:
            raise unreached(self.reads, error, self.at) from error
        finally:
            self.reads.close()

    def reading(self, table: DatabaseTable) -> Lookup:
        """The same of another table, as tests give it."""
        return replace(self, reads=table)

    @cached_property
    def question(self) -> Question:
        return Question(self.on, tuple(each.column for each in self.found))

    @cached_property
    def name_of_question(self) -> str:
        """Answers to another one are of no use, and are told apart by it."""
        asked = [self.reads.place, self.question.on, self.question.columns]
        return sha256(json.dumps(asked).encode()).hexdigest()[:16]

    def advance(self, state: StepState, batch: Batch) -> Result:
        cache = state.rows()
        if batch.rows is None or self.cache is None:
            cache.append(None, batch.tick)
        if batch.rows is None:
            return Result()
        rows = batch.rows.sort(PLACE)
        keys = rows.select("__hash", *self.keys).drop_nulls(list(self.keys))
        keys = keys.unique(maintain_order=True)
        known = self._known(cache, keys, batch)
        missing = keys.join(known, on=["__hash", *self.keys], how="anti")
        fresh = self._answers(missing, batch)
        if self.cache is not None:
            _remember(cache, self._cached(fresh, batch.tick), batch.tick, self._room(batch))
        return self._result(rows, self._typed(pl.concat([known, fresh])), batch)

    def _known(self, cache: SegmentList, keys: pl.DataFrame, batch: Batch) -> pl.DataFrame:
        """What earlier batches were told, as long as it holds."""
        found = cache.lookup(keys.with_columns(__slot=pl.lit(0, pl.Int64))) if self.cache else None
        if found is None:
            return self._no_answers(keys)
        assert self.cache is not None
        young = pl.col("__since") + self.cache > batch.tick
        fitting = found.filter(young & (pl.col("__question") == self.name_of_question))
        there = pl.col("__cells").is_not_null()
        return fitting.select(
            "__hash",
            *self.keys,
            pl.when(there).then(pl.lit("found")).otherwise(pl.lit("none")).alias("__outcome"),
            "__cells",
            __why=pl.lit(None, pl.String),
        )

    def _no_answers(self, keys: pl.DataFrame) -> pl.DataFrame:
        return keys.clear().with_columns(
            __outcome=pl.lit(None, pl.String),
            __cells=pl.lit(None, pl.List(pl.String)),
            __why=pl.lit(None, pl.String),
        )

    def _answers(self, missing: pl.DataFrame, batch: Batch) -> pl.DataFrame:
        """What the database says of keys, or said when the batch was run before.

        That the first time fewer keys were asked for is rare: the program has changed in between.
        """
        answers = [self._no_answers(missing)]
        asking = Asking(self.reads, self.question, self.away, self.patience)
        for number in count():
            if not missing.height:
                break
            ask = partial(_packed_answers, asking, missing, batch.outside)
            told = unpack(batch.outside.once(f"{self.name_of_question}-{number}", ask))
            on = ["__hash", *self.keys]
            answers.append(told.join(missing, on=on, how="semi", maintain_order="left"))
            missing = missing.join(told, on=on, how="anti", maintain_order="left")
        return pl.concat(answers)

    def _room(self, batch: Batch) -> int:
        return max(self.entries // batch.pages, 1)

    def _cached(self, fresh: pl.DataFrame, tick: int) -> pl.DataFrame:
        assert self.cache is not None
        return (
            fresh.filter(pl.col("__outcome").is_in(["found", "none"]))
            .select(
                pl.lit(0, pl.Int64).alias("__slot"),
                "__hash",
                *self.keys,
                "__cells",
                __question=pl.lit(self.name_of_question),
                __since=pl.lit(tick, pl.Int64),
                __until=pl.lit(tick + self.cache, pl.Int64),
            )
            .sort("__slot", "__hash")
        )

    def _typed(self, answers: pl.DataFrame) -> pl.DataFrame:
        """Answers with the columns of the result, and what is wrong with them."""
        cells = [f"c{number}" for number in range(len(self.found))]
        texts = answers.select(
            pl.col("__cells").list.get(number, null_on_oob=True).alias(name)
            for number, name in enumerate(cells)
        )
        values = ", ".join(
            f"{read_as(cell, each.type)} AS {quoted(each.name)}"
            for cell, each in zip(cells, self.found, strict=True)
        )
        wrong = "".join(
            f" WHEN {cell} IS NOT NULL AND {quoted(each.name)} IS NULL"
            f" THEN {literal(_misfit(each))} || {cell}[:100]"
            for cell, each in zip(cells, self.found, strict=True)
        )
        query = (
            f"SELECT * EXCLUDE ({', '.join(cells)}), CASE{wrong} END AS __misfit"
            f" FROM (SELECT *, {values} FROM texts)"
        )
        made = pl.DataFrame(pl.from_arrow(shared_evaluator().run(query, texts=texts.to_arrow())))
        return answers.drop("__cells").hstack(made)

    def _result(self, rows: pl.DataFrame, answers: pl.DataFrame, batch: Batch) -> Result:
        joined = rows.join(
            answers, on=["__hash", *self.keys], how="left", maintain_order="left"
        ).with_columns(__cause=pl.coalesce(self._cause(), "__misfit"))
        failures = list(self._failures(joined.filter(pl.col("__cause").is_not_null())))
        good = joined.filter(pl.col("__cause").is_null())
        if self.how == "inner":
            good = good.filter(pl.col("__outcome") == "found")
        passing = good.select(*self.schema.names, *PLACE)
        return Result(streams={"": [passing]}, failed=judge(failures, batch.topics))

    def _cause(self) -> pl.Expr:
        key = ", ".join(self.on)
        several = pl.lit(f"several rows of {self.reads.text} have this {key}")
        gone = pl.concat_str(pl.lit(f"{self.reads.text} is away: "), "__why")
        aside = pl.lit(self.away == "set aside") & (pl.col("__outcome") == "away")
        cause = pl.when(pl.col("__outcome") == "several").then(several)
        return cause.when(aside).then(gone).otherwise(pl.lit(None, pl.String))

    def _failures(self, rows: pl.DataFrame) -> Iterator[Failure]:
        for row in rows.iter_rows(named=True):
            key = {name: row[name] for name in self.keys}
            given = {name: row[name] for name in self.entering}
            policy = "set aside" if row["__outcome"] == "away" else self.on_error
            place = Place(*(row[name] for name in PLACE))
            yield Failure(place, self.name, row["__cause"], policy, key, given)


def _packed_answers(asking: Asking, keys: pl.DataFrame, outside: Outside) -> bytes:
    return pack(asked(asking, keys, outside))


def _misfit(found: Found) -> str:
    return f"what the database has in {found.column!r} is no {found.type}: "


def _remember(cache: SegmentList, fresh: pl.DataFrame, tick: int, room: int) -> None:
    """Adds answers, and forgets what is too old; of what is too much, the oldest goes first."""
    cache.append(fresh, tick)
    if sum(segment.rows.height for segment in cache.segments) <= room:
        return
    rows = cache.newest([segment.live(tick) for segment in cache.segments])
    for segment in list(cache.segments):
        cache.remove(segment)
    kept = rows.sort("__until", "__hash", descending=True).head(max(int(room * ROOM), 1))
    cache.append(kept.sort("__slot", "__hash"), tick)


def unreached(table: DatabaseTable, error: Exception, at: object) -> DatabaseError:
    return DatabaseError(
        f"{table.kind} cannot be reached",
        where=f"{table.where}, for the lookup of {at}",
        got=error,
        hint="is it running, and is the address right?",
    )


def unfit_key(mine: tuple[str, str], theirs: str, unfit: str, at: object) -> DatabaseError:
    return DatabaseError(
        f"{mine[0]!r}, which is {mine[1]}, cannot be looked for in {theirs!r}",
        where=at,
        got=unfit,
        hint="cast the column of the stream with .with_columns(…), or look it up in a view that"
        " has the column in another type",
    )
