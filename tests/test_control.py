"""The control log: what is asked of an application takes effect with a batch, and is repeated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import riverrun as rr
from riverrun.control import EVERYTHING, Command, paused_after
from riverrun.extend import Entry, Leaving, PlainOperator, Result, Step, Words, step_fields
from riverrun.kafka import admin
from riverrun.kafka.control import ControlLog
from riverrun.testing import Driver
from running import Run, produce, records

TOPICS = ("a", "b", "c")


def test_what_is_paused_is_paused_until_it_is_resumed():
    asked = [("pause", "a"), ("pause", "b"), ("resume", "a"), ("dance", "c")]
    commands = [Command(n, *each) for n, each in enumerate(asked)]
    assert paused_after([], commands, TOPICS) == ["b"]
    assert paused_after(["a", "b"], [Command(4, "resume", EVERYTHING)], TOPICS) == []


def test_one_topic_of_all_that_are_paused_can_be_resumed():
    paused = paused_after([], [Command(0, "pause", EVERYTHING)], TOPICS)
    assert paused == ["a", "b", "c"]
    assert paused_after(paused, [Command(1, "resume", "b")], TOPICS) == ["a", "c"]


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"7", b'{"kind": "pause"}', b"\xff"])
def test_what_cannot_be_read_changes_nothing(value):
    command = Command.decoded(3, value)
    assert (command.offset, command.kind) == (3, "unreadable")
    assert paused_after(["a"], [command], TOPICS) == ["a"]


def test_a_command_is_read_as_it_was_written():
    command = Command(5, "rule", "fraud", {"limit": 3})
    assert Command.decoded(5, command.encoded()) == command


def counts() -> Driver:
    app = rr.App("shop", pages=2)
    app.stream("views", schema="page string").group_by("page").agg(n=rr.count()).to("out")
    app.stream("clicks", schema="page string").to("clicked")
    return Driver(app)


def test_a_paused_topic_is_not_read_and_nothing_of_it_is_lost():
    driver = counts()
    driver.send("views", {"page": "a"})
    driver.batch()
    driver.control("pause", "views")
    driver.send("views", {"page": "a"}, {"page": "b"})
    driver.send("clicks", {"page": "c"})
    assert [line["output"] for line in driver.batch()] == ["clicked"]
    driver.restart()
    assert driver.batch() == []
    driver.control("resume", "views")
    driver.batch()
    assert driver.table("out") == [{"page": "a", "n": 2}, {"page": "b", "n": 1}]


def minutes() -> Driver:
    app = rr.App("shop", pages=1)
    views = app.stream("views", schema="page string, at timestamp", time="at", idle="1 second")
    views.group_by("page", name="w").window(rr.tumbling("1 minute")).agg(n=rr.count()).to("out")
    return Driver(app)


def test_time_waits_while_a_paused_topic_has_unread_records():
    driver = minutes()
    driver.send("views", {"page": "a", "at": "2026-01-01T12:00:10Z"})
    driver.batch()
    driver.control("pause", "views")
    driver.send("views", {"page": "a", "at": "2026-01-01T12:00:20Z"})
    assert driver.pass_time("1 hour") == []
    driver.control("resume", "views")
    driver.batch()
    driver.end()
    assert [row["n"] for row in driver.table("out")] == [2]
    assert driver.outputs["w.late"] == []


def test_a_replay_gives_commands_to_the_batches_that_had_them():
    driver = counts()
    driver.send("views", {"page": "a"})
    driver.batch()
    driver.control("pause", "views")
    driver.send("views", {"page": "b"})
    driver.batch()
    before = dict(driver.outputs)
    driver.replay()
    assert driver.outputs == before


def test_a_crash_in_the_batch_of_a_command_repeats_it():
    driver = counts()
    driver.control("pause", EVERYTHING)
    driver.send("views", {"page": "a"})
    driver.crash()
    assert driver.batch() == []
    assert driver.checkpoint.paused == ["clicks", "views"]


@dataclass(frozen=True, kw_only=True)
class Told(PlainOperator):
    """Tells what it was asked: a row for each command and page."""

    kind = "told"
    takes = "facts"
    can_be_late = False

    @property
    def leaving(self):
        return Leaving(form="facts", key=())

    def enter(self, number, rows):
        return Entry.of_facts(self.schema.names, rows)

    def words(self):
        return Words.of(("tells", "what it is asked"))

    def frozen(self):
        return {}

    def advance(self, state, batch):
        heard.extend((each.kind, each.body) for each in batch.commands)
        return Result()


heard: list[tuple[str, dict]] = []


def test_a_step_is_told_of_the_commands_for_it_in_every_page_and_no_others():
    def told(rows, at):
        fields = step_fields("told", rows, ("page",), "listener", named="told", at=at)
        return Step((rows,), Told(**fields, schema=rows.schema.visible, on_error="set aside"))

    app = rr.App("shop", pages=2)
    app.stream("views", schema="page string").apply(told).to("out")
    driver = Driver(app)
    heard.clear()
    driver.control("rule", "listener", limit=3)
    driver.control("rule", "somebody", limit=4)
    driver.batch()
    driver.batch()
    assert heard == [("rule", {"limit": 3})] * 2


PROGRAM = """
import riverrun as rr

app = rr.App("paused")
for topic in ("paused-a", "paused-b"):
    app.stream(topic, schema="n int").to(f"{topic}-out")
"""


@pytest.mark.broker
@pytest.mark.spark
def test_a_topic_is_paused_through_kill_9_and_resumed_with_nothing_lost_or_doubled(
    broker, broker_settings, riverrun, tmp_path: Path, once
):
    home, file = broker_settings.home, tmp_path / "paused.py"
    file.write_text(PROGRAM)
    for topic in ("paused-a", "paused-b"):
        admin.create_topic(broker, topic, partitions=2)

    def numbers(topic: str) -> list[int]:
        return sorted(json.loads(value)["n"] for _, value in records(broker, f"{topic}-out"))

    def send(first: int) -> None:
        for topic in ("paused-a", "paused-b"):
            produce(broker, topic, [{"n": first + n} for n in range(100)], partitions=2)

    send(0)
    with Run(file, home=home) as run:
        run.until(200)
        outcome = riverrun("pause", "paused", "paused-a")
        assert outcome.out == "pause paused-a of paused: in effect\n", outcome.err
        send(100)
        run.until(300)
        assert run.statuses()[-1]["paused"] == ["paused-a"]
        assert "running, paused: paused-a" in riverrun("ps").out
        run.kill()
    assert numbers("paused-a") == list(range(100))
    assert numbers("paused-b") == list(range(200))
    send(200)
    with Run(file, home=home) as run:
        run.until(100)
        assert json.loads(riverrun("control", "paused", "--json").out)["paused"] == ["paused-a"]
        run.kill()
    assert numbers("paused-a") == list(range(100))
    assert riverrun("resume", "paused").out == "resume all topics of paused: when it runs next\n"
    once(file)
    assert numbers("paused-a") == numbers("paused-b") == list(range(300))
    assert "paused: nothing" in riverrun("control", "paused").out
    assert admin.settings(broker, "paused.control")["cleanup.policy"] == "delete"
    assert ControlLog(broker, "paused").end() == 2
    outcome = riverrun("pause", "paused", "elsewhere")
    assert outcome.err.startswith("error: 'paused' does not read the topic 'elsewhere' [RR103]")
