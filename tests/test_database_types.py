"""Types of columns in databases: made, compared, read back, and every value as it was."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import psycopg
import pyarrow as pa
import pytest

from databases import EVALUATOR, PART, in_postgres, in_sqlite
from riverrun.errors import DatabaseError, ProgramError
from riverrun.outputs import OutputSpec
from riverrun.schema import Schema, schema_of
from riverrun.sinks import sqlite_file as sqlite_types
from riverrun.sinks.postgresql import types as postgres_types

NUL = "\x00"
VALUES = {
    "VARCHAR": ["", "NULL", "a,b", 'say "no"', "it's\nnew\r\nline", "\\N", "\\.", "Ünï 🌊", " "],
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "SMALLINT": [-32768, 32767],
    "INTEGER": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1, 0],
    "HUGEINT": [2**127 - 1, -(2**127) + 1],
    "UTINYINT": [255],
    "USMALLINT": [65535],
    "UINTEGER": [2**32 - 1],
    "UBIGINT": [2**64 - 1],
    "DECIMAL(10,2)": [Decimal("-12345678.90"), Decimal("0.01")],
    "DECIMAL(38,10)": [Decimal("1234567890123456789012345678.0123456789")],
    "DOUBLE": [0.1, -1e308, 5e-324, math.inf, -math.inf, 1 / 3],
    "FLOAT": [0.5, math.inf],
    "DATE": [date(1, 1, 1), date(2026, 2, 28), date(9999, 12, 31)],
    "TIME": [time(0, 0), time(23, 59, 59, 999_999)],
    "TIMESTAMP": [
        datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime(2026, 3, 29, 1, 30, 0, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ],
    "UUID": [UUID("8adf4444-aa77-48e8-a9e2-22cc0f975fe8")],
    "BLOB": [b"", b"\x00\xff\\x"],
    "JSON": ['{"a": [1, null, "\\"x\\""]}', "5", '"text"'],
}  # fmt: skip
"""Types, and what is hard about them. Every column also holds null."""

NESTED = [
    ("INTEGER[]", [[1, None, 3], []], [[1, None, 3], []]),
    ("VARCHAR[][]", [[["a", ""], None, []]], [[["a", ""], None, []]]),
    ("STRUCT(a INTEGER, b VARCHAR[])", [{"a": 1, "b": ["x"]}], [{"a": 1, "b": ["x"]}]),
    ("TIMESTAMP[]", [[datetime(2026, 1, 2, 3, 4, 5, 6)]], [["2026-01-02T03:04:05.000006Z"]]),
    ("DOUBLE[]", [[1.5, math.nan, math.inf]], [[1.5, None, None]]),
    ("MAP(VARCHAR, INTEGER)", [[("k", 1), ("l", None)]], [{"k": 1, "l": None}]),
]


def output(database, type):
    return OutputSpec("held", database.sink("held"), schema_of([("v", type)]), (), table=False)


def rows(type, values):
    """As the engine has them: DuckDB's own idea of the type."""
    if type == "HUGEINT":  # Arrow's widest number is a digit short of it
        numbers = ["NULL" if value is None else str(value) for value in values]
        return EVALUATOR.run(" UNION ALL ".join(f"SELECT {each}::HUGEINT AS v" for each in numbers))
    if type == "UUID":
        values = [None if value is None else str(value) for value in values]
    shape = EVALUATOR.run(f"SELECT NULL::{type} AS v").schema
    return pa.table({"v": pa.array(values, shape.field("v").type)})


def kept(database, type, values):
    """What the database holds of them."""
    held = output(database, type)
    database.destination.prepare([held])
    database.destination.deliver(PART, [(held, rows(type, values))], EVALUATOR)
    return [row[0] for row in database.query("SELECT v FROM held")]


@pytest.fixture
def server(postgres):
    own = in_postgres(postgres)
    yield own
    own.close()


@pytest.mark.parametrize("type", VALUES)
def test_postgres_holds_every_value_and_tells_the_type_back(type, server):
    values = [*VALUES[type], None]
    found = kept(server, type, values)
    if type == "TIMESTAMP":
        values = [None if each is None else each.replace(tzinfo=UTC) for each in values]
    if type == "JSON":
        values = [None if each is None else json.loads(each) for each in values]
    assert found == values
    [(name,)] = server.query(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'held'::regclass AND attname = 'v'"
    )
    assert name == postgres_types.column_type(type)
    assert postgres_types.fits(postgres_types.column_type(type), name)
    back = postgres_types.schema_type(name)
    assert postgres_types.column_type(back) == name or name == "numeric"


@pytest.mark.parametrize("type", ["DOUBLE", "FLOAT"])
def test_postgres_holds_what_is_not_a_number(type, server):
    [found] = kept(server, type, [math.nan])
    assert math.isnan(found)


@pytest.mark.parametrize(("type", "values", "expected"), NESTED)
def test_lists_structs_and_maps_are_json(type, values, expected, server, tmp_path):
    assert kept(server, type, [*values, None]) == [*expected, None]
    file = in_sqlite(tmp_path / "own.db")
    texts = kept(file, type, [*values, None])
    assert [None if text is None else json.loads(text) for text in texts] == [*expected, None]


IN_SQLITE = {
    "BOOLEAN": [1, 0],
    "DECIMAL(10,2)": ["-12345678.90", "0.01"],
    "DECIMAL(38,10)": ["1234567890123456789012345678.0123456789"],
    "HUGEINT": [str(2**127 - 1), str(-(2**127) + 1)],
    "UBIGINT": [str(2**64 - 1)],
    "DATE": ["0001-01-01", "2026-02-28", "9999-12-31"],
    "TIME": ["00:00:00", "23:59:59.999999"],
    "TIMESTAMP": [
        "0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "2026-03-29T01:30:00.000001Z",
        "9999-12-31T23:59:59.999999Z",
    ],
    "UUID": ["8adf4444-aa77-48e8-a9e2-22cc0f975fe8"],
}  # fmt: skip


@pytest.mark.parametrize("type", VALUES)
def test_sqlite_holds_every_value_as_number_text_or_bytes(type, tmp_path):
    database = in_sqlite(tmp_path / "own.db")
    assert kept(database, type, [*VALUES[type], None]) == [*IN_SQLITE.get(type, VALUES[type]), None]
    [(declared,)] = database.query("SELECT type FROM pragma_table_info('held')")
    assert declared == sqlite_types.column_type(type)
    assert sqlite_types.fits(declared, declared)
    assert sqlite_types.column_type(sqlite_types.schema_type(declared)) == declared


def test_a_picture_stands_for_the_null_character_in_postgres(server):
    assert kept(server, "VARCHAR", [f"a{NUL}b", "c"]) == ["a\N{SYMBOL FOR NULL}b", "c"]


@pytest.mark.parametrize("type", ["INTERVAL", "BIT"])
def test_a_type_that_no_column_holds_is_refused_before_anything_is_made(type, server, tmp_path):
    for database in (server, in_sqlite(tmp_path / "own.db")):
        held = output(database, type)
        with pytest.raises(ProgramError, match="the type of 'v' cannot be written"):
            held.sink.check(held.schema, table=held.table, where=None)


@pytest.mark.parametrize(
    ("wanted", "found", "fits"),
    [
        ("bigint", "integer", False),
        ("integer", "bigint", True),
        ("integer", "numeric", True),
        ("text", "character varying", True),
        ("text", "character varying(10)", False),
        ("numeric(10,2)", "numeric(12,2)", True),
        ("numeric(10,2)", "numeric(10,3)", False),
        ("numeric(10,2)", "numeric", True),
        ("numeric", "numeric(38,0)", False),
        ("double precision", "real", False),
        ("timestamp with time zone", "timestamp without time zone", True),
        ("timestamp with time zone", "date", False),
        ("jsonb", "json", True),
        ("uuid", "text", True),
    ],
)
def test_a_column_fits_when_it_holds_every_value(wanted, found, fits):
    assert postgres_types.fits(wanted, found) is fits


@pytest.mark.parametrize(
    ("found", "type"),
    [
        ("character varying(20)", "VARCHAR"),
        ("timestamp(3) with time zone", "TIMESTAMP"),
        ("numeric", "VARCHAR"),
        ("numeric(60,3)", "VARCHAR"),
        ("integer[]", "INTEGER[]"),
        ("mood", "VARCHAR"),
    ],
)
def test_other_types_of_postgres_are_read_as_what_holds_them(found, type):
    assert postgres_types.schema_type(found) == type


def test_times_of_an_existing_column_without_zone_are_utc(postgres):
    server = in_postgres(f"{postgres}%20-ctimezone%3DAsia/Tokyo")
    server.query("CREATE TABLE held (v timestamp)")
    assert kept(server, "TIMESTAMP", [datetime(2026, 1, 1, 12)]) == [datetime(2026, 1, 1, 12)]
    server.close()


def test_names_of_columns_may_be_any_text(server, tmp_path):
    names = ['a "quoted" name', "select", "50% of\\it", "Ü"]
    for database in (server, in_sqlite(tmp_path / "own.db")):
        schema = Schema(schema_of([(name, "INTEGER") for name in names]).columns)
        held = OutputSpec("held", database.sink("held"), schema, (names[0],), table=True)
        database.destination.prepare([held])
        database.destination.prepare([held])
        for number, op in ((0, (1,)), (1, (-1, 1)), (2, (-1,))):
            table = pa.table(
                {
                    **{name: pa.array([7] * len(op), pa.int32()) for name in names},
                    "__op": pa.array(op, pa.int8()),
                    "__revision": pa.array([number] * len(op), pa.int64()),
                }
            )
            part = PART.__class__("shop", "c", 1, number, 0, number)
            database.destination.deliver(part, [(held, table)], EVALUATOR)
            assert len(database.query("SELECT * FROM held")) == (number < 2)


def test_a_name_that_postgres_would_cut_is_refused(server):
    long = "ü" * 40
    schema = schema_of([(long, "INTEGER")])
    held = OutputSpec("held", server.sink("held"), schema, (), table=False)
    with pytest.raises(DatabaseError, match="longer than 63 bytes"):
        server.destination.prepare([held])
    with pytest.raises(psycopg.errors.UndefinedTable):
        server.query("TABLE held")
