"""The embedded Kafka Connect starts once, on loopback, and stops cleanly; its faults are told."""

from __future__ import annotations

import json
import urllib.request

import psutil
import pytest

from riverrun.embedded import connect, connect_files, kafka, ports, process
from riverrun.errors import ConfigError, PortError, ServerError


def plugins(worker: connect.Worker) -> set[str]:
    with urllib.request.urlopen(f"{worker.url}/connector-plugins") as answer:
        return {each["class"].rpartition(".")[2] for each in json.load(answer)}


def test_connect_comes_with_up_listens_on_loopback_only_and_goes_with_down(settings, riverrun):
    up = json.loads(riverrun("up", "--port", str(ports.any_free()), "--connect", "--json").out)
    told = up["connect"]
    assert told["started"]
    worker = connect.status(settings)
    assert plugins(worker) == {"PostgresConnector", "MariaDbConnector"}
    listening = [
        each.laddr.ip.removeprefix("::ffff:")
        for each in psutil.Process(worker.pid).net_connections("tcp")
        if each.status == "LISTEN"
    ]
    assert set(listening) == {"127.0.0.1"}
    assert f"Kafka Connect is already running on {worker.url}" in riverrun("up", "--connect").out
    assert f"Kafka Connect runs on {worker.url} (pid {worker.pid})" in riverrun("status").out
    facts = {name: fact for name, fact in told.items() if name != "started"}
    assert json.loads(riverrun("status", "--json").out)["connect"] == facts
    with pytest.raises(PortError, match="already running on another port"):
        connect.up(settings, port=ports.any_free())
    assert riverrun("down").out == "Kafka is stopped\nKafka Connect is stopped\n"
    assert not process.alive(worker.pid)
    assert connect.status(settings) is None
    assert connect.down(settings) is False


def test_a_worker_follows_its_broker_to_another_port(settings):
    kafka.up(settings, port=ports.any_free())
    first = connect.up(settings, port=ports.any_free())
    broker = psutil.Process(kafka.status(settings).pid)
    broker.kill()
    broker.wait(10)
    moved = kafka.up(settings, port=ports.any_free())
    second = connect.up(settings)
    assert (second.brokers, second.url) == (moved.brokers, first.url)
    assert second.pid != first.pid
    assert not process.alive(first.pid)


def test_a_worker_that_dies_while_starting_shows_its_last_words(broker_settings, monkeypatch):
    broken = connect_files.PROPERTIES + "config.storage.replication.factor=many\n"
    monkeypatch.setattr(connect_files, "PROPERTIES", broken)
    with pytest.raises(ServerError, match="ended while it was starting") as caught:
        connect.up(broker_settings, port=ports.any_free())
    assert "config.storage.replication.factor" in str(caught.value.got)
    assert connect.status(broker_settings) is None
    folder = broker_settings.home / "connect"
    assert process.search(str(folder / "worker.properties")) is None


def test_brokers_that_need_more_than_an_address_are_refused_with_what_to_do(settings):
    secured = settings.override(brokers="kafka:9093", kafka={"sasl.password": "secret"})
    with pytest.raises(ConfigError, match=r"connect = \"http://") as caught:
        connect.up(secured)
    assert "secret" not in str(caught.value)
    assert not settings.home.exists()
