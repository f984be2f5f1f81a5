"""DuckDB for formats: queries over Arrow tables, and the Arrow types that columns have."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.schema import Schema, quoted

PLANS = 128
"""How many queries of a connection keep their plan: a program has tens."""

Named = tuple[str, pa.Schema]
"""An input relation, and its columns."""
Values = Mapping[str, int]
NONE: Values = MappingProxyType({})


def run(query: str, **tables: pa.Table) -> pa.Table:
    """Queries name their input relations as tables."""
    return _queries().run(query, NONE, tables)


class Input:
    """What a plan reads: another table each time, of the same columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.table: pa.Table | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None, "a plan is made without rows"
        return self.table.__arrow_c_stream__(requested_schema)


class Plan:
    """A query over tables of known columns. It is parsed, bound and optimized once: over a small
    batch that is most of its work."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, name: str, query: str, of: list[Named]
    ) -> None:
        self.connection, self.name = connection, name
        self.inputs = {each: Input(schema) for each, schema in of}
        for each, held in self.inputs.items():
            connection.register(each, held)
        try:
            connection.execute(f"PREPARE {name} AS {query}")
        finally:
            for each in self.inputs:
                connection.unregister(each)

    def run(self, values: Values, tables: Mapping[str, pa.Table]) -> pa.Table:
        for name, held in self.inputs.items():
            held.table = tables[name]
        # of another type than the plan has for it, it would be bound anew
        given = ", ".join(f"{name} := {value}::BIGINT" for name, value in values.items())
        try:
            asked = f"EXECUTE {self.name}({given})" if given else f"EXECUTE {self.name}"
            return self.connection.sql(asked).to_arrow_table()
        finally:
            for held in self.inputs.values():
                held.table = None


class Queries:
    """Those of one connection, for one thread, with their plans."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.plans: OrderedDict[tuple[str, tuple[Named, ...]], Plan] = OrderedDict()
        self.planned = 0

    def run(self, query: str, values: Values, tables: Mapping[str, pa.Table]) -> pa.Table:
        """`values` are those of the query's parameters."""
        given = {name: whole(table) for name, table in tables.items()}
        return self._plan(query, [(n, t.schema) for n, t in given.items()]).run(values, given)

    def _plan(self, query: str, of: list[Named]) -> Plan:
        key = query, tuple(of)
        if key in self.plans:
            self.plans.move_to_end(key)
            return self.plans[key]
        self.planned += 1
        plan = self.plans[key] = Plan(self.connection, f"plan{self.planned}", query, of)
        if len(self.plans) > PLANS:
            _, oldest = self.plans.popitem(last=False)
            self.connection.execute(f"DEALLOCATE {oldest.name}")
        return plan


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
    # what is read may be personal, and is written nowhere before it is sealed
    connection.execute("SET temp_directory=''")
    return connection


def _queries() -> Queries:
    """Of this thread."""
    if not hasattr(_own, "queries"):
        _own.queries = Queries(in_order())
    found: Queries = _own.queries
    return found


_own = threading.local()
