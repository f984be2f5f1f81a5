"""DuckDB for formats: queries over Arrow tables, and the Arrow types that columns have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.schema import Schema, quoted


def run(query: str, **tables: pa.Table) -> pa.Table:
    """Queries name their input relations as tables."""
    connection = _connection().cursor()
    for name, table in tables.items():
        connection.register(name, whole(table))
    return connection.sql(query).to_arrow_table()


def whole(table: pa.Table) -> pa.Table:
    """The table as DuckDB takes it: it refuses structs that are a part of longer arrays, also
    where columns are cut at different rows."""
    nested = [column for column in table.columns if pa.types.is_nested(column.type)]
    if not nested:
        return table
    cuts = {tuple(map(len, column.chunks)) for column in table.columns}
    if len(cuts) > 1 or any(_is_part(chunk) for column in nested for chunk in column.chunks):
        return table.combine_chunks().take(pa.array(range(table.num_rows), pa.int64()))
    return table


def _is_part(values: pa.Array) -> bool:
    if values.offset:
        return True
    type = values.type
    if pa.types.is_struct(type):
        return any(_is_part(values.field(number)) for number in range(type.num_fields))
    if pa.types.is_map(type):
        return _is_part(values.keys) or _is_part(values.items)
    return bool(pa.types.is_nested(type)) and _is_part(values.values)


def in_groups(
    rows: pa.Table, groups: pa.Array, made: Callable[[pa.Table, int], pa.Table]
) -> pa.Table:
    """What is made of the rows of each group, in the order of the rows."""
    parts = []
    for number in pc.unique(groups).to_pylist():
        mine = pc.equal(groups, number)
        places = pc.indices_nonzero(mine).cast(pa.int64())
        parts.append(made(rows.filter(mine), number).append_column("__place", places))
    return pa.concat_tables(parts).sort_by("__place").drop_columns(["__place"])


def replaced(rows: pa.Table, where: pa.ChunkedArray, others: pa.Table) -> pa.Table:
    """The rows, with the others in place of those that are chosen, in their order."""
    turn = pc.add(pc.cumulative_sum(where.cast(pa.int64())), rows.num_rows - 1)
    own = pa.array(range(rows.num_rows), pa.int64())
    return pa.concat_tables([rows, others]).take(pc.if_else(where, turn, own))


def spread(rows: pa.Table, where: pa.ChunkedArray) -> pa.Table:
    """The rows at the places that are true; nulls at the others."""
    if rows.num_rows == len(where):
        return rows
    turn = pc.subtract(pc.cumulative_sum(where.cast(pa.int64())), 1)
    return rows.take(pc.if_else(where, turn, pa.scalar(None, pa.int64())))


@cache
def arrow_schema(columns: Schema) -> pa.Schema:
    """The Arrow types of columns once they are read: times are TIMESTAMP, whatever their unit."""
    nulls = [f"NULL::{c.type} AS {quoted(c.name)}" for c in columns.with_plain_times.columns]
    return run(f"SELECT {', '.join(nulls)} LIMIT 0").schema


def in_order() -> duckdb.DuckDBPyConnection:
    """A DuckDB whose results have the order of the rows they are made of."""
    connection = duckdb.connect()
    connection.execute("SET threads=1; SET TimeZone='UTC'; SET preserve_insertion_order=true")
    # IN with five values and more would be a join, which holds back a few rows of one chunk while
    # those of the next pass
    connection.execute("SET disabled_optimizers='in_clause'")
    return connection


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return in_order()
