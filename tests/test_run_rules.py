"""Live rules on real Kafka and real Spark: told while the job runs, and it is killed meanwhile."""

from __future__ import annotations

import json
import random
import runpy
import time
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Consumer, Producer

from doors import served
from riverrun.client import Client
from riverrun.kafka import admin
from riverrun.kafka.control import ControlLog
from riverrun.testing import Driver
from running import PATIENCE, Run, produce, records

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr

app = rr.App("ruled")
schema = "card string, amount double, at timestamp"
payments = app.stream(
    "ruled-payments", schema=schema, time="at", lateness="5 seconds", idle="1 hour"
)
payments.match_rules(
    "fraud", by="card", measures="began timestamp, tries bigint, amount double",
    templates={"spree": '''
        MEASURES FIRST(small.at) AS began, COUNT(small.*) AS tries, large.amount AS amount
        PATTERN (small{2,} other*? large) WITHIN INTERVAL '2' MINUTE
        DEFINE small AS amount < $small, large AS amount > $large
    '''},
).to("ruled-found")
"""
RULES = """
[[rule]]
name = "spree"
template = "spree"
parameters = {small = 30, large = 80}
metadata = {owner = "risk"}

[[rule]]
name = "wrong"
pattern = "PATTERN (a) WITHIN INTERVAL '1' MINUTE DEFINE a AS amuont > 1"

[[rule]]
name = "quiet"
pattern = '''
    MEASURES LAST(a.at) AS began
    PATTERN (a TIMEOUT) WITHIN INTERVAL '90' SECOND
'''
"""
LOWER = {"name": "spree", "template": "spree", "parameters": {"small": 20, "large": 95.5}}
CARDS, PARTITIONS, PART = 200, 3, 4_000
START = datetime(2026, 1, 1, tzinfo=UTC)


def payments(part):
    dice = random.Random(part)
    for n in range(part * PART, (part + 1) * PART):
        at = START + timedelta(milliseconds=150 * n - dice.randrange(4000))
        yield {"card": f"c{dice.randrange(CARDS)}", "amount": dice.randrange(100), "at": str(at)}


def closing():
    return [{"card": "end", "amount": 50, "at": str(START + timedelta(hours=2))}] * PARTITIONS


def test_rules_that_come_while_a_job_runs_and_is_killed_find_what_the_driver_finds(
    broker, broker_settings, riverrun, tmp_path, once
):
    home, file, rules = broker_settings.home, tmp_path / "ruled.py", tmp_path / "rules.toml"
    file.write_text(PROGRAM)
    rules.write_text(RULES)
    admin.create_topic(broker, "ruled-payments", partitions=PARTITIONS)
    sent = []

    def send(rows):
        sent.extend(rows := list(rows))
        produce(broker, "ruled-payments", rows, partitions=PARTITIONS)

    send(payments(0))
    with Run(file, home=home) as run:
        run.until(PART)
        outcome = riverrun("rules", "add", "ruled", str(rules), "--timeout", "120")
        assert "rule wrong: refused: there is no column 'amuont'" in outcome.out, outcome.err
        assert "rule spree, version 1: rows from 2026-01-01T00:09:" in outcome.out
        assert outcome.code == 2
        refused = asked_by_a_plain_client(broker, name="plain", pattern="PATTERN (a) DEFINE b AS 1")
        assert refused["refused"]["fact"] == "the pattern has no WITHIN"
        assert refused["refused"]["where"] == "the rule 'plain', line 1, column 26 of the pattern"
        send(payments(1))
        run.until(2 * PART)
        with served(broker_settings.override(brokers=broker["bootstrap.servers"]), "") as door:
            [changed] = Client(door.url).rules("ruled.fraud").add(LOWER, timeout="1 minute")
        assert (changed.version, changed.state) == (2, "in effect")
        outcome = riverrun("rules", "remove", "ruled", "nobody", "--timeout", "0")
        # a job that is quick has answered by then
        late = "no answer within 0 seconds: the last is record " in outcome.err
        assert late or outcome.out.startswith("rule nobody: refused: there is no rule 'nobody'")
        assert outcome.code == 2
        send(payments(2))
        run.until(2 * PART + 1)
        run.kill()
    outcome = riverrun("rules", "remove", "ruled", "quiet")
    assert outcome.out == "rule quiet: not answered yet\n"
    assert "ruled does not run: it answers when it runs next" in outcome.err
    send(closing())
    once(file, "--max-events", "2000")
    listed = json.loads(riverrun("rules", "list", "ruled", "--json").out)
    assert [(each["name"], each["version"]) for each in listed] == [("spree", 2)]
    assert "rule quiet: removed, rows before" in riverrun("rules", "show", "ruled", "quiet").out
    assert_found(broker, file, sent)


def asked_by_a_plain_client(broker, **rule):
    """As any Kafka client does it, in any language: the control log is where one asks, and where
    one is answered."""
    command = {"kind": "rule", "target": "fraud", "request": "number 42", **rule}
    producer = Producer(broker)
    producer.produce("ruled.control", json.dumps(command))
    producer.flush(30)
    group = {"group.id": "hears-answers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**broker, **group})
    consumer.subscribe(["ruled.control"])
    give_up = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < give_up:
            message = consumer.poll(1)
            if message is None or message.error():
                continue
            said = json.loads(message.value())
            if said["kind"] == "answer" and said.get("request") == "number 42":
                return said
    finally:
        consumer.close()
    raise AssertionError("no answer")


def assert_found(broker, file, sent):
    """What the driver gives with the same records and the same log, in one batch."""
    log = ControlLog(broker, "ruled")
    driver = Driver(runpy.run_path(str(file))["app"])
    driver.topics.asked = log.commands(0, log.end())
    driver.send("ruled-payments", *sent)
    driver.batch()
    wanted = sorted(json.dumps(line["value"]) for line in driver.outputs["ruled-found"])
    found = sorted(json.dumps(json.loads(value)) for _, value in records(broker, "ruled-found"))
    told = [json.loads(each) for each in found]
    assert {(each["rule"], each["version"]) for each in told} >= {("spree", 1), ("spree", 2)}
    assert {each["metadata"] for each in told} >= {'{"owner": "risk"}'}
    assert found == wanted


def test_an_application_that_is_not_known_is_named_in_the_error(broker_settings, riverrun):
    outcome = riverrun("rules", "list", "nowhere")
    assert outcome.err.startswith("error: nothing is known of the application 'nowhere' [RR103]")
