"""The embedded broker starts once, survives what can happen to its folder, and stops cleanly."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from riverrun.config import Settings
from riverrun.embedded import kafka, kafka_jvm, ports, process
from riverrun.errors import BrokerError, PortError, ServerError
from riverrun.kafka import admin


@pytest.fixture
def taken() -> int:
    """A port on which another program listens."""
    with socket.socket() as other:
        other.bind((ports.LOOPBACK, 0))
        other.listen()
        yield other.getsockname()[1]


def folder(settings: Settings) -> Path:
    return settings.home / "kafka"


def state(settings: Settings) -> dict[str, object]:
    return json.loads((folder(settings) / "state.json").read_text())


def test_topics_and_port_are_the_same_after_down_and_up(settings):
    first = kafka.up(settings, port=ports.any_free())
    admin.create_topic(kafka.client(settings), "kept", partitions=3)
    assert kafka.down(settings)
    assert not kafka.running(settings)
    assert not psutil.pid_exists(first.pid) or not process.alive(first.pid)
    second = kafka.up(settings)
    assert second.brokers == first.brokers
    [topic] = admin.topics(kafka.client(settings))
    assert (topic.name, len(topic.partitions)) == ("kept", 3)


def test_two_ups_at_the_same_time_start_one_broker(settings):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: kafka.up(settings), range(2))
    assert first == second


def test_a_second_up_changes_nothing(broker_settings):
    before = kafka.status(broker_settings)
    assert kafka.up(broker_settings) == before
    assert kafka.ensure(broker_settings) == {"bootstrap.servers": before.brokers}


def test_up_on_another_port_than_the_running_brokers_is_refused(broker_settings):
    with pytest.raises(PortError, match="already running on another port"):
        kafka.up(broker_settings, port=ports.any_free())


def test_a_busy_port_that_was_asked_for_is_an_error_and_leaves_nothing_behind(
    settings, taken, riverrun
):
    outcome = riverrun("up", "--port", str(taken))
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: port {taken} is taken by another program [RR203]")
    assert not settings.home.exists()


def test_a_busy_usual_port_is_replaced_by_a_free_one(settings, taken, monkeypatch):
    monkeypatch.setattr(kafka, "PORT", taken)
    assert kafka.up(settings).brokers != f"127.0.0.1:{taken}"


def test_a_port_that_is_taken_during_the_start_is_replaced(settings, taken, monkeypatch):
    answers = iter([True])
    monkeypatch.setattr(kafka, "PORT", taken)
    monkeypatch.setattr(ports, "free", lambda port: next(answers, port != taken))
    assert kafka.up(settings).brokers != f"127.0.0.1:{taken}"


def test_a_killed_broker_is_noticed_and_started_again_with_its_records(settings):
    first = kafka.up(settings, port=ports.any_free())
    admin.create_topic(kafka.client(settings), "kept")
    os.kill(first.pid, signal.SIGKILL)
    psutil.Process(first.pid).wait(10)
    assert kafka.status(settings) is None
    second = kafka.up(settings)
    assert second.pid != first.pid
    assert [topic.name for topic in admin.topics(kafka.client(settings))] == ["kept"]


def test_a_pid_that_now_is_another_program_is_left_alone(settings):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        folder(settings).mkdir(parents=True)
        stale = {"port": ports.any_free(), "controller": 1, "pid": other.pid}
        (folder(settings) / "state.json").write_text(json.dumps(stale))
        assert kafka.status(settings) is None
        assert kafka.down(settings) is False
        assert other.poll() is None
        assert state(settings)["pid"] is None
    finally:
        other.communicate()


def test_a_lost_state_file_does_not_lose_the_broker(settings):
    first = kafka.up(settings, port=ports.any_free())
    (folder(settings) / "state.json").write_text("{half")
    assert kafka.status(settings) is None
    assert kafka.down(settings) is True
    assert not process.alive(first.pid)


def test_a_broker_whose_folder_was_removed_is_still_stopped(settings):
    first = kafka.up(settings, port=ports.any_free())
    shutil.rmtree(folder(settings))
    assert kafka.down(settings) is True
    assert not process.alive(first.pid)


def test_a_folder_whose_formatting_was_interrupted_is_formatted_again(settings):
    data = folder(settings) / "data"
    data.mkdir(parents=True)
    (data / "bootstrap.checkpoint").write_bytes(b"half")
    (data / "meta.properties").write_text("#\nversion=1\n")
    assert kafka.up(settings, port=ports.any_free())


def test_a_damaged_folder_with_records_is_explained_and_left_alone(settings, riverrun):
    records = folder(settings) / "data" / "orders-0" / "00000000000000000000.log"
    records.parent.mkdir(parents=True)
    records.write_bytes(b"records")
    outcome = riverrun("up")
    assert outcome.code == 2
    assert outcome.err.startswith("error: the broker's data folder holds records, but not its meta")
    assert "records in orders-0" in outcome.err
    assert records.read_bytes() == b"records"


def test_a_broker_that_dies_while_starting_shows_its_last_words(settings, monkeypatch):
    properties = kafka_jvm.Files.write_settings

    def broken(self, state):
        properties(self, state)
        self.properties.write_text(self.properties.read_text() + "log.cleaner.threads=none\n")

    monkeypatch.setattr(kafka_jvm, "prepare", lambda files, jvm: None)
    monkeypatch.setattr(kafka_jvm.Files, "write_settings", broken)
    with pytest.raises(ServerError, match="ended while it was starting") as caught:
        kafka.up(settings, port=ports.any_free())
    assert "log.cleaner.threads" in str(caught.value.got)
    assert state(settings)["pid"] is None
    assert process.search(str(folder(settings) / "server.properties")) is None


def test_the_broker_listens_on_the_loopback_interface_only(broker_settings):
    broker = psutil.Process(kafka.status(broker_settings).pid)
    listening = [c.laddr.ip for c in broker.net_connections("tcp") if c.status == "LISTEN"]
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_a_client_without_a_broker_is_told_what_to_do(settings):
    with pytest.raises(BrokerError, match=r"no broker is running(.|\n)*riverrun up"):
        kafka.client(settings)


def test_configured_brokers_are_used_and_nothing_is_started(settings):
    cluster = settings.override(brokers="kafka:9092", kafka={"security.protocol": "SSL"})
    expected = {"bootstrap.servers": "kafka:9092", "security.protocol": "SSL"}
    assert kafka.ensure(cluster) == kafka.client(cluster) == expected
    assert not settings.home.exists()


def test_settings_of_a_cluster_do_not_hold_for_the_embedded_broker(broker_settings):
    own = broker_settings.override(kafka={"security.protocol": "SSL"})
    assert kafka.named(own).client() == kafka.client(own) == kafka.client(broker_settings)
    cluster = own.override(brokers="kafka:9092")
    assert kafka.named(cluster) == cluster


def test_kafka_runs_on_the_java_from_pypi(settings, monkeypatch):
    monkeypatch.setenv("RIVERRUN_JAVA", "pypi")
    kafka.up(settings, port=ports.any_free())
    assert admin.topics(kafka.client(settings)) == []
