"""Functions that work on queues, plain and async: how they fail, stop and are counted."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter

import pytest

import riverrun as rr
from queueing import Process, fresh, letters, put, taken, written
from riverrun.queues.messages import AsyncMessage

pytestmark = pytest.mark.broker

WORKER = """
import asyncio, sys, time
import riverrun as rr

lines, topic, group, form = sys.argv[1:]
jobs = rr.queue(topic, group=group)


def say(text):
    with open(lines, "a") as file:
        file.write(text + "\\n")


if form == "plain":

    @jobs.worker(concurrency=2)
    def work(message):
        say(f"began {message.value}")
        time.sleep(1)
        say(f"ended {message.value}")

else:

    @jobs.worker(concurrency=2)
    async def work(message):
        say(f"began {message.value}")
        await asyncio.sleep(1 if form == "async" else 100)
        say(f"ended {message.value}")

counts = work.run()
say(f"done {counts.done} released {counts.released}")
"""


def test_a_function_that_fails_is_tried_again_and_then_its_message_is_a_dead_letter(
    broker, riverrun, caplog
):
    topic = fresh(broker, "failing", partitions=2)
    put(broker, topic, [{"id": 1}, {"id": "x"}, {"id": 2}, b"no json", {"id": 3}])
    queue = rr.queue(topic, group=topic, schema="id bigint", again_after="0.1 seconds")
    tried = []

    @queue.worker(concurrency=3)
    def divide(message):
        tried.append(message.value["id"])
        if message.value["id"] == 3:
            return message.reject("not three")
        return 1 / (message.value["id"] - 2)

    counts = divide.run(idle="1.5 seconds")
    assert Counter(tried) == {1: 1, 2: 3, 3: 1}
    assert (counts.done, counts.released, counts.rejected, counts.lost) == (1, 2, 4, 0)
    causes = {(each["step"], each["cause"].partition(" (")[0]) for each in letters(broker, topic)}
    assert causes == {
        ("divide", "ZeroDivisionError: division by zero"),
        ("divide", "not three"),
        ("decode", "id is not a BIGINT: x"),
        ("decode", "the value is not JSON"),
    }
    [shown] = [each for each in letters(broker, topic) if "division" in each["cause"]]
    line = divide.function.__code__.co_firstlineno + 5
    assert shown["cause"].endswith(f"(test_queue_workers.py:{line})")
    assert "another try follows" in caplog.text

    listed = json.loads(riverrun("dead", "list", topic, "--json").out)
    assert {each["count"] for each in listed["groups"]} == {1}
    place = f"{topic}/{shown['partition']}/{shown['offset']}"
    assert "division by zero" in riverrun("dead", "show", topic, place).out


@pytest.mark.parametrize("form", ["plain", "async"])
def test_a_worker_that_is_told_to_stop_finishes_what_it_has_in_hand(broker, tmp_path, form):
    topic = fresh(broker, "stopped")
    put(broker, topic, range(3))
    brokers = broker["bootstrap.servers"]
    arguments = (written(tmp_path, WORKER), tmp_path / "lines", topic, topic, form)
    with Process(*arguments, brokers=brokers) as worker:
        worker.until("began 1")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.end() == 0
        assert worker.said()[-1] == "done 2 released 0"
    with rr.queue(topic, group=topic) as queue:
        assert taken(queue) == [2]


def test_a_worker_that_is_told_twice_releases_what_it_has_in_hand(broker, tmp_path):
    topic = fresh(broker, "stopped-twice")
    put(broker, topic, range(3))
    brokers = broker["bootstrap.servers"]
    arguments = (written(tmp_path, WORKER), tmp_path / "lines", topic, topic, "for ever")
    with Process(*arguments, brokers=brokers) as worker:
        worker.until("began 1")
        worker.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        worker.process.send_signal(signal.SIGINT)
        assert worker.end() == 0, worker.errors.read_text()
        assert worker.said()[-1] == "done 0 released 2"
    with rr.queue(topic, group=topic) as queue:
        assert taken(queue) == [0, 1, 2]


def test_async_code_takes_settles_and_fails_as_plain_code_does(broker):
    topic = fresh(broker, "async")
    put(broker, topic, range(40))
    queue = rr.queue(topic, group=topic, again_after="0.1 seconds", tries=2)
    at_once = most = 0

    async def by_hand():
        async with await queue.take_async() as message:
            assert isinstance(message, AsyncMessage)
        async for message in queue:
            if message.value == 2:
                await message.reject("no twos")
                return
            await message.done()

    @queue.worker(concurrency=20)
    async def work(message):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.05)
        at_once -= 1
        if message.value == 7:
            raise ValueError("seven")

    asyncio.run(by_hand())
    assert asyncio.run(work.run_async(idle="1 second")) is queue.counts
    assert most > 5
    assert (queue.counts.done, queue.counts.released, queue.counts.rejected) == (38, 1, 2)
    assert len(letters(broker, topic)) == 2


def test_commands_work_on_a_queue_and_tell_how_it_stands(broker, riverrun, tmp_path):
    topic = fresh(broker, "commands", partitions=2)
    unknown = riverrun("queue", "status", topic, "--group", topic)
    assert (unknown.code, "no worker has ever been in it" in unknown.err) == (2, True)
    program = written(
        tmp_path,
        f"""
import riverrun as rr

jobs = rr.queue("{topic}", group="{topic}", again_after="0.1 seconds", lock="20 seconds")


@jobs.worker()
def work(message):
    assert message.value != 3, "no threes"


@jobs.worker()
def other(message): ...
""",
    )
    put(broker, topic, range(5))
    assert "which worker" in riverrun("queue", "work", str(program)).err
    worked = riverrun(
        "queue", "work", str(program), "--function", "work", "--idle", "1 second", "--json"
    )
    assert json.loads(worked.out) == {
        "taken": 7, "done": 4, "released": 2, "rejected": 1, "lost": 0, "again": 2, "skipped": 0
    }  # fmt: skip
    put(broker, topic, range(10))
    with rr.queue(topic, group=topic) as queue:
        held = queue.take()
        found = json.loads(riverrun("queue", "status", topic, "--group", topic, "--json").out)
        assert (found["behind"], found["workers"], found["dead"]) == (
            10,
            1,
            {"open": 1, "retried": 0},
        )
        assert (found["lock_seconds"], found["deliveries"], found["state"]) == (20, 5, "stable")
        shown = riverrun("queue", "status", topic, "--group", topic).out
        assert "1 worker, 10 waiting or in hand, 1 dead letter; lock 20 seconds" in shown
        held.done()
