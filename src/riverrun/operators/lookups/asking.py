"""Asking a database for keys, with patience: what it says of each, or that it is away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from riverrun.errors import DatabaseError
from riverrun.kernels.kept import Outside
from riverrun.kernels.sql import shared_evaluator
from riverrun.operators.lookups.database import Answer, Away, DatabaseTable, Question
from riverrun.schema import quoted

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
_not_before: dict[str, float] = {}
"""When a database is asked again that this process had no more patience with: pages do not each
wait for it."""


@dataclass(frozen=True)
class Asking:
    table: DatabaseTable
    question: Question
    away: str
    patience: int
    """Microseconds."""


def asked(asking: Asking, keys: pl.DataFrame, outside: Outside) -> pl.DataFrame:
    """Each key with its outcome: found, none, several or away; its cells; why it is away."""
    try:
        answers = _patiently(asking, _texts(keys), outside)
    except Away as error:
        return _outcomes(keys, ["away"] * keys.height, {}, str(error))
    cells = {answer.number: list(answer.cells) for answer in answers}
    counts = [0] * keys.height
    for answer in answers:
        counts[answer.number] += 1
    words = ("none", "found", "several")
    return _outcomes(keys, [words[min(each, 2)] for each in counts], cells, None)


def _outcomes(
    keys: pl.DataFrame, outcomes: list[str], cells: dict[int, list[str | None]], why: str | None
) -> pl.DataFrame:
    told = [cells.get(n) if outcomes[n] == "found" else None for n in range(keys.height)]
    return keys.with_columns(
        pl.Series("__outcome", outcomes, pl.String),
        pl.Series("__cells", told, pl.List(pl.String)),
        pl.lit(why, pl.String).alias("__why"),
    )


def _texts(keys: pl.DataFrame) -> list[tuple[str, ...]]:
    columns = [name for name in keys.columns if name != "__hash"]
    chosen = ", ".join(f"CAST({quoted(name)} AS VARCHAR)" for name in columns)
    found = shared_evaluator().run(f"SELECT {chosen} FROM asked", asked=keys.to_arrow())
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def _patiently(asking: Asking, keys: Sequence[tuple[str, ...]], outside: Outside) -> list[Answer]:
    table, give_up_at = asking.table, time.monotonic() + asking.patience / 1e6
    if asking.away != "wait" and time.monotonic() < _not_before.get(table.where, 0.0):
        raise Away("it did not answer a moment ago")
    pause, waited = FIRST_PAUSE, False
    try:
        while True:
            try:
                return table.rows(asking.question, keys)
            except Away as error:
                if time.monotonic() + pause > give_up_at:
                    _not_before[table.where] = time.monotonic() + asking.patience / 1e6
                    if asking.away == "wait":
                        raise _given_up(asking, error) from error
                    raise
                outside.wait(f"waiting for {table.text} at {table.where}: {error}")
                waited = True
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
    finally:
        if waited:
            outside.wait(None)


def _given_up(asking: Asking, error: Away) -> DatabaseError:
    table = asking.table
    return DatabaseError(
        f"{table.kind} did not answer within {asking.patience / 1e6:g} s",
        where=table.place,
        got=str(error),
        hint="is it running? the batch is run again when the job starts again",
    )
