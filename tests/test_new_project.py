"""A new project passes its test; `riverrun check` looks at topics before anything runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from riverrun.kafka import admin
from riverrun.kafka.permissions import allowed
from riverrun.runtime import topic_checks
from running import produce

PROGRAM = """
import riverrun as rr
app = rr.App("checked")
views = app.stream("checked-views", schema="user string, ms bigint, sise bigint, at timestamp",
                   time="at", lateness="2 hours")
days = views.group_by("user", name="days").window(rr.tumbling("1 day"))
days.agg(n=rr.count()).to("checked-out")
users = app.table("checked-users", schema="user string", key="user")
known = views.join(users, on="user", as_of="event time", history="30 days", name="known")
known.to("checked-known")
"""


def test_a_new_project_passes_its_test_and_its_check(riverrun, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert riverrun("new", "shop").code == 0
    made = ["make", f"PYTHON={sys.executable}", "test", "check"]
    ended = subprocess.run(made, cwd="shop", capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Ran 1 test" in ended.stderr
    assert "shop starts: it has not run yet" in ended.stdout
    assert (tmp_path / "shop" / "riverrun.toml").is_file()
    again = riverrun("new", "shop")
    assert again.code == 2
    assert "there is a 'shop' already" in again.err
    assert riverrun("new", "no name").code == 2
    found = json.loads(riverrun("new", "other", "--json").out)
    assert found["files"] == ["app.py", "test_app.py", "Makefile", "riverrun.toml", ".gitignore"]


@pytest.mark.broker
def test_check_looks_at_topics_before_anything_runs(broker, riverrun, tmp_path, monkeypatch):
    file = tmp_path / "checked.py"
    file.write_text(PROGRAM)
    missing = riverrun("check", str(file))
    assert missing.code == 2
    assert "the topic checked-views does not exist" in missing.out
    assert "checked cannot run like this" in missing.out

    admin.create_topic(broker, "checked-views", config={"retention.ms": "3600000"})
    admin.create_topic(broker, "checked-users", config={"retention.ms": "604800000"})
    good = {"user": "ann", "ms": 1, "size": 1, "at": "2026-01-01T12:00:00Z"}
    produce(broker, "checked-views", [*[good] * 3, good | {"ms": "many"}])
    found = json.loads(riverrun("check", str(file), "--json").out)
    assert found["problems"] == []
    told = "\n".join(found["warnings"])
    for said in (
        "checked-views deletes records after 1 hour, and lateness takes 2 hours",
        "and a window of days takes 26 hours",
        "the topic checked-users is read as a table, and deletes records after 1 week",
        "and the history of known takes 30 days",
        "of the last 4 records of checked-views, 1: decode: ms is not a BIGINT",
        "no record of the last 4 has 'sise'; did you mean 'size'?",
    ):
        assert said in told

    assert {"READ", "WRITE"} <= (allowed(broker, "checked-views") or set())
    monkeypatch.setattr(topic_checks, "allowed", lambda client, topic: frozenset({"DESCRIBE"}))
    forbidden = riverrun("check", str(file))
    assert forbidden.code == 2
    assert "the topic checked-views may not be read" in forbidden.out
    assert "the topic checked-out may not be written" in forbidden.out
