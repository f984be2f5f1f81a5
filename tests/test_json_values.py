"""What JSON has is what rows hold, however deep, and what does not fit is a dead letter."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import riverrun as rr
from nested import Given, Kind, kinds, maybe
from riverrun.testing import Driver


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
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_values_of_any_type_pass_through_a_topic(table):
    found, rows = table
    driver = Driver(passed_on(*found))
    for n, row in enumerate(rows):
        driver.send("given", {f"c{at}": each.json for at, each in enumerate(row)} | {"n": n})
    wanted = [{f"c{at}": each.leaves for at, each in enumerate(row)} for row in rows]
    assert out(driver) == [row | {"n": n} for n, row in enumerate(wanted)], letters(driver)


@given(st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_value_that_does_not_fit_is_a_dead_letter_and_harms_no_other(data):
    kind = data.draw(kinds.filter(lambda kind: not kind.bad.is_empty))
    good = data.draw(kind.good)
    driver = Driver(passed_on(kind))
    driver.send("given", {"c0": good.json, "n": 0}, {"c0": data.draw(kind.bad), "n": 1})
    driver.send("given", {"c0": good.json, "n": 2})
    assert out(driver) == [{"c0": good.leaves, "n": 0}, {"c0": good.leaves, "n": 2}]
    [cause] = letters(driver)
    assert cause.startswith("c0 is not a ")
