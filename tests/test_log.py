"""`riverrun run --log json`: one JSON object per line, whatever there is to tell, and no secret."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import datetime
from io import StringIO

import click
import pytest

from riverrun import config
from riverrun.cli import log
from riverrun.cli.live import LogView, graceful
from riverrun.config import load
from riverrun.delivery.status import last_status, note_status
from riverrun.errors import ConfigError, JobError
from riverrun.kernels.messages import Status


def events(text: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in text.splitlines()]
    for each in found:
        assert datetime.fromisoformat(each.pop("time")).tzinfo is not None
    return found


@contextmanager
def logged() -> Iterator[list[dict[str, object]]]:
    """What the block writes to standard error while the log is JSON, once it has ended."""
    found: list[dict[str, object]] = []
    written = StringIO()
    with redirect_stderr(written):
        log.begin("json")
        try:
            yield found
        finally:
            log.end()
    found += events(written.getvalue())


def test_an_error_has_its_fact_where_what_was_found_and_what_to_do(riverrun, tmp_path):
    (tmp_path / "bad.py").write_text('import riverrun as rr\napp = rr.App("shop")\napp.stream(1)\n')
    done = riverrun("run", "bad.py", "--log", "json")
    [error] = events(done.err)
    assert done.code == 2
    assert error["code"].startswith("RR")
    assert error["where"].endswith("bad.py:3")
    assert (error["level"], error["event"]) == ("error", "error")
    assert error["message"] in riverrun("run", "bad.py").err


@pytest.mark.parametrize("how", ["flag", "environment", "file"])
def test_the_form_is_said_as_other_settings_are(riverrun, tmp_path, monkeypatch, how):
    arguments = ["run", "none.py", *(["--log=json"] if how == "flag" else [])]
    if how == "environment":
        monkeypatch.setenv("RIVERRUN_LOG", "json")
    if how == "file":
        (tmp_path / "riverrun.toml").write_text('log = "json"\n')
    [error] = events(riverrun(*arguments).err)
    assert error == {
        "level": "error", "event": "error", "message": "there is no such program", "code": "RR103",
        "got": "none.py",
    }  # fmt: skip
    assert riverrun(*arguments, "--log", "text").err.startswith("error: there is no such program")


def test_an_error_of_the_command_line_is_told_in_its_form(riverrun):
    [error] = events(riverrun("run", "a.py", "--log", "json", "--bogus").err)
    assert "--bogus" in error["message"]
    assert riverrun("run", "a.py", "--bogus").err.startswith("Usage")


def test_a_form_that_there_is_not_is_an_error():
    with pytest.raises(ConfigError, match="there is no such form of a log"):
        load(environ={"RIVERRUN_HOME": "/x", "RIVERRUN_LOG": "xml"})


def test_an_error_that_nobody_has_foreseen_is_one_line_with_its_traceback(riverrun, monkeypatch):
    def fails() -> None:
        raise ZeroDivisionError("by\nnought")

    monkeypatch.setattr(config, "load", fails)
    monkeypatch.setattr("riverrun.cli.run.load", fails)
    done = riverrun("run", "a.py", "--log", "json")
    [error] = events(done.err)
    assert (done.code, error["message"]) == (1, "ZeroDivisionError: by\nnought")
    assert "in fails" in error["traceback"]
    with pytest.raises(ZeroDivisionError):
        riverrun("run", "a.py")


def test_what_a_program_prints_is_told_line_by_line():
    with logged() as lines:
        print("one\ntwo", file=sys.stderr)
        print("th", end="", file=sys.stderr)
        click.echo("ree", err=True)
        sys.stderr.write("no end")
    assert [each["message"] for each in lines] == ["one", "two", "three", "no end"]
    assert {each["event"] for each in lines} == {"output"}


def test_addresses_are_without_user_and_password():
    url = "postgresql://ann:s3cr@et@host:5432/db"
    with logged() as lines:
        log.say("warning", f"{url} is away")
        log.say_error(JobError(f"lost {url}", where=url, got=["redis://:s3cr@et@host"], hint=url))
    assert not re.search("s3cr|et@", json.dumps(lines))
    assert lines[0]["message"] == "postgresql://***@host:5432/db is away"


def view(*, rows: bool = False) -> LogView:
    to = log.current()
    assert to is not None
    return LogView("shop", to, rows=rows)


def test_a_run_is_told_with_its_batches_and_what_they_counted(tmp_path, capsys):
    for number, read in enumerate([5, 0, 7]):
        counts = Status(events=read, written={"a": 2 * read}, tick=1)
        shown = [{"output": "screen", "op": "+", "key": "k", "value": {"n": number}}]
        note_status(tmp_path, {}, (number, counts, shown))
    status = last_status(tmp_path)
    assert status is not None
    with logged() as lines, graceful():
        shop = view(rows=True)
        for text in ("starting Kafka", "warning: it: is slow", "over: it is quick"):
            shop.tell(text)
        shop.show(status)
        shop.show(status)
        raise KeyboardInterrupt
    assert [(each["event"], each["level"], each["message"]) for each in lines] == [
        ("progress", "info", "starting Kafka"),
        ("warning", "warning", "it: is slow"),
        ("over", "info", "it is quick"),
        ("batch", "info", "batch 0: 5 events, 10 rows written"),
        ("batch", "info", "batch 2: 7 events, 14 rows written"),
        ("stopped", "info", "stopped"),
    ]
    last = lines[-2]
    assert {each["application"] for each in lines} == {"shop"}
    assert (last["batch"], last["events"], last["written"], last["dead"]) == (2, 7, 14, 0)
    assert json.loads(capsys.readouterr().out.splitlines()[0])["value"] == {"n": 2}


def test_an_alert_is_told_with_its_numbers():
    alert = {"step": "pages", "share": 0.25, "limit": 0.2, "since": 1}
    with logged() as lines:
        shop = view()
        shop.warn({"alerts": [alert]})
        shop.warn({"alerts": []})
    begun, over = lines
    assert (begun["event"], over["event"]) == ("warning", "over")
    assert (begun["step"], begun["share"], begun["limit"]) == ("pages", 0.25, 0.2)
    assert over["step"] == "pages"
