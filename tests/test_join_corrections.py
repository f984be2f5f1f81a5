"""Late versions of a table: what they correct, and that rows beyond the history are left alone."""

from __future__ import annotations

import random

import pytest

import riverrun as rr
from riverrun.testing import Driver


def corrected(how: str = "left", history: str = "5 seconds", pages: int = 1) -> Driver:
    app = rr.App("shop", pages=pages)
    sales = app.stream("sales", schema="id int, k int, at timestamp", time="at")
    rates = app.table("rates", schema="k int, rate int, since timestamp", key="k", time="since")
    joined = sales.join(
        rates.select("k", "rate"), on="k", as_of="event time", how=how, history=history,
        corrections=True,
    )  # fmt: skip
    joined.to("out")
    return Driver(app)


def moment(second: int) -> str:
    return f"2026-01-01T12:{second // 60:02}:{second % 60:02}Z"


def test_a_row_beyond_the_history_is_not_corrected_though_others_of_its_batch_are():
    driver = corrected()
    driver.run(
        sales="""
        at       | id | k
        12:00    | 1  | 0
        12:00:11 | 2  | 0      # the clock is here: the history begins at 12:00:06
    """
    ).assert_is("""
        +- | id | rate | revision
        +  | 1  |      | 0
        +  | 2  |      | 0
    """)
    late = "since | k | rate\n 11:59 | 0 | {}"
    for number, rate in enumerate((7, 8)):
        lines = driver.run(rates=late.format(rate))
        assert {line["value"]["id"] for line in lines} == {2}
        assert [line["revision"] for line in lines] == [number, number + 1]


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_comes_late_only_what_is_there_is_taken_back(how, seed):
    dice = random.Random(seed)
    driver = corrected(how, history=dice.choice(["5 seconds", "20 seconds"]), pages=2)
    now = 30
    for number in range(20):
        now += dice.randrange(10)
        for _ in range(dice.randrange(4)):
            at = moment(now - dice.randrange(30))
            driver.send("sales", {"id": number, "k": dice.randrange(2), "at": at})
        for _ in range(dice.randrange(3)):
            since = moment(now - dice.randrange(30))
            driver.send("rates", {"k": dice.randrange(2), "rate": number, "since": since})
        driver.batch()
    driver.end()
    there = {}
    for line in driver.outputs["out"]:
        if line["op"] == "-":
            assert there.pop(line["key"]) == line["value"]
        else:
            assert line["key"] not in there
            there[line["key"]] = line["value"]
    assert there
