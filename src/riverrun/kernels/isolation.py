"""Rows that make a query fail are found by halving; the others go on."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from riverrun.kernels.letters import NO_TIME, Failure, Place
from riverrun.kernels.sql import Evaluator
from riverrun.program import Branch, OnError
from riverrun.schema import first_line

Isolated = tuple[pa.Table, list[Failure]]


def evaluated(evaluator: Evaluator, branch: Branch, query: str, rows: pa.Table) -> Isolated:
    """What the branch makes of rows that a step gave. A change of a table cannot be left out: the
    table would be wrong from then on. One that fails stops the job."""
    if "__pos" not in rows.column_names:
        return evaluator.checked(query, rows, branch), []
    return isolated(evaluator, query, rows, (branch.step, branch.on_error))


def isolated(evaluator: Evaluator, query: str, rows: pa.Table, at: tuple[str, OnError]) -> Isolated:
    """Runs the query. `at` is the step that fails, and what is to happen to rows that do."""
    try:
        return evaluator.run(query, rows=rows), []
    except duckdb.Error as error:
        if rows.num_rows <= 1:
            cause = first_line(error)
            empty = evaluator.run(query, rows=rows.slice(0, 0))
            return empty, [_failure(rows, cause, *at)] if rows.num_rows else []
    middle = rows.num_rows // 2
    halves = [isolated(evaluator, query, part, at) for part in (rows[:middle], rows[middle:])]
    return pa.concat_tables([table for table, _ in halves]), halves[0][1] + halves[1][1]


def _failure(rows: pa.Table, cause: str, step: str, on_error: OnError) -> Failure:
    pos, sub = (rows[name][0].as_py() for name in ("__pos", "__sub"))
    try:
        row = rows.to_pylist()[0]
    except (OverflowError, ValueError):  # a time that Python does not have
        return Failure(Place(NO_TIME, pos, sub), step, cause, on_error)
    shown = {name: value for name, value in row.items() if not name.startswith("__")}
    return Failure(Place(row["__at"], pos, sub), step, cause, on_error, row=shown)
