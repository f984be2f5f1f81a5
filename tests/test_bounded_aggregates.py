"""Aggregates with state of bounded size equal DuckDB over all rows, however they were cut."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.errors import ProgramError
from riverrun.testing import Driver
from thorough import examples

NOON = datetime(2026, 1, 1, 12)
EDGES = [-1.5, 0, 2, 10]

ASKED = {
    "most": rr.max_by("s", "x"),
    "least": rr.min_by("s", "x"),
    "early": rr.earliest("s", 3),
    "late": rr.latest("s", 3),
    "high": rr.largest("x", 3),
    "low": rr.smallest("x", 3),
    "words": rr.distinct_values("s", k=2),
    "together": rr.correlation("x", "y"),
    "bins": rr.histogram("x", EDGES),
}
ORDER = "ORDER BY t, n"
BIN = " + ".join(f"(x >= {edge}::DOUBLE)::BIGINT" for edge in EDGES)
ORACLE = f"""
SELECT k,
    first(s ORDER BY x DESC, t, n) FILTER (s IS NOT NULL AND x IS NOT NULL) AS most,
    first(s ORDER BY x, t, n) FILTER (s IS NOT NULL AND x IS NOT NULL) AS least,
    coalesce(list(s {ORDER}) FILTER (s IS NOT NULL), [])[:3] AS early,
    coalesce(list(s {ORDER}) FILTER (s IS NOT NULL), [])[-3:] AS late,
    coalesce(list(x ORDER BY x DESC) FILTER (x IS NOT NULL), [])[:3] AS high,
    coalesce(list(x ORDER BY x) FILTER (x IS NOT NULL), [])[:3] AS low,
    coalesce(list(DISTINCT s ORDER BY s) FILTER (s IS NOT NULL), [])[:2] AS words,
    corr(y, x) AS together,
    list(({BIN})) FILTER (x IS NOT NULL) AS bins
FROM rows GROUP BY k ORDER BY k
"""

EVENTS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.none() | st.sampled_from(["u", "v", "w", "ü", ""]),
        st.none() | st.sampled_from([-2.0, -1.5, 0.0, 0.5, 2.0, 3.0, 1e6]),
        st.none() | st.sampled_from([0.25, 1.0, 7.0, -3.0]),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=30,
)


def expected(events):
    names = ("k", "s", "x", "y", "t", "n")
    rows = [dict(zip(names, (*each, n), strict=True)) for n, each in enumerate(events)]
    types = [pa.string(), pa.string(), pa.float64(), pa.float64(), pa.int64(), pa.int64()]
    schema = pa.schema(list(zip(names, types, strict=True)))
    with duckdb.connect() as own:
        own.register("rows", pa.Table.from_pylist(rows, schema=schema))
        found = own.sql(ORACLE).to_arrow_table().to_pylist()
    for row in found:
        counts = [(row["bins"] or []).count(number) for number in range(len(EDGES) + 1)]
        bounds = zip([None, *map(float, EDGES)], [*map(float, EDGES), None], counts, strict=True)
        row["bins"] = [{"lower": a, "upper": b, "count": n} for a, b, n in bounds]
    return found


@settings(deadline=None, max_examples=examples(15))
@given(events=EVENTS, cuts=st.lists(st.integers(0, 30), max_size=4), crash=st.booleans())
def test_they_equal_duckdb_whatever_the_cut(events, cuts, crash):
    app = rr.App("shop", pages=2)
    schema = "k string, s string, x double, y double, at timestamp"
    app.stream("e", schema=schema, time="at", lateness="1 hour").group_by("k").agg(**ASKED).to("o")
    driver = Driver(app)
    for number, (k, s, x, y, t) in enumerate(events):
        at = (NOON + timedelta(seconds=t)).isoformat() + "Z"
        driver.send("e", {"k": k, "s": s, "x": x, "y": y, "at": at})
        if number in cuts:
            if crash:
                driver.crash()
            driver.batch()
    driver.batch()
    found = driver.table("o")
    for mine, theirs in zip(found, expected(events), strict=True):
        one, other = mine.pop("together"), theirs.pop("together")
        none = other is None or math.isnan(other)
        assert one is None if none else one == pytest.approx(other, abs=1e-9)
        assert mine == theirs


@pytest.mark.parametrize(
    ("fact", "make"),
    {
        "edges of its bins, in rising order": lambda: rr.histogram("x", [3, 1]),
        "a histogram needs the edges": lambda: rr.histogram("x", []),
        "k is a whole number": lambda: rr.latest("x", 0),
    }.items(),
)
def test_what_cannot_be_meant_is_refused(fact, make):
    with pytest.raises(ProgramError, match=fact):
        make()


@pytest.mark.parametrize(
    ("fact", "asked"),
    {
        "correlation needs numbers": rr.correlation("x", "s"),
        "correlation needs a number": rr.correlation("s", "x"),
        "max_by needs a value that can be ordered": rr.max_by("s", "[x]"),
        "largest needs a value that can be ordered": rr.largest("[x]", 2),
        "there is no column 'z'": rr.min_by("s", "z"),
    }.items(),
)
def test_what_does_not_fit_is_refused_at_its_line(fact, asked):
    events = rr.App("shop").stream("e", schema="s string, x double")
    with pytest.raises(ProgramError, match=fact) as error:
        events.group_by("s").agg(n=asked)
    assert "test_bounded_aggregates.py" in str(error.value.where)


def test_a_table_can_be_counted_in_bins_and_says_what_it_cannot():
    users = rr.App("shop").table("users", schema="id string, age double", key="id")
    users.group_by("age").agg(bins=rr.histogram("age", [18, 65]))
    with pytest.raises(ProgramError, match="max_by cannot be taken of a table"):
        users.group_by("age").agg(n=rr.max_by("id", "age"))
