"""A question in parts against the same query over the whole table, by DuckDB."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from riverrun.errors import InputError
from riverrun.kernels.questions import Answering, Place, Point, Question, asking, part_of
from riverrun.kernels.typed import columns_of
from riverrun.questions.answer import answer
from riverrun.questions.select import NAMES
from riverrun.questions.split import split
from riverrun.schema import parse
from thorough import examples

SCHEMA = parse(
    "id bigint, k string, a bigint, b double, at timestamp, h hugeint, s struct(x bigint), "
    "l bigint[], d decimal(9,2), u uuid, j json, t boolean"
)
VALUES = (
    st.sampled_from(["a", "b", "C", None]),
    st.sampled_from([None, -3, 0, 1, 2, 2**30]),
    st.sampled_from([None, 0.0, -0.0, 0.5, -2.25, math.nan, math.inf]),
    st.sampled_from([datetime(2026, 1, 1, hour) for hour in range(3)]),
    st.sampled_from([None, 1, -(10**30)]),
    st.sampled_from([None, {"x": 1}, {"x": None}]),
    st.sampled_from([None, [], [1, None]]),
    st.sampled_from([None, Decimal("1.50"), Decimal("-0.01")]),
    st.sampled_from([str(UUID(int=n)) for n in range(3)]),
    st.sampled_from(['{"a":1}', "[]"]),
    st.sampled_from([None, True, False]),
)
PARTS = st.lists(st.lists(st.tuples(*VALUES), max_size=6), min_size=1, max_size=4)


def tables(parts):
    """With an id, so that rows can be put in one order."""
    numbered = iter(range(1000))
    rows = [[(next(numbered), *row) for row in part] for part in parts]
    made = columns_of(SCHEMA).frame
    return [made(each).to_arrow() for each in rows], made([r for p in rows for r in p]).to_arrow()


def in_parts(sql, pages):
    plan, answering = split(sql, "per-user", SCHEMA), Answering()
    question = Question("q", "per-user", plan.page)
    told = [
        each
        for n, page in enumerate(pages)
        for each in answering.parts(
            [question], Place(n, len(pages), Point(1, 2, 3)), lambda _, page=page: (page, SCHEMA)
        )
    ]
    return answer(plan, [part_of(each.encoded()) for each in told], seconds=20)


def at_once(sql, table):
    with asking(table, SCHEMA, *NAMES, "per-user") as connection:
        found = connection.sql(SCHEMA.expression(sql))
        return found.fetchall(), tuple(map(str, found.types))


def close(value):
    """The last digits of sums and averages depend on the order of rows."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else 0.0 if value == 0 else float(f"{value:.12g}")
    return value


def assert_same(sql, parts, *, ordered):
    pages, table = tables(parts)
    found = in_parts(sql, pages)
    rows, types = at_once(sql, table)
    ours = [repr(tuple(map(close, row.values()))) for row in found.rows]
    wanted = [repr(tuple(map(close, row))) for row in rows]
    assert (ours == wanted) if ordered else (sorted(ours) == sorted(wanted)), sql
    assert found.types == tuple("INTEGER" if each == '"NULL"' else each for each in types)


CONDITIONS = [
    "", "WHERE a > 0", "WHERE k = 'a' OR b IS NULL", "WHERE k LIKE '%a%' AND NOT t", "WHERE false",
    "WHERE rows.s.x = 1", "WHERE a IN (1, 2, 3)", "WHERE at < '2026-01-01 01:00'",
    "WHERE a > (SELECT avg(a) FROM rows)", "WHERE list_contains(l, 1)", "WHERE at < now()",
]  # fmt: skip
GROUPS = [
    "k", "a", "b", "t", "at", "h", "s", "l", "d", "u", "j", "s.x", "a % 2", "lower(k)",
    "date_trunc('hour', at)", "coalesce(a, 0) > 1", "CASE WHEN t THEN k END",
]  # fmt: skip
AGGREGATES = [
    "count(*)", "count(a)", "sum(a)", "sum(h)", "sum(d)", "avg(a)", "avg(d)", "min(k)", "max(at)",
    "min(u)", "max(d)", "bool_and(t)", "bool_or(a > 0)", "sum(a) FILTER (WHERE t)",
    "count(DISTINCT k)", "max(a) - min(a)", "sum(a + 1) / nullif(count(*), 0)", "median(a)",
    "count_if(t)", "CASE WHEN count(*) > 1 THEN sum(a) END", "coalesce(sum(a), -1)",
    "max(length(k))", "sum(a * a)", "min(j::VARCHAR)", "list(a ORDER BY a, id)", "mean(a)",
    "min(a, 2)", "sum(DISTINCT a)", "max(b)",
]  # fmt: skip
SETTINGS = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def grouped(draw):
    keys = draw(st.lists(st.sampled_from(GROUPS), max_size=2, unique=True))
    made = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3))
    named = [f"{each} AS c{n}" if draw(st.booleans()) else each for n, each in enumerate(made)]
    by = draw(st.sampled_from(["text", "place", "all"])) if keys else "none"
    group = {
        "text": f"GROUP BY {', '.join(keys)}", "none": "", "all": "GROUP BY ALL",
        "place": f"GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}",
    }[by]  # fmt: skip
    having = draw(
        st.sampled_from(["", "", "HAVING count(*) > 1", "HAVING sum(a) > 0 OR max(k) = 'a'"])
    )
    distinct = draw(st.sampled_from(["", "", "DISTINCT "]))
    where = draw(st.sampled_from(CONDITIONS))
    items = ", ".join([*keys, *named])
    return f"SELECT {distinct}{items} FROM rows {where} {group} {having}"


@SETTINGS
@given(grouped(), PARTS)
def test_aggregates_are_those_of_the_whole_table(sql, parts):
    assert_same(sql, parts, ordered=False)


ITEMS = [
    "*",
    "k, a",
    "id, a + 1 AS next",
    "upper(k) AS k, b AS a",
    "d, u, j, h",
    "l, s, s.x",
    "rows",
]
ORDERS = [
    "", "ORDER BY id", "ORDER BY a DESC NULLS LAST, id", "ORDER BY -a, lower(k), id DESC",
    "ORDER BY 1, id", "ORDER BY k, id", "ORDER BY b, rows.id",
]  # fmt: skip


@SETTINGS
@given(
    st.sampled_from(ITEMS), st.sampled_from(CONDITIONS), st.sampled_from(ORDERS),
    st.sampled_from(["", "LIMIT 3", "LIMIT 2 OFFSET 1", "LIMIT 0", "LIMIT 40%"]), PARTS,
)  # fmt: skip
def test_rows_are_those_of_the_whole_table(items, where, order, limit, parts):
    if not order:
        limit = ""  # any rows would do
    assert_same(f"SELECT {items} FROM rows {where} {order} {limit}", parts, ordered=bool(order))


OTHERS = [
    "SELECT DISTINCT k, t FROM this ORDER BY ALL",
    "SELECT DISTINCT 1 / b FROM rows ORDER BY ALL",
    "SELECT DISTINCT ON (k) k, id FROM rows ORDER BY k, id",
    "SELECT k, rank() OVER (PARTITION BY k ORDER BY id) AS r FROM rows ORDER BY ALL",
    "SELECT k FROM rows QUALIFY row_number() OVER (ORDER BY id) <= 3 ORDER BY ALL",
    "SELECT max(n) FROM (SELECT k, count(*) AS n FROM rows GROUP BY k)",
    "WITH few AS (FROM rows WHERE a > 0) SELECT count(*) FROM few",
    'SELECT r.k, o.id FROM rows r JOIN "per-user" o ON r.id = o.id + 1 ORDER BY ALL',
    "SELECT k, t, sum(a) FROM rows GROUP BY ROLLUP (k, t) ORDER BY ALL",
    "SELECT count(*) FROM rows UNION ALL SELECT sum(a) FROM this",
    "SELECT k, sum(a) AS a FROM rows GROUP BY k ORDER BY a NULLS LAST, k",
    "SELECT k, sum(a) AS a FROM rows GROUP BY k HAVING sum(a) > 0 ORDER BY k",
    "SELECT k AS a, a AS k, count(*) FROM rows GROUP BY k, a ORDER BY k, a, 3",
    "SELECT k, sum(a) * 2 AS z, z + 1 AS more FROM rows GROUP BY k ORDER BY z NULLS FIRST, k",
    "SELECT k, sum(a) FROM rows GROUP BY k ORDER BY count(*) DESC, k LIMIT 2",
    "SELECT lower(k) AS k, count(*) AS n FROM rows WHERE k = 'C' GROUP BY k ORDER BY ALL",
    "SELECT a % 2 AS odd, count(*) AS n FROM rows GROUP BY odd ORDER BY odd",
    "SELECT COLUMNS('a|k') FROM rows ORDER BY ALL",
    "SELECT any_value(7), NULL, count(*) FROM rows",
    "SELECT id, id, id AS id FROM rows ORDER BY id",
    "FROM rows ORDER BY id",
    "SELECT max(at::TIMESTAMPTZ), min(at::TIMESTAMP_MS), max(at::DATE), min(at::TIME) FROM rows",
    "SELECT at::TIMESTAMPTZ, at::TIMESTAMP_MS, at - DATE '2026-01-01' FROM rows ORDER BY id",
    "SELECT list_transform(l, lambda x: x + a) FROM rows ORDER BY id",
]


@settings(SETTINGS, max_examples=examples(8))
@pytest.mark.parametrize("sql", OTHERS)
@given(PARTS)
def test_whatever_else_is_asked_has_the_answer_of_the_whole_table(sql, parts):
    assert_same(sql, parts, ordered=True)


@pytest.mark.parametrize(
    ("sql", "page"),
    [
        (
            "SELECT count(*) FROM rows WHERE a > 1",
            "SELECT count_star() AS __a0 FROM {} WHERE (a > 1)",
        ),
        (
            "SELECT k, avg(a) FROM rows GROUP BY k HAVING max(a) > 3 ORDER BY 2 LIMIT 5",
            "SELECT k AS __k0, sum(a) AS __a0, count(a) AS __a1, max(a) AS __a2 FROM {} GROUP BY k",
        ),
        (
            "SELECT upper(k) AS name FROM rows WHERE t ORDER BY name, 1 LIMIT 3 OFFSET 4",
            "SELECT k, t FROM {} WHERE t ORDER BY upper(k), upper(k) LIMIT 7",
        ),
        ("SELECT count(DISTINCT k) FROM rows WHERE t", "SELECT DISTINCT k, t FROM {} WHERE t"),
        ("SELECT median(a) FROM rows WHERE t", "SELECT a, t FROM {} WHERE t"),
        ("SELECT a FROM rows WHERE at < now()", "FROM rows"),
    ],
)
def test_filters_limits_and_aggregates_are_worked_out_in_pages(sql, page):
    assert split(sql, "users", SCHEMA).page == page.format('"rows" AS "rows"')


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT c FROM rows", "there is no column 'c'"),
        ("SELECT * FROM rows JOIN orders USING (k)", "a question reads one table"),
        ("SELECT 1", "the question does not read the table"),
        ("DELETE FROM rows", "a question is one SELECT"),
        ("SELECT 1; SELECT 2", "a question is one SELECT"),
        ("SELEC 1", "the question cannot be read"),
        ("SELECT nothing_like_it(a) FROM rows", "the question cannot be answered"),
        ("SELECT * FROM rows, read_csv('/etc/passwd')", "the question cannot be answered"),
        ("SELECT sum(k) FROM rows", "the question cannot be answered"),
        ("SELECT k FROM rows WHERE k = '" + "x" * 9000 + "'", "the question is too long"),
        ("SELECT k FROM rows WHERE k = ?", "the question cannot be answered"),
        ("", "a question is one SELECT"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_before_it_is_sent(sql, says):
    with pytest.raises(InputError, match=says):
        split(sql, "users", SCHEMA)
