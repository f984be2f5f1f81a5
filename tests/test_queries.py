"""Queries are planned once, and read what they are given each time."""

from __future__ import annotations

import gc
import threading
import weakref

import duckdb
import pyarrow as pa
import pytest

from riverrun.formats import query
from riverrun.formats.query import NONE, PLANS, Queries, in_order
from riverrun.kernels.sql import Evaluator

DOUBLED = "SELECT a, a * 2 AS b FROM rows WHERE a IS NOT NULL"


@pytest.fixture
def queries() -> Queries:
    return Queries(in_order())


def doubled(queries: Queries, *values: object) -> dict[str, list[object]]:
    return queries.run(DOUBLED, NONE, {"rows": pa.table({"a": list(values)})}).to_pydict()


def test_a_plan_reads_the_rows_that_it_is_given_now(queries):
    assert doubled(queries, 1, 2) == {"a": [1, 2], "b": [2, 4]}
    assert doubled(queries, 5, None, 4, 3) == {"a": [5, 4, 3], "b": [10, 8, 6]}
    assert queries.planned == 1


def test_a_plan_made_over_few_rows_keeps_the_order_of_many(queries):
    doubled(queries, 1)
    many = [*range(5000, 0, -1)]
    rows = pa.concat_tables(pa.table({"a": many[at : at + 700]}) for at in range(0, 5000, 700))
    found = queries.run(DOUBLED, NONE, {"rows": rows})
    assert found["a"].to_pylist() == many
    assert queries.planned == 1


def test_columns_of_another_type_or_order_are_another_plan(queries):
    doubled(queries, 1)
    assert doubled(queries, 1.5) == {"a": [1.5], "b": [3.0]}
    for columns in ({"a": [1], "z": [9]}, {"z": [9], "a": [1]}):
        found = queries.run(DOUBLED, NONE, {"rows": pa.table(columns)})
        assert found.to_pydict() == {"a": [1], "b": [2]}
    assert queries.planned == 4


def test_what_changes_from_batch_to_batch_is_a_parameter(queries):
    text = "SELECT a <= $closed::BIGINT AS late FROM rows"
    rows = {"rows": pa.table({"a": [1, 2, 3]})}
    for closed in (2, -1, 2**62):
        found = queries.run(text, {"closed": closed}, rows)
        assert found["late"].to_pylist() == [a <= closed for a in (1, 2, 3)]
    assert queries.planned == 1


def test_a_row_that_fails_says_so_each_time_and_the_next_batch_is_as_before(queries):
    text = "SELECT a::INTEGER AS n FROM rows"
    for _ in range(2):
        with pytest.raises(duckdb.ConversionException, match="Could not convert string 'x'"):
            queries.run(text, NONE, {"rows": pa.table({"a": ["1", "x"]})})
        assert queries.run(text, NONE, {"rows": pa.table({"a": ["7"]})})["n"].to_pylist() == [7]


def test_what_was_read_is_not_kept(queries):
    rows = pa.table({"a": [1, 2]})
    kept = weakref.ref(rows)
    queries.run(DOUBLED, NONE, {"rows": rows})
    del rows
    gc.collect()
    assert kept() is None


def test_of_many_queries_those_that_were_used_last_keep_their_plans(queries):
    for number in range(PLANS + 3):
        queries.run(f"SELECT {number} AS n", NONE, {})
        doubled(queries, number)
    assert len(queries.plans) == PLANS
    [(known,)] = queries.connection.sql(
        "SELECT count(*) FROM duckdb_prepared_statements()"
    ).fetchall()
    assert known == PLANS
    assert queries.planned == PLANS + 4
    assert queries.run("SELECT 0 AS n", NONE, {}).to_pydict() == {"n": [0]}


def test_threads_have_queries_of_their_own():
    found = []

    def ask(value: int) -> None:
        rows = pa.table({"a": [value] * 100})
        found.extend(
            query.run(DOUBLED, rows=rows)["b"].to_pylist() == [2 * value] * 100 for _ in range(20)
        )

    threads = [threading.Thread(target=ask, args=(value,)) for value in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [True] * 80


def test_a_query_that_is_wrong_leaves_nothing_behind():
    evaluator = Evaluator()
    with pytest.raises(duckdb.BinderException):
        evaluator.run("SELECT nope FROM rows", rows=pa.table({"a": [1]}))
    with pytest.raises(duckdb.CatalogException):
        evaluator.run("SELECT a FROM rows")
