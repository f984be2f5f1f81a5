"""`riverrun up`, `status` and `down` as a person and as a program read them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from riverrun.embedded import kafka, ports
from riverrun.kafka import admin


def test_up_status_and_down_tell_what_they_did(settings, riverrun):
    port = str(ports.any_free())
    assert riverrun("status").out == (
        "Kafka is not running (`riverrun up` starts it)\n"
        "PostgreSQL is not running (`riverrun up --postgres` starts it)\n"
    )
    assert riverrun("up", "--port", port).out.startswith(f"Kafka runs on 127.0.0.1:{port} (")
    assert riverrun("up").out == f"Kafka is already running on 127.0.0.1:{port}\n"
    assert f"127.0.0.1:{port}" in riverrun("status").out
    assert riverrun("down").out == "Kafka is stopped\n"
    assert riverrun("down").out == "Kafka was not running\n"


def test_programs_get_json(broker, broker_settings, riverrun):
    running = kafka.status(broker_settings)
    facts = {
        "running": True,
        "brokers": running.brokers,
        "pid": running.pid,
        "folder": str(running.folder),
        "log": str(running.log),
    }
    stopped = {name: {"running": False} for name in ("postgres", "connect", "spark")}
    told = json.loads(riverrun("status", "--json").out)
    for who in ("reader", "writer"):
        assert set(told.pop(who)) == {"way", "why"}
    assert told.pop("captures") == {}
    assert told == facts | stopped
    assert json.loads(riverrun("up", "--json").out) == facts | {"started": False}


def test_what_is_not_running_is_no_error_for_programs_either(riverrun):
    status, down = riverrun("status", "--json"), riverrun("down", "--json")
    nothing = {"running": False}
    others = dict.fromkeys(("postgres", "connect", "spark"), nothing)
    told = json.loads(status.out)
    assert (told.pop("captures"), bool(told.pop("reader")), bool(told.pop("writer"))) == (
        {}, True, True,
    )  # fmt: skip
    assert (status.code, told) == (0, {**nothing, **others})
    nothing = {"running": False, "stopped": False}
    others = dict.fromkeys(("postgres", "connect", "spark"), nothing)
    assert (down.code, json.loads(down.out)) == (0, {**nothing, **others, "captures": []})


def test_postgres_comes_with_up_and_goes_with_down(settings, riverrun):
    port = str(ports.any_free())
    up = json.loads(riverrun("up", "--port", port, "--postgres", "--json").out)
    assert up["postgres"]["started"]
    url = up["postgres"]["url"]
    assert f"PostgreSQL is already running on {url}" in riverrun("up", "--postgres").out
    assert f"PostgreSQL runs on {url} (pid" in riverrun("status").out
    facts = {name: fact for name, fact in up["postgres"].items() if name != "started"}
    assert json.loads(riverrun("status", "--json").out)["postgres"] == facts
    assert riverrun("down").out == "Kafka is stopped\nPostgreSQL is stopped\n"


@pytest.mark.parametrize(
    "arguments", [["topics"], ["topics", "create", "a"], ["produce", "a"], ["tail", "a"]]
)
def test_a_command_that_needs_a_broker_says_so(arguments, riverrun):
    outcome = riverrun(*arguments)
    assert outcome.code == 2
    assert outcome.err == (
        "error: no broker is running [RR201]\n  hint: run `riverrun up`, or set --brokers\n"
    )


@pytest.mark.parametrize("name", ["", "a b", "../x", "..", "x" * 250, "é", "a\n"])
@pytest.mark.parametrize(
    "command", ["archive", "produce", "tail", "topics create", "topics describe", "topics delete"]
)
def test_a_name_that_no_topic_can_have_is_told_before_a_broker_is_asked(command, name, riverrun):
    outcome = riverrun(*command.split(), name)
    assert outcome.code == 2
    assert outcome.err == (
        "error: Kafka has no topics of such a name [RR103]\n"
        f"  got: {name!r}\n"
        "  hint: a topic's name has letters, digits, _ . and -, at most 249\n"
    )


@pytest.mark.parametrize("arguments", [["topics"], ["archive", "clicks"]])
def test_brokers_that_do_not_answer_are_one_clear_error(arguments, riverrun, monkeypatch):
    monkeypatch.setattr(admin, "PATIENCE", timedelta(seconds=1))
    outcome = riverrun(*arguments, "--brokers", "127.0.0.1:1")
    assert outcome.code == 2
    assert outcome.err.startswith("error: no Kafka broker answers [RR201]\n  where: 127.0.0.1:1")
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("name", ["up", "down", "status", "topics", "produce", "tail"])
def test_every_command_has_help_with_an_example(name, riverrun):
    outcome = riverrun(name, "--help")
    assert outcome.code == 0
    assert f"\n  riverrun {name}" in outcome.out
    assert "--json" in outcome.out
