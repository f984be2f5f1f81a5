"""Expressions of others than the program: where one fails, the job goes on.

`TRY(…)` makes null of most errors, and is fast. Some come through it, such as a time zone that is
not known: then it is found out which expressions fail, and on which rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from riverrun.errors import ProgramError
from riverrun.kernels.sql import Evaluator, type_of
from riverrun.schema import Schema

BROKEN = (duckdb.InterruptException, duckdb.FatalException, duckdb.InternalException)
"""Errors that are not those of a row: the job is being stopped, or DuckDB can do nothing more."""


def can_be_tried(expression: str, schema: Schema, where: object) -> bool:
    """Whether TRY takes what can be evaluated: it does not take functions such as error()."""
    try:
        type_of(f"TRY({expression})", schema, where)
    except ProgramError:
        return False
    return True


def tried(evaluator: Evaluator, expressions: Mapping[str, str], rows: pa.Table) -> pa.Table:
    """Columns by name, of one expression each. What fails on a row is null there."""
    made = ", ".join(f"TRY({text}) AS {name}" for name, text in expressions.items())
    query = f"SELECT {made} FROM rows"
    try:
        return evaluator.run(query, rows=rows)
    except BROKEN:
        raise
    except duckdb.Error:
        if len(expressions) > 1:
            return _one_by_one(evaluator, expressions, rows)
        if rows.num_rows > 1:
            middle = rows.num_rows // 2
            halves = (rows.slice(0, middle), rows.slice(middle))
            return pa.concat_tables(tried(evaluator, expressions, each) for each in halves)
        # without rows nothing fails that did not when it was checked
        none = evaluator.run(query, rows=rows.slice(0, 0)).schema
        return pa.table([pa.nulls(rows.num_rows, each.type) for each in none], schema=none)


def _one_by_one(evaluator: Evaluator, expressions: Mapping[str, str], rows: pa.Table) -> pa.Table:
    columns = [tried(evaluator, {name: text}, rows).column(0) for name, text in expressions.items()]
    return pa.table(columns, names=list(expressions))
