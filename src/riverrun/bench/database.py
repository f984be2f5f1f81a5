"""Upserts per second into PostgreSQL: riverrun's delivery next to psycopg's `executemany`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import psycopg
import pyarrow as pa

from riverrun.config import Settings
from riverrun.embedded import postgres
from riverrun.errors import JobError
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import OutputSpec, Part
from riverrun.schema import parse
from riverrun.sinks.postgresql.delivery import PostgresDatabase
from riverrun.sinks.postgresql.sink import Postgres

SCHEMA = "page string, window_start timestamp, views bigint, total double"
KEY = ("page", "window_start")
OURS, THEIRS = "riverrun_bench_ours", "riverrun_bench_executemany"
TABLE = f"CREATE TABLE {THEIRS} (LIKE {OURS}, PRIMARY KEY (page, window_start))"
EXECUTEMANY = (
    f"INSERT INTO {THEIRS} AS own VALUES (%s, %s, %s, %s, %s) ON CONFLICT (page, window_start)"
    " DO UPDATE SET views = excluded.views, total = excluded.total, _version = excluded._version"
    " WHERE own._version <= excluded._version"
)


def upserts(settings: Settings, rows: int = 200_000, rounds: int = 3) -> dict[str, Any]:
    """Both write the same rows, half of them new and half of them there; then tables are compared.

    The clock runs from rows in memory (Arrow for riverrun, tuples for psycopg) to the commit. Of
    several rounds, one of each in turn, the best counts. Each has the table that is usual for it.
    """
    url = postgres.ensure(settings)
    half = rows // 2
    before, new = _rows(0, half, revision=0), _rows(half, rows, revision=0)
    changed = _rows(0, half, revision=1)
    # a task is given the old row together with the new one
    part = pa.concat_tables([_taken_back(before), changed, new])
    tuples = _tuples(pa.concat_tables([changed, new]))
    our_seconds, their_seconds = [], []
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(rounds):
            connection.execute(f"DROP TABLE IF EXISTS {OURS}, {THEIRS}")
            with closing(_Ours(url)) as ours:
                ours.write(before)
                our_seconds.append(_seconds(lambda: ours.write(part)))
            connection.execute(TABLE)
            _executemany(connection, _tuples(before))
            their_seconds.append(_seconds(lambda: _executemany(connection, tuples)))
            _compare(connection, rows)
        connection.execute(f"DROP TABLE {OURS}, {THEIRS}")
    return {
        "rows": rows,
        "upserts per second": rows / min(our_seconds),
        "upserts per second, executemany": rows / min(their_seconds),
        "times executemany": min(their_seconds) / min(our_seconds),
    }


class _Ours:
    """A table as an application's write task keeps it."""

    def __init__(self, url: str) -> None:
        self.destination, self.evaluator, self.batch = PostgresDatabase(url), Evaluator(), 0
        self.output = OutputSpec(OURS, Postgres(OURS), parse(SCHEMA), KEY, table=True)
        self.checkpoint = f"bench-{time.time_ns()}"
        self.destination.prepare([self.output])

    def write(self, rows: pa.Table) -> None:
        part = Part("bench", self.checkpoint, run=1, batch=self.batch, task=0, tick=self.batch)
        self.destination.deliver(part, [(self.output, rows)], self.evaluator)
        self.batch += 1

    def close(self) -> None:
        self.destination.close()


def _rows(first: int, last: int, *, revision: int) -> pa.Table:
    numbers = range(first, last)
    minute = 60_000_000
    starts = [1_767_225_600_000_000 + number // 1000 * minute for number in numbers]
    return pa.table(
        {
            "page": [f"/articles/{number % 1000}" for number in numbers],
            "window_start": pa.array(starts, pa.timestamp("us")),
            "views": [number + revision for number in numbers],
            "total": [(number + revision) / 3 for number in numbers],
            "__op": pa.array([1] * len(numbers), pa.int8()),
            "__revision": pa.array([revision] * len(numbers), pa.int64()),
        }
    )


def _taken_back(rows: pa.Table) -> pa.Table:
    return rows.set_column(4, "__op", pa.array([-1] * rows.num_rows, pa.int8()))


def _tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    columns = [rows[name].to_pylist() for name in ("page", "window_start", "views", "total")]
    columns[1] = [each.replace(tzinfo=UTC) for each in columns[1] if isinstance(each, datetime)]
    return [(*row, 1) for row in zip(*columns, strict=True)]


def _executemany(connection: psycopg.Connection, rows: list[tuple[Any, ...]]) -> None:
    with connection.transaction():
        connection.cursor().executemany(EXECUTEMANY, rows)


def _seconds(work: Callable[[], None]) -> float:
    begun_at = time.monotonic()
    work()
    return time.monotonic() - begun_at


def _compare(connection: psycopg.Connection, rows: int) -> None:
    columns = "page, window_start, views, total"
    [(count, differing)] = connection.execute(
        f"SELECT (SELECT count(*) FROM {OURS}), (SELECT count(*) FROM"
        f" (SELECT {columns} FROM {OURS} EXCEPT SELECT {columns} FROM {THEIRS}) AS other)"
    ).fetchall()
    if count != rows or differing:
        raise JobError("the tables of a benchmark differ", got=f"{count} rows, {differing} differ")
