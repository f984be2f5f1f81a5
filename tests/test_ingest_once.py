"""That a post is in its topic once: whatever is killed, fenced, refused or lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3
from confluent_kafka import KafkaError, KafkaException

from doors import JSON, VIEW, home, new_topic, note, records, served, views_app
from riverrun.embedded import ports
from riverrun.kafka import admin
from riverrun.server.ingest.keys import FILE, Keys, Name
from riverrun.server.ingest.sending import Outcome, Post, Sending
from riverrun.server.security import FOLDER
from riverrun.views.tokens import Token

pytestmark = pytest.mark.broker


class Losing:
    """A producer whose commit is heard of nowhere: it has taken effect, or it has not."""

    def __init__(self, own: Any, *, commits: bool) -> None:
        self.own, self.commits = own, commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def commit_transaction(self, timeout: float) -> None:
        if self.commits:
            self.own.commit_transaction(timeout)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_commit_in_doubt_is_looked_up_before_it_is_sent_again(
    broker: dict[str, str], tmp_path: Path, commits: bool, key: str | None
) -> None:
    topic = new_topic(broker)
    keys = Keys(tmp_path / FILE, 60_000_000)
    sending = Sending(home(tmp_path, broker, topic), keys)
    name = None if key is None else Name("", topic, key)
    post = Post(topic, [(None, b"{}")] * 3, time.time_ns() // 1_000_000, name, "hash")
    sending.look_back()
    sending.producer = Losing(sending.producer, commits=commits)  # type: ignore[assignment]
    [found] = sending.send([post])
    assert isinstance(found, Outcome)
    assert len(records(broker, topic)) == 3
    if key is not None:
        assert sending.send([post]) == [Outcome(found.answer, repeated=True)]
    keys.close()


def test_a_file_of_keys_that_is_lost_or_damaged_is_made_again(
    broker: dict[str, str], tmp_path: Path
) -> None:
    topic = new_topic(broker)
    own = home(tmp_path, broker, topic)
    post = Post(topic, [(None, b"{}")], time.time_ns() // 1_000_000, Name("", topic, "k"), "hash")
    for _ in range(3):
        keys = Keys(tmp_path / FILE, 60_000_000)
        sending = Sending(own, keys)
        [found] = sending.send([post])
        assert isinstance(found, Outcome)
        keys.close()
        for each in tmp_path.glob(f"{FILE}*"):
            each.unlink()
        (tmp_path / FILE).write_text("no database at all, but rather long for a text" * 100)
    assert found.repeated
    assert len(records(broker, topic)) == 1


def test_servers_of_one_name_take_turns_and_a_key_is_used_once(
    broker: dict[str, str], tmp_path: Path
) -> None:
    topic = new_topic(broker)
    own = [home(tmp_path / name, broker, topic) for name in "ab"]
    for each in own:
        note(each, views_app(topic))
    with served(own[0], topic) as one, served(own[1], topic) as two:
        for number in range(6):
            replies = [door.post(VIEW, idempotency_key=f"k{number // 2}") for door in (one, two)]
            assert len({each.body["token"] for each in replies}) == 1
    assert len(records(broker, topic)) == 3


def test_a_post_that_kafka_refuses_does_not_take_others_along(
    broker: dict[str, str], tmp_path: Path
) -> None:
    small, gone = new_topic(broker, config={"max.message.bytes": "20000"}), new_topic(broker)
    admin.delete_topic(broker, gone)
    keys = Keys(tmp_path / FILE, 60_000_000)
    sending = Sending(home(tmp_path, broker, small), keys)
    now = time.time_ns() // 1_000_000
    noise = random.Random(7).randbytes(60_000)
    posts = [
        Post(small, [(b"k", b"{}")], now),
        Post(small, [(b"k", b"{}"), (b"k", noise)], now),
        Post(gone, [(b"k", b"{}")], now),
        Post(small, [(b"k", b"{}")] * 2, now),
    ]
    found = sending.send(posts)
    assert [getattr(each, "status", 200) for each in found] == [200, 413, 404, 200]
    assert len(records(broker, small)) == 3
    keys.close()


def server(
    folder: Path, door_home: Any, topic: str, port: int, *more: str
) -> subprocess.Popen[str]:
    """A process of its own."""
    (folder / "riverrun.toml").write_text(f'home = "."\n[serve]\nname = "{topic}"\n')
    program = str(Path(sys.executable).with_name("riverrun"))
    found = subprocess.Popen(
        [program, "serve", "--json", "--port", str(port), *more],
        cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "RIVERRUN_HOME": str(folder), "RIVERRUN_BROKERS": door_home.brokers},
    )  # fmt: skip
    assert found.stdout is not None
    assert found.stdout.readline()
    return found


def test_posts_are_there_once_whenever_the_server_is_killed(
    broker: dict[str, str], tmp_path: Path
) -> None:
    topic, port, kills, posts = new_topic(broker), ports.any_free(), 4, 80
    own = home(tmp_path, broker, topic)
    note(own, views_app(topic))
    answered: dict[str, Any] = {}
    odd: list[bytes] = []
    over = threading.Event()

    def persist(number: int) -> None:
        key, body = f"key-{number}", json.dumps({**VIEW, "n": number})
        headers = {"content-type": JSON, "idempotency-key": key}
        while key not in answered and not over.is_set():
            try:
                reply = urllib3.request(
                    "POST", f"http://127.0.0.1:{port}/topics/{topic}", body=body, headers=headers,
                    retries=False, timeout=20,
                )  # fmt: skip
            except urllib3.exceptions.HTTPError:
                time.sleep(0.05)
                continue
            if reply.status == 200:
                answered[key] = json.loads(reply.data)
            elif reply.status != 503:
                odd.append(reply.data)
            time.sleep(0.1)  # so that there is something left for the next server

    process = server(tmp_path, own, topic, port)
    dice = random.Random(time.time_ns())
    with ThreadPoolExecutor(6) as threads:
        for number in range(posts):
            threads.submit(persist, number)
        try:
            for kill in range(kills):
                wanted = posts * (kill + 1) // (kills + 1)
                while len(answered) < wanted:
                    assert not odd
                    time.sleep(0.005)
                time.sleep(dice.random() * 0.1)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                process = server(tmp_path, own, topic, port)
            threads.shutdown()  # all have got their answer
        finally:
            over.set()
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
    found = records(broker, topic)
    assert Counter(each["headers"]["riverrun-key"] for each in found) == Counter(
        dict.fromkeys(answered, 1)
    )
    assert len(answered) == posts
    places = {each["headers"]["riverrun-key"]: each["place"] for each in found}
    for key, answer in answered.items():
        assert Token.parse(answer["token"]).offsets == (places[key],)
    assert (tmp_path / FOLDER / FILE).stat().st_mode & 0o777 == 0o600
