"""DuckDB for formats: queries over Arrow tables, and the Arrow types that columns have."""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa

from riverrun.schema import Schema, quoted


def run(query: str, **tables: pa.Table) -> pa.Table:
    """Queries name their input relations as tables."""
    connection = _connection().cursor()
    for name, table in tables.items():
        connection.register(name, table)
    return connection.sql(query).to_arrow_table()


@cache
def arrow_schema(columns: Schema) -> pa.Schema:
    """The Arrow types of columns once they are read: times are TIMESTAMP, whatever their unit."""
    nulls = [f"NULL::{c.type} AS {quoted(c.name)}" for c in columns.with_plain_times.columns]
    return run(f"SELECT {', '.join(nulls)} LIMIT 0").schema


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads=1; SET TimeZone='UTC'; SET preserve_insertion_order=true")
    return connection
