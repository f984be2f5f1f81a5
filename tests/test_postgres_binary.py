"""Rows in PostgreSQL's binary format are the rows that CSV would give, on a real server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import EVALUATOR, PART, in_postgres
from riverrun.sinks.postgresql import load as postgres_load
from riverrun.sinks.postgresql.binary import binary, possible

VALUES = {
    "string": ["''", "'café'", "repeat('long ', 9000)", "'a,\"b\"\n\\.'"],
    "boolean": ["true", "false"],
    "tinyint": ["-128", "127"],
    "smallint": ["-32768", "32767"],
    "int": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "0"],
    "utinyint": ["255"],
    "usmallint": ["65535"],
    "uinteger": ["4294967295"],
    "float": ["0.1", "'-inf'", "'nan'", "3.4028235e38"],
    "double": ["0.1", "'inf'", "'nan'", "-1.7976931348623157e308", "5e-324"],
    "date": ["'1582-10-15'", "'1999-12-31'", "'2000-01-01'", "'9999-12-31'"],
    "timestamp": ["'1969-12-31 23:59:59.999999'", "'2000-01-01'", "'2026-03-29 01:30:00.000001'"],
    "timestamp_ms": ["'1999-12-31 23:59:59.999'", "'2026-03-29 01:30:00'"],
    "timestamp_s": ["'1999-12-31 23:59:59'"],
    "timestamptz": ["'2026-03-29 01:30:00.5+02'"],
}


@pytest.fixture
def database(postgres):
    own = in_postgres(postgres)
    yield own
    own.close()


def made(type):
    """A row for each value, and one without."""
    values = ", ".join(f"({number}, CAST({v} AS {type}))" for number, v in enumerate(VALUES[type]))
    query = f"SELECT n::BIGINT AS n, v FROM (VALUES {values}, (-1, NULL::{type})) AS given(n, v)"
    return EVALUATOR.run(f"SELECT *, 1 AS __op, 0 AS __revision FROM ({query})")


@pytest.mark.parametrize("type", VALUES)
@pytest.mark.parametrize("key", ["n", "v"])
def test_each_type_is_written_as_csv_would_write_it(type, key, database, monkeypatch):
    rows = made(type)
    found = []
    for name in ("as_binary", "as_csv"):
        output = database.table(name, f"n bigint, v {type}", key)
        database.destination.prepare([output])
        assert possible(output)
        if name == "as_csv":
            monkeypatch.setattr(postgres_load, "possible", lambda output: False)
        # the second time every row is there, and goes through a staged table
        for checkpoint in ("c1", "c2"):
            part = replace(PART, checkpoint=f"{name}-{checkpoint}")
            database.destination.deliver(part, [(output, rows)], EVALUATOR)
        found.append(database.query(f"SELECT n, v::text FROM {name} ORDER BY n"))
    assert found[0] == found[1]
    assert len(found[0]) == rows.num_rows


def test_rows_are_laid_out_as_the_manual_says():
    rows = EVALUATOR.run("SELECT * FROM (VALUES ('ab', 1::SMALLINT), (NULL, 2)) AS given(a, b)")
    first = b"\0\x02" + b"\0\0\0\x02ab" + b"\0\0\0\x02\0\x01"
    second = b"\0\x02" + b"\xff\xff\xff\xff" + b"\0\0\0\x02\0\x02"
    [lot] = rows.to_batches()
    assert binary(lot, {"a": "text", "b": "smallint"}) == first + second


@pytest.mark.parametrize(
    "type", ["decimal(9,2)", "hugeint", "uuid", "time", "timestamp_ns", "json"]
)
def test_columns_of_other_types_go_as_csv(type, database):
    assert not possible(database.table("counts", f"page string, n {type}"))


def test_a_column_whose_type_was_changed_meanwhile_gets_the_same_values(database):
    """The bytes of 1 as a whole number are another number of the type double."""
    counts = database.table()
    database.destination.prepare([counts])
    database.deliver(counts, [(1, "/a", 1)])
    database.query("ALTER TABLE counts ALTER COLUMN n TYPE double precision")
    database.deliver(counts, [(-1, "/a", 1), (1, "/a", 2), (1, "/b", 3)], batch=1)
    assert database.counts() == {"/a": 2.0, "/b": 3.0}


def test_rows_that_are_all_key_come_and_go(database):
    pairs = database.table(key="page n")
    database.destination.prepare([pairs])
    database.deliver(pairs, [(1, "/a", 1), (1, "/b", 1), (1, None, None)])
    database.deliver(pairs, [(-1, "/a", 1), (-1, None, None), (1, "/c", 1)], batch=1)
    assert database.counts() == {"/b": 1, "/c": 1}
