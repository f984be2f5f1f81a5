"""A program with live rules, for tests: payments, and what is asked of it."""

from __future__ import annotations

import riverrun as rr
from riverrun.control import ANSWER

SPREE = """
    MEASURES LAST(small.at) AS since, large.amount AS amount
    PATTERN (small{2,} large) WITHIN INTERVAL '10' MINUTE
    DEFINE small AS amount < $small, large AS amount > $large
"""
SCHEMA = "card string, amount double, country string, at timestamp"
PATTERN = "PATTERN (a) WITHIN INTERVAL '1' MINUTE"


@rr.function("double")
def doubled(value: float):
    return 2 * value


@rr.function("double")
def fussy(value: float):
    if value > 100:
        raise ValueError("too much")
    return value


def program(app=None, **options):
    app = app or rr.App("shop", pages=2)
    stream = app.stream("payments", schema=SCHEMA, time="at")
    given = {"measures": "since timestamp, amount double", "templates": {"spree": SPREE}}
    stream.match_rules("fraud", by="card", **{**given, **options}).to("out")
    return app


def add(driver, name, small=1, large=500, **more):
    parameters = {"small": small, "large": large}
    driver.control("rule", "fraud", name=name, template="spree", parameters=parameters, **more)


def pay(driver, *amounts, start=0, card="c1"):
    for n, amount in enumerate(amounts, start):
        at = f"2026-01-01T12:{n:02d}:00Z"
        driver.send("payments", {"card": card, "amount": amount, "country": "NL", "at": at})


def found(driver):
    names = ("rule", "version", "amount")
    return [tuple(line["value"][name] for name in names) for line in driver.outputs["out"]]


def answers(driver):
    return [each.body for each in driver.topics.asked if each.kind == ANSWER]


def refusal(driver, **body):
    """What is answered to a rule that is wrong."""
    driver.control("rule", "fraud", **body)
    driver.batch()
    answer = answers(driver)[-1]
    assert "refused" in answer, answer
    return answer["refused"]
