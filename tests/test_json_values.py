"""What JSON has is what rows hold, however deep, and what does not fit is a dead letter."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import riverrun as rr
from nested import Given, Kind, kinds, maybe
from riverrun import exact
from riverrun.runtime.trial import run_files
from riverrun.sources.files import read_files
from riverrun.testing import Driver
from thorough import examples


def passed_on(*found: Kind, format: str = "json") -> rr.App:
    """Through a topic, and out again."""
    app = rr.App("nested")
    ddl = ", ".join(f"c{n} {kind.ddl}" for n, kind in enumerate(found))
    app.stream("given", schema=f"{ddl}, n bigint", format=format).through("between").to("out")
    return app


def out(driver: Driver) -> list[dict[str, Any]]:
    driver.batch()
    driver.batch()
    return sorted((line["value"] for line in driver.outputs["out"]), key=lambda row: row["n"])


def letters(driver: Driver) -> list[Any]:
    return [line["value"]["cause"] for line in driver.outputs["dead"]]


@st.composite
def tables(draw) -> tuple[list[Kind], list[list[Given]]]:
    found = draw(st.lists(kinds, min_size=1, max_size=4))
    rows = [[draw(maybe(kind.good)) for kind in found] for _ in range(draw(st.integers(1, 3)))]
    return found, rows


@given(tables())
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
def test_values_of_any_type_pass_through_a_topic(table):
    found, rows = table
    driver = Driver(passed_on(*found))
    for n, row in enumerate(rows):
        driver.send("given", {f"c{at}": each.json for at, each in enumerate(row)} | {"n": n})
    wanted = [{f"c{at}": each.leaves for at, each in enumerate(row)} for row in rows]
    assert out(driver) == [row | {"n": n} for n, row in enumerate(wanted)], letters(driver)


@given(st.data())
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_value_that_does_not_fit_is_a_dead_letter_and_harms_no_other(data):
    kind = data.draw(kinds.filter(lambda kind: not kind.bad.is_empty))
    good = data.draw(kind.good)
    driver = Driver(passed_on(kind))
    driver.send("given", {"c0": good.json, "n": 0}, {"c0": data.draw(kind.bad), "n": 1})
    driver.send("given", {"c0": good.json, "n": 2})
    assert out(driver) == [{"c0": good.leaves, "n": 0}, {"c0": good.leaves, "n": 2}]
    [cause] = letters(driver)
    assert cause.startswith("c0 is not a ")


SHORT = ["bigint", "decimal(18, 2)", "date", "time", "timestamp", "timestamp_ms", "double"]
GIVEN: dict[str, tuple[Any, Any]] = {
    "bigint": (2**60 + 1, 1.5),
    "decimal(18, 2)": (Decimal("1234567890123456.78"), "x"),
    "date": ("2026-01-01", "infinity"),
    "time": ("12:00:00", "24:00:00"),
    "timestamp": ("2026-01-01T00:00:00.000005Z", "-infinity"),
    "timestamp_ms": (0, "x"),
    "double": ("NaN", [1.5]),
}
"""A value of each type, and one that is none."""


def wrapped(value: Any) -> dict[str, Any]:
    return {"l": [{"a": value}], "s": {"a": {"k": value}}, "m": {"k": [value]}}


@pytest.mark.spark
def test_both_engines_read_and_write_the_same(tmp_path, session):
    app = rr.App("nested")
    for n, ddl in enumerate(SHORT):
        schema = f"l struct(a {ddl})[], s struct(a map(string, {ddl})), m map(string, {ddl}[])"
        app.stream(f"t{n}", schema=schema).to(f"out{n}")
    files = {}
    for n, ddl in enumerate(SHORT):
        files[f"t{n}"] = tmp_path / f"t{n}.jsonl"
        good, bad = map(wrapped, GIVEN[ddl])
        wrong = [{**good, name: bad[name]} for name in good]
        lines = map(exact.dumps, (good, *wrong, good))
        files[f"t{n}"].write_text("".join(f"{line}\n" for line in lines))
    found = run_files(session, app, files, tmp_path / "run", ended=True)
    driver = Driver(app)
    driver.topics = read_files(files)
    assert ordered_lines(found) == ordered_lines([*driver.batch(), *driver.end()])
    times = "1970-01-01T00:00:00Z"
    for n, ddl in enumerate(SHORT):
        leaves = wrapped(times if ddl == "timestamp_ms" else GIVEN[ddl][0])
        assert [row["value"] for row in found if row["output"] == f"out{n}"] == [leaves, leaves]
    assert len([row for row in found if row["output"] == "dead"]) == 3 * len(SHORT)


def ordered_lines(lines: list[Any]) -> list[str]:
    return sorted(exact.dumps(line, sort_keys=True) for line in lines)
