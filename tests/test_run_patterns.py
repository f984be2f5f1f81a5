"""Patterns on real Kafka and real Spark: killed in the middle, they find what the driver finds."""

from __future__ import annotations

import json
import random
import runpy
from datetime import UTC, datetime, timedelta

import pytest

from riverrun.kafka import admin
from riverrun.testing import Driver
from running import Run, produce, records

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr
app = rr.App("spotted")
schema = "card string, amount double, country string, at timestamp"
payments = app.stream("spotted-payments", schema=schema, time="at", lateness="5 seconds")
FRAUD = '''
    PARTITION BY card ORDER BY at
    MEASURES FIRST(small.at) AS began, COUNT(small.*) AS tries, large.amount AS amount
    PATTERN (small{2,} other*? large) WITHIN INTERVAL '2' MINUTE
    DEFINE small AS amount < 30, large AS amount > 80 AND large.country <> LAST(small.country)
'''
payments.match(FRAUD, name="fraud").to("spotted-fraud")
payments.match(FRAUD, name="early", on_arrival=True).to("spotted-early")
quiet = rr.pattern().begin("last").not_followed_by("next", "amount >= 0").within("90 seconds")
measures = {"since": "last.at"}
payments.match(quiet, by="card", measures=measures, name="quiet").to("spotted-quiet")
"""
EVENTS, CARDS, PARTITIONS = 12_000, 200, 3
START = datetime(2026, 1, 1, tzinfo=UTC)


def payments():
    """Out of order by up to 4 seconds; at the end some of an hour later, one for each partition."""
    dice = random.Random(4)
    rows = []
    for n in range(EVENTS):
        at = START + timedelta(milliseconds=150 * n - dice.randrange(4000))
        row = {"card": f"c{dice.randrange(CARDS)}", "amount": dice.randrange(100)}
        rows.append({**row, "country": dice.choice(["NL", "BR"]), "at": at.isoformat()})
    closing = (START + timedelta(hours=2)).isoformat()
    later = {"card": "end", "amount": 50, "country": "NL", "at": closing}
    return [*rows, *([later] * PARTITIONS)]


def test_a_job_killed_in_the_middle_finds_each_match_once_and_those_that_the_driver_finds(
    broker, broker_settings, tmp_path, once
):
    file, home, sent = tmp_path / "spotted.py", broker_settings.home, payments()
    file.write_text(PROGRAM)
    admin.create_topic(broker, "spotted-payments", partitions=PARTITIONS)
    produce(broker, "spotted-payments", sent, partitions=PARTITIONS)
    with Run(file, "--max-events", "2000", home=home) as run:
        run.until(6000)
    once(file, "--max-events", "5000")
    driver = Driver(runpy.run_path(str(file))["app"])
    driver.send("spotted-payments", *sent)
    driver.batch()
    for topic in ("spotted-fraud", "spotted-quiet"):
        wanted = sorted(json.dumps(line["value"]) for line in driver.outputs[topic])
        found = sorted(json.dumps(json.loads(value)) for _, value in records(broker, topic))
        assert len(wanted) > 100
        assert found == wanted
    early = standing(records(broker, "spotted-early"))
    assert early == sorted(json.dumps(line["value"]) for line in driver.outputs["spotted-fraud"])


def standing(changes):
    """The rows of a table at the end, without what names them."""
    rows = {key: json.loads(value) for key, value in dict(changes).items() if value is not None}
    return sorted(
        json.dumps({name: value for name, value in row.items() if name != "event"})
        for row in rows.values()
    )
