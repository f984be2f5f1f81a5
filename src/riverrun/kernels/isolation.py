"""Rows that make a query fail are found by halving; the others go on."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from riverrun.formats.query import NONE, Values
from riverrun.kernels.letters import NO_TIME, Failure, OnError, Place
from riverrun.kernels.revealing import discreet
from riverrun.kernels.sql import Evaluator
from riverrun.schema import first_line

Isolated = tuple[pa.Table, list[Failure]]


def isolated(
    evaluator: Evaluator,
    query: str,
    rows: pa.Table,
    *,
    line: str,
    on_error: OnError,
    values: Values = NONE,
) -> Isolated:
    """Runs the query over facts. `line` is the user's, and `on_error` what is to happen to rows
    that fail."""
    try:
        return evaluator.run(query, values, rows=rows), []
    except duckdb.Error as error:
        if rows.num_rows <= 1:
            empty = evaluator.run(query, values, rows=rows.slice(0, 0))
            cause = discreet(first_line(error), query)
            failed = [_failure(rows, cause, line, on_error)] if rows.num_rows else []
            return empty, failed
    middle = rows.num_rows // 2
    halves = [
        isolated(evaluator, query, part, line=line, on_error=on_error, values=values)
        for part in (rows[:middle], rows[middle:])
    ]
    return pa.concat_tables([table for table, _ in halves]), halves[0][1] + halves[1][1]


def _failure(rows: pa.Table, cause: str, line: str, on_error: OnError) -> Failure:
    pos, sub = (rows[name][0].as_py() for name in ("__pos", "__sub"))
    try:
        row = rows.to_pylist()[0]
    except (OverflowError, ValueError):  # a time that Python does not have
        return Failure(Place(NO_TIME, pos, sub), line, cause, on_error)
    shown = {name: value for name, value in row.items() if not name.startswith("__")}
    return Failure(Place(row["__at"], pos, sub), line, cause, on_error, row=shown)
