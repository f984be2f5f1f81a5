"""The embedded PostgreSQL starts once, survives what can happen to its folder, and stops."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from riverrun.config import Settings
from riverrun.embedded import ports, postgres, process
from riverrun.errors import PortError, ServerError


def asked(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def folder(settings: Settings) -> Path:
    return settings.home / "postgres"


def test_rows_and_port_are_the_same_after_down_and_up(settings):
    first = postgres.up(settings, port=ports.any_free())
    asked(first.url, "CREATE TABLE kept AS SELECT 1")
    assert postgres.down(settings)
    assert not postgres.running(settings)
    assert postgres.down(settings) is False
    second = postgres.up(settings)
    assert second.url == first.url
    assert asked(second.url, "TABLE kept") == [(1,)]


def test_a_restart_keeps_the_port_and_does_not_wait_for_clients(settings):
    first = postgres.up(settings, port=ports.any_free())
    with psycopg.connect(first.url) as client:
        client.execute("SELECT 1")
        second = postgres.restart(settings)
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
    assert (second.url, second.pid != first.pid) == (first.url, True)


def test_two_ups_at_the_same_time_start_one_server(settings):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: postgres.up(settings), range(2))
    assert first == second


def test_a_killed_server_is_noticed_and_started_again_with_its_rows(settings):
    first = postgres.up(settings, port=ports.any_free())
    asked(first.url, "CREATE TABLE kept AS SELECT 1")
    os.kill(first.pid, signal.SIGKILL)
    while process.alive(first.pid):
        time.sleep(0.01)
    assert postgres.status(settings) is None
    second = postgres.up(settings)
    assert asked(second.url, "TABLE kept") == [(1,)]


def test_a_busy_port_that_was_asked_for_is_an_error_and_leaves_nothing_behind(settings):
    with socket.socket() as other:
        other.bind((ports.LOOPBACK, 0))
        other.listen()
        with pytest.raises(PortError, match="is taken by another program"):
            postgres.up(settings, port=other.getsockname()[1])
    assert not folder(settings).exists()


def test_up_on_another_port_than_the_running_servers_is_refused(postgres_settings):
    with pytest.raises(PortError, match="already running on another port"):
        postgres.up(postgres_settings, port=ports.any_free())


def test_a_pid_that_now_is_another_program_is_left_alone(settings):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        postgres.up(settings, port=ports.any_free())
        postgres.down(settings)
        state = json.loads((folder(settings) / "state.json").read_text())
        (folder(settings) / "state.json").write_text(json.dumps({**state, "pid": other.pid}))
        (folder(settings) / "data" / "postmaster.pid").write_text(f"{other.pid}\n")
        assert postgres.status(settings) is None
        assert postgres.up(settings)
        assert other.poll() is None
    finally:
        other.communicate()


def test_a_server_whose_folder_was_removed_is_still_stopped(settings):
    first = postgres.up(settings, port=ports.any_free())
    shutil.rmtree(folder(settings), ignore_errors=True)  # a server sees it, and helps
    postgres.down(settings)  # whether there was one: it may have ended by itself just before
    assert not process.alive(first.pid)


def test_data_that_was_made_halfway_is_made_again(settings):
    draft = folder(settings) / "data.draft"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("half")
    assert asked(postgres.up(settings, port=ports.any_free()).url, "SELECT 1") == [(1,)]


def test_a_server_that_dies_while_starting_shows_its_last_words(settings):
    (folder(settings) / "data").mkdir(parents=True)
    with pytest.raises(ServerError, match="ended while it was starting") as caught:
        postgres.up(settings, port=ports.any_free())
    assert "data" in str(caught.value.got)
    assert process.search(str(folder(settings) / "data")) is None


def test_a_start_that_is_interrupted_leaves_no_server_behind(settings, monkeypatch):
    def interrupted(files, pid):
        raise KeyboardInterrupt

    monkeypatch.setattr(postgres.Files, "ready", interrupted)
    with pytest.raises(KeyboardInterrupt):
        postgres.up(settings, port=ports.any_free())
    assert process.search(str((folder(settings) / "data").resolve())) is None
    assert postgres.status(settings) is None


def test_the_server_listens_on_the_loopback_interface_and_keeps_a_logical_log(postgres_settings):
    server = postgres.status(postgres_settings)
    listening = psutil.Process(server.pid).net_connections("all")
    assert {c.laddr.ip for c in listening if c.status == "LISTEN"} == {"127.0.0.1"}
    assert asked(server.url, "SHOW wal_level") == [("logical",)]


def test_a_configured_server_is_used_and_nothing_is_started(settings):
    own = settings.override(postgres="postgresql://db/shop")
    assert postgres.ensure(own) == "postgresql://db/shop"
    assert not settings.home.exists()
