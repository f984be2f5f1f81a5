"""Alerts on real Kafka and real Spark: receivers that go away, a job that is killed."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from contextlib import ExitStack
from urllib.request import urlopen

import pytest

from hooks import Answer, Hooks, serving
from mails import Mails, receiving
from riverrun.client import Client
from riverrun.embedded import ports
from riverrun.kafka import admin
from riverrun.server.app import build
from running import PATIENCE, Run, produce, records
from serving import served

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr

app = rr.App("watched", pages=4)
errors = app.stream("watched-errors", schema="service string, ms bigint")
errors.alert(
    rr.alerts.webhook("http://127.0.0.1:PORT/hook"),
    rr.alerts.email("ops@example.com"),
    rr.alerts.topic("watched-people"),
    rr.alerts.sse("watched_live"),
    group_by="service",
    name="failing",
    wait="1 second",
    interval="0 seconds",
    repeat="1 hour",
    resolve="ms = 0",
    title="{service} fails {n} times",
)
"""
SETTINGS = """
[smtp]
host = "127.0.0.1"
port = PORT
security = "none"
sender = "riverrun@example.com"
"""
SERVICES = [f"s{n}" for n in range(12)]


def until(true, run):
    give_up = time.monotonic() + PATIENCE
    while not true():
        assert run.process.poll() is None, run.error()
        assert time.monotonic() < give_up, run.error()
        time.sleep(0.3)


class Ledger:
    """What was sent in, what was told, and what has arrived."""

    def __init__(self, broker):
        self.broker, self.sent = broker, 0
        self.hook_port, self.mail_port = ports.any_free(), ports.any_free()
        self.hooks, self.mails = Hooks(), Mails()

    def up(self):
        """Those who are told, while they are there."""
        stack = ExitStack()
        stack.enter_context(serving(self.hooks, self.hook_port))
        stack.enter_context(receiving(self.mails, self.mail_port))
        return stack

    def fail(self, services, ms=7):
        rows = [{"service": each, "ms": ms} for each in services]
        produce(self.broker, "watched-errors", rows, partitions=2)
        self.sent += len(rows)

    def told(self):
        """All notifications, by group, in their order."""
        found = {}
        for _, value in records(self.broker, "watched.failing.told"):
            note = json.loads(value)
            found.setdefault(note["service"], []).append(note)
        return found

    def last(self):
        return {service: notes[-1]["key"] for service, notes in self.told().items()}

    def posted(self):
        """By group, each key once, in the order in which they came first."""
        found = {}
        for body in self.hooks.bodies():
            found.setdefault(body["group"]["service"], []).append(body["key"])
        return found

    def mailed(self):
        found = {}
        for message in self.mails.seen:
            service = re.search(r"\] (\w+) fails", message["Subject"])[1]
            keys = found.setdefault(service, [])
            keys += [] if message["X-Alert-Key"] in keys else [message["X-Alert-Key"]]
        return found

    def all_arrived(self):
        last = self.last()
        found = (
            {s: keys[-1] for s, keys in each.items()} for each in (self.posted(), self.mailed())
        )
        return all(each == last for each in found)

    def again(self):
        """How often something came that had come before."""
        posts = Counter(each.key for each in self.hooks.seen)
        return posts.total() - len(posts), len(self.mails.seen) - len(set(self.mails.keys()))

    def check(self):
        """No alert is lost, those of a group came in order, and what came again was the same."""
        told = self.told()
        for found in (self.posted(), self.mailed()):
            for service, keys in found.items():
                order = [note["key"] for note in told[service]]
                assert [key for key in order if key in keys] == keys, service
                assert keys[-1] == order[-1], service
        bodies = {each.key: each.body for each in self.hooks.seen}
        assert all(bodies[each.key] == each.body for each in self.hooks.seen)
        topic = [json.loads(value) for _, value in records(self.broker, "watched-people")]
        wanted = sorted(note["key"] for notes in told.values() for note in notes)
        assert sorted(note["key"] for note in topic) == wanted


def test_no_alert_is_lost_by_a_job_that_is_killed_and_receivers_that_are_away(
    broker, broker_settings, riverrun, tmp_path
):
    home, file, ledger = broker_settings.home, tmp_path / "watched.py", Ledger(broker)
    file.write_text(PROGRAM.replace("PORT", str(ledger.hook_port)))
    settings = SETTINGS.replace("PORT", str(ledger.mail_port))
    (tmp_path / "riverrun.toml").write_text(settings)
    admin.create_topic(broker, "watched-errors", partitions=2)
    ledger.hooks.answer = lambda seen, before: Answer(400 if about(seen, "s3") else 200, "no")
    with Run(file, home=home) as run:
        with ledger.up():
            ledger.fail(SERVICES)
            run.until(ledger.sent)
            until(lambda: len(ledger.last()) == len(SERVICES) and ledger.all_arrived(), run)
            assert {body["kind"] for body in ledger.hooks.bodies()} == {"firing"}
            people_say_something(riverrun, broker_settings)
            until(lambda: ledger.hooks.seen[-1].body["kind"] == "acknowledged", run)
            # one is taken, and the job does not hear of it any more
            ledger.hooks.answer = lambda seen, before: Answer(after=60)
            ledger.fail(["s2"])
            until(lambda: ledger.hooks.seen[-1].body["kind"] == "more", run)
        # nobody is there: the job goes on
        posted, mailed = (
            {service: len(keys) for service, keys in found.items()}
            for found in (ledger.posted(), ledger.mailed())
        )
        ledger.fail(SERVICES[4:])
        ledger.fail(SERVICES[8:], ms=0)
        until(lambda: kinds(ledger)[-1] == {"resolved"}, run)
        ledger.fail(SERVICES[3:8])
        run.kill()
    ledger.hooks.answer = lambda seen, before: Answer()
    with Run(file, home=home) as run:
        ledger.fail(SERVICES[:2])
        run.until(2)
        until(lambda: run.error().count("alerts wait") == 2, run)
        with ledger.up():
            until(ledger.all_arrived, run)
            until(lambda: run.error().count("alerts arrive again") == 2, run)
            run.stop()
    ledger.check()
    # who was away got each group once
    for was, now in ((posted, ledger.posted()), (mailed, ledger.mailed())):
        assert {len(keys) - was[service] for service, keys in now.items()} <= {0, 1}
    posts, mails = ledger.again()
    assert 1 <= posts <= len(SERVICES)
    assert mails <= len(SERVICES)
    stands(riverrun, ledger)
    assert followed(broker_settings, "s9")[-1] == "delete"
    assert followed(broker_settings, "s0") == ["firing", "acknowledged"]


def followed(settings, service):
    """What the server sends to who follows the alerts, of one service, from the beginning."""
    with served(build(settings).routes) as url:
        changes = f"{url}/views/watched_live/changes?from=0.-1"
        found = {}
        with urlopen(changes, timeout=20) as stream:
            # a service that is over comes last of itself
            while not all(found.get(each, [""])[-1] == "delete" for each in SERVICES[8:]):
                name, _, said = stream.readline().decode().strip().partition(": ")
                if name == "data":
                    told = json.loads(said)
                    row = told.get("row") or {"kind": "delete"}
                    found.setdefault(told["key"], []).append(row["kind"])
        return found[service]


def about(seen, service):
    return seen.body["group"]["service"] == service


def kinds(ledger):
    """What was told last of the first four services, the next four and the last four."""
    told = ledger.told()
    return [{told[s][-1]["kind"] for s in SERVICES[n : n + 4]} for n in (0, 4, 8)]


def people_say_something(riverrun, settings):
    listed = json.loads(riverrun("alerts", "list", "watched", "--json").out)["alerts"]
    by_service = {each["group"]["service"]: each for each in listed}
    assert by_service.keys() == set(SERVICES)
    outcome = riverrun("alerts", "silence", "watched", "service=s1", "--lasts", "1 day")
    assert re.match(r"silence \w{8}: service=s1 until 20..-", outcome.out), outcome.err
    alert = by_service["s0"]["alert"]
    outcome = riverrun("alerts", "ack", "watched", alert[:8], "--by", "ann", "--comment", "on it")
    assert outcome.out == f"{alert}, service=s0: acknowledged\n", outcome.err
    with served(build(settings).routes) as url:
        alerts = Client(url).alerts("watched.failing")
        assert {each.alert for each in alerts.standing()} == {each["alert"] for each in listed}
        assert [each["comment"] for each in alerts.silences()] == [""]
        silence, effect = alerts.silence("service=nobody", lasts="1 hour", by="ann")
        assert effect
        assert alerts.unsilence(silence)
    outcome = riverrun("alerts", "ack", "watched", "0000000")
    assert "there is no alert '0000000'" in outcome.err


def stands(riverrun, ledger):
    """What is known once the job has ended."""
    found = json.loads(riverrun("alerts", "list", "watched", "--json").out)
    standing = {each["group"]["service"]: each for each in found["alerts"]}
    assert standing.keys() == set(SERVICES[:8])
    assert (standing["s0"]["state"], standing["s0"]["by"]) == ("acknowledged", "ann")
    assert standing["s0"]["kind"] == "acknowledged"
    [silence] = found["silences"]
    assert standing["s1"]["silenced"] == silence["id"]
    assert [note["kind"] for note in ledger.told()["s1"]] == ["firing"]
    assert "s1" in riverrun("alerts", "list", "watched").out
    shown = riverrun("alerts", "show", "watched", standing["s0"]["alert"][:6]).out
    assert "acknowledged, level 0: s0 fails 1 times" in shown
    over = ledger.told()["s9"][0]["alert"]
    told = json.loads(riverrun("alerts", "show", "watched", over, "--json").out)
    assert told["alert"] is None
    assert told["told"][-1]["kind"] == "resolved"
    outcome = riverrun("alerts", "unsilence", "watched", silence["id"])
    assert outcome.out == f"silence {silence['id']}: ended, when the application runs next\n"
    assert json.loads(riverrun("alerts", "list", "watched", "--json").out)["silences"] == []
    [letter] = [json.loads(value) for _, value in records(ledger.broker, "watched.dead")]
    assert letter["cause"] == "HTTP 400: no"
    assert json.loads(letter["value"])["group"] == {"service": "s3"}
    seen = riverrun("query", "SELECT service, kind FROM watched_live", "--json").out.splitlines()
    rows = {row["service"]: row["kind"] for row in map(json.loads, seen)}
    assert rows == {service: each["kind"] for service, each in standing.items()}
