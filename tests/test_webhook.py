"""Webhooks: every row in order, again with the same key, and a dead letter when nothing helps."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import riverrun as rr
from folders import CHECKPOINT, EVALUATOR, SCHEMA, changes, rows
from hooks import Answer, Hooks, hooks, serving
from killing import killed_at
from riverrun.errors import ProgramError
from riverrun.kafka import admin
from riverrun.outputs import OutputSpec, Part
from riverrun.sinks.webhooks import Receipt, WebhookSender
from running import records

__all__ = ["hooks"]


class Sending:
    """A run of an application, as the driver and its tasks use a webhook."""

    def __init__(self, sink, *, table: bool = False, kafka=None) -> None:
        self.output = OutputSpec(sink.name, sink, SCHEMA, ("page",), table)
        self.sender = WebhookSender(sink, kafka or {})

    def deliver(self, batch: int, *parts) -> list[Receipt | None]:
        tick = int(datetime(2026, 1, 2).timestamp() * 1e6)
        return [
            None,
            *(
                self.sender.deliver(
                    Part("shop", CHECKPOINT, 1, batch, task, tick), [(self.output, part)], EVALUATOR
                )
                for task, part in enumerate(parts)
            ),
        ]

    def send(self, batch: int, *parts) -> None:
        self.sender.finish(batch, self.deliver(batch, *parts))


def numbers(hooks: Hooks) -> list[int]:
    return [each.body["value"]["n"] for each in hooks.seen]


def test_each_row_is_a_post_with_its_key(hooks):
    sink = rr.sinks.webhook(hooks.url, headers={"Authorization": "Bearer x"})
    Sending(sink).send(7, rows(("/a", 1)))
    (one,) = hooks.seen
    assert one.body == {
        "output": f"webhook:{hooks.url}",
        "op": "+",
        "key": "/a",
        "value": {"page": "/a", "n": 1, "at": "2026-01-01T00:00:00Z"},
    }
    assert one.key == f"{CHECKPOINT}-7-0"
    assert one.headers["Authorization"] == "Bearer x"
    assert one.headers["Content-Type"] == "application/json"


def test_changes_of_a_table_say_what_they_are(hooks):
    made = changes(("+", "/a", 2, 1), ("-", "/a", 1, 0))
    Sending(rr.sinks.webhook(hooks.url), table=True).send(0, made)
    told = [
        (each.body["op"], each.body["revision"], each.body["value"]["n"]) for each in hooks.seen
    ]
    assert told == [("-", 0, 1), ("+", 1, 2)]


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(st.permutations(range(12)), st.integers(1, 4))
def test_the_order_and_the_keys_do_not_depend_on_how_tasks_cut_a_batch(order, pieces):
    with serving(Hooks()) as hooks:
        whole = rows(*((f"/{n}", n) for n in range(12)))
        parts = [whole.take(list(order[piece::pieces])) for piece in range(pieces)]
        Sending(rr.sinks.webhook(hooks.url)).send(0, *parts)
        assert numbers(hooks) == list(range(12))
        assert [each.key for each in hooks.seen] == [f"{CHECKPOINT}-0-{n}" for n in range(12)]


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 40)), max_size=2), max_size=3),
    st.sets(st.integers(0, 17)),
)
def test_whoever_remembers_keys_gets_each_row_once_and_in_order(batches, failing):
    """Batches of six rows are cut, killed while they are sent, and sent again."""
    with serving(Hooks()) as hooks:
        hooks.answer = lambda seen, before: Answer(
            500 if not before and seen.body["value"]["n"] in failing else 200
        )
        sink = rr.sinks.webhook(hooks.url)
        for batch, attempts in enumerate(batches):
            whole = rows(*((f"/{n}", n) for n in range(batch * 6, batch * 6 + 6)))
            for pieces, call in [*attempts, (1, None)]:
                parts = [whole.take(list(range(piece, 6, pieces))) for piece in range(pieces)]
                killed_at(call, lambda batch=batch, parts=parts: Sending(sink).send(batch, *parts))
        assert [body["value"]["n"] for body in hooks.bodies()] == list(range(len(batches) * 6))


def test_rows_of_a_union_that_come_by_two_ways_are_in_one_order(hooks):
    one = Sending(rr.sinks.webhook(hooks.url))
    whole = rows(*((f"/{n}", n) for n in range(4)))
    ways = [(one.output, whole.take([1, 3])), (one.output, whole.take([0, 2]))]
    receipt = one.sender.deliver(Part("shop", CHECKPOINT, 1, 0, 0, 0), ways, EVALUATOR)
    one.sender.finish(0, [receipt])
    assert numbers(hooks) == [0, 1, 2, 3]


def test_rows_of_many_packs_stay_in_order(hooks):
    whole = rows(*((f"/{n}", n) for n in range(2500)))
    Sending(rr.sinks.webhook(hooks.url)).send(0, whole.slice(0, 2100), whole.slice(2100))
    assert numbers(hooks) == list(range(2500))


def test_a_batch_that_comes_again_has_the_same_keys(hooks):
    for _ in range(2):
        Sending(rr.sinks.webhook(hooks.url)).send(3, rows(("/a", 1), ("/b", 2)))
    assert numbers(hooks) == [1, 2, 1, 2]
    assert [body["value"]["n"] for body in hooks.bodies()] == [1, 2]


def test_a_failing_row_is_tried_again_before_the_next_one_goes(hooks):
    hooks.answer = lambda seen, before: Answer(503 if before < 2 else 200)
    Sending(rr.sinks.webhook(hooks.url, tries=3)).send(0, rows(("/a", 1), ("/b", 2)))
    assert numbers(hooks) == [1, 1, 1, 2, 2, 2]
    assert len({each.key for each in hooks.seen}) == 2
    waits = [b.at - a.at for a, b in zip(hooks.seen[:2], hooks.seen[1:3], strict=True)]
    assert waits[1] > waits[0] + 0.4  # none, then a second


def test_retry_after_is_respected(hooks):
    wait = {"Retry-After": "1"}
    hooks.answer = lambda seen, before: Answer(200) if before else Answer(429, headers=wait)
    Sending(rr.sinks.webhook(hooks.url)).send(0, rows(("/a", 1)))
    first, second = hooks.seen
    assert second.at - first.at >= 1


def test_a_server_that_hangs_is_tried_again(hooks):
    hooks.answer = lambda seen, before: Answer(after=0 if before else 2)
    Sending(rr.sinks.webhook(hooks.url, timeout="200 ms")).send(0, rows(("/a", 1), ("/b", 2)))
    assert [body["value"]["n"] for body in hooks.bodies()] == [1, 2]
    assert numbers(hooks) == [1, 1, 2, 2]


SEND = """
import pickle
from riverrun.sinks.webhooks import WebhookSender
sink, receipts = pickle.load(open("told", "rb"))
WebhookSender(sink, {}).finish(0, receipts)
"""


def test_a_sender_whose_run_is_gone_sends_no_more(hooks):
    hooks.answer = lambda seen, before: Answer(after=0.3)
    sink = rr.sinks.webhook(hooks.url)
    receipts = Sending(sink).deliver(0, rows(*((f"/{n}", n) for n in range(20))))
    Path("told").write_bytes(pickle.dumps((sink, receipts)))
    Path("send.py").write_text(SEND)
    start = "import subprocess, sys; subprocess.run([sys.executable, 'send.py'])"
    with subprocess.Popen([sys.executable, "-c", start], stderr=subprocess.DEVNULL) as run:
        while not hooks.seen:
            assert run.poll() is None
            time.sleep(0.02)
        run.kill()
    time.sleep(1.5)
    assert len(hooks.seen) <= 2


@pytest.mark.broker
def test_what_is_not_taken_is_a_dead_letter_and_the_next_row_goes_on(broker, hooks):
    admin.create_topic(broker, "shop.dead", partitions=1)
    answers = {1: Answer(400, "no such\npage"), 2: Answer(500, "oh"), 4: Answer(302)}
    hooks.answer = lambda seen, before: answers.get(seen.body["value"]["n"], Answer())
    sink = rr.sinks.webhook(hooks.url, tries=2, name="alerts")
    sent = rows(*((f"/{n}", n) for n in range(1, 6)))
    Sending(sink, kafka=broker).send(0, sent)
    assert numbers(hooks) == [1, 2, 2, 3, 4, 5]
    closed = rr.sinks.webhook(f"http://127.0.0.1:{_closed_port()}", tries=2, name="closed")
    Sending(closed, kafka=broker).send(0, rows(("/x", 9)))
    letters = [(key, json.loads(value)) for key, value in records(broker, "shop.dead")]
    causes = [(key, letter["step"], letter["cause"]) for key, letter in letters]
    assert causes[:3] == [
        ("/1", "webhook:alerts", "HTTP 400: no such page"),
        ("/2", "webhook:alerts", "HTTP 500: oh (given up after 2 tries)"),
        ("/4", "webhook:alerts", "HTTP 302: "),
    ]
    assert causes[3][:2] == ("/x", "webhook:closed")
    assert "refused" in causes[3][2]
    assert "given up after 2 tries" in causes[3][2]
    assert json.loads(letters[0][1]["value"]) == hooks.seen[0].body
    assert letters[0][1]["offset"] is None


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_sink_shows_no_secret():
    sink = rr.sinks.webhook("https://host:81/a/b?token=x", headers={"Authorization": "y"})
    assert sink.name == "webhook:https://host:81/a/b"
    assert "token" not in repr(sink)
    assert "Authorization" not in repr(sink)
    assert rr.sinks.webhook("https://host/secret", name="chat").name == "webhook:chat"


def test_what_is_no_webhook_is_an_error_of_the_program():
    with pytest.raises(ProgramError, match="a webhook is an address"):
        rr.sinks.webhook("host/path")
    with pytest.raises(ProgramError, match="holds a password"):
        rr.sinks.webhook("https://me:secret@host")
    with pytest.raises(ProgramError, match="a webhook is tried at least once"):
        rr.sinks.webhook("https://host", tries=0)
    with pytest.raises(ProgramError, match="a duration cannot be read"):
        rr.sinks.webhook("https://host", timeout="soon")
