"""Conditions on earlier rows are judged as DuckDB judges them: nulls, NaN, infinities."""

from __future__ import annotations

import duckdb
import pytest

import riverrun as rr
from riverrun.testing import Driver

VALUES = [None, "NaN", "inf", "-inf", "0", "-0.0", "1", "1.5", "-2", "9007199254740993"]
CONDITIONS = [
    "b.x > a.x", "b.x >= a.x", "b.x = a.x", "b.x <> a.x", "NOT (b.x <= a.x)",
    "b.x BETWEEN a.x AND 3", "b.x NOT BETWEEN a.x AND 3", "b.x / a.x > 1", "b.x - a.x < 1",
    "b.x + 2 * a.x <= 3", "-b.x < a.x", "abs(b.x) >= abs(a.x)", "coalesce(a.x, 0) < b.x",
    "b.x IN (a.x, 1)", "b.x NOT IN (a.x, 1)", "a.x IS NULL OR b.x > 2",
    "a.x IS NOT NULL AND b.x < 2",
    "b.x IS DISTINCT FROM a.x", "b.x IS NOT DISTINCT FROM a.x", "b.t || a.t = '11'", "b.t < a.t",
    "b.n + a.n > 9007199254740993", "b.n - a.n = 1", "b.n > a.x", "lower(b.t) > a.t",
    "(b.x > 1) = (a.x > 1)", "a.x > 0 OR NULL", "b.at - a.at < INTERVAL '2 seconds'",
    "a.at + INTERVAL '1 second' = b.at", "b.day > a.day", "b.dec < a.dec + 0.5",
]  # fmt: skip


def pairs():
    """Two rows for each pair of values, under a key of its own."""
    rows = []
    for n, (one, other) in enumerate((x, y) for x in VALUES for y in VALUES):
        for second, text in enumerate((one, other)):
            at = f"2026-01-01T12:00:{second + n % 3:02d}Z" if second else "2026-01-01T12:00:00Z"
            rows.append({"k": n, "t": text, "at": at})
    return rows


COMPUTED = {
    "x": "try_cast(t AS double)",
    "n": "try_cast(t AS bigint)",
    "day": '"at"::date',
    "dec": "CASE WHEN length(t) < 9 THEN try_cast(t AS decimal(20, 1)) END",
}


@pytest.fixture(scope="module")
def judged():
    """For each condition the keys for which it holds, all in one program."""
    app = rr.App("pairs", pages=1)
    stream = app.stream("t", schema="k bigint, t string, at timestamp", time="at")
    stream = stream.with_columns(**COMPUTED)
    for n, condition in enumerate(CONDITIONS):
        text = f"PARTITION BY k PATTERN (a b) WITHIN '1 hour' DEFINE b AS {condition}"
        stream.match(text, name=f"c{n}").to(f"out{n}")
    driver = Driver(app)
    driver.send("t", *pairs())
    driver.batch()
    driver.end()
    assert not driver.outputs["dead"]
    return {
        condition: {line["value"]["k"] for line in driver.outputs[f"out{n}"]}
        for n, condition in enumerate(CONDITIONS)
    }


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_holds_where_duckdb_says_so(judged, condition):
    values = ", ".join(f"{text} AS {name}" for name, text in COMPUTED.items())
    given = [(row["k"], row["t"], row["at"], n % 2) for n, row in enumerate(pairs())]
    with duckdb.connect() as connection:
        connection.execute(
            "SET TimeZone='UTC'; CREATE TABLE given (k BIGINT, t VARCHAR, \"at\" TIMESTAMP, n INT)"
        )
        connection.executemany(
            "INSERT INTO given VALUES (?, ?, ?::TIMESTAMPTZ::TIMESTAMP, ?)", given
        )
        made = f'(SELECT k, n AS place, t, "at", {values} FROM given)'
        query = (
            f"SELECT a.k FROM {made} a JOIN {made} b ON a.k = b.k AND a.place = 0 AND b.place = 1"
        )
        found = connection.execute(f"{query} WHERE {condition}").fetchall()
    assert judged[condition] == {k for (k,) in found}
