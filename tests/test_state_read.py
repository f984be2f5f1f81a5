"""State that is looked into and dealt to other parts, as its checkpoint has it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import polars as pl
import pytest

from riverrun import asking
from riverrun.kafka import admin
from riverrun.runtime import state
from riverrun.runtime.widths import row_bytes
from running import produce, table

PROGRAM = """
import riverrun as rr
app = rr.App("looked")
views = app.stream("looked-views", schema="page string, user string, at timestamp", time="at")
users = views.group_by("user", name="users").agg(n=rr.count(), pages=rr.distinct("page"))
users.to("looked-users")
users.group_by("n", name="sizes").agg(users=rr.count()).to("looked-sizes")
views.to_table("user", "page", name="latest", keep="1 day").to("looked-latest")
"""


def views(times: int, start: int = 0):
    """User 0 has many pages, the others one."""
    at = "2026-01-01T12:00:00Z"
    rows = [{"page": f"/{n}", "user": "u0", "at": at} for n in range(start, start + times)]
    return rows + [{"page": "/", "user": f"u{n}", "at": at} for n in range(1, 30)]


@pytest.mark.broker
@pytest.mark.spark
def test_state_is_looked_into_and_rescaled(broker, tmp_path, once, riverrun):
    admin.create_topic(broker, "looked-views", partitions=2)
    file = tmp_path / "looked.py"
    file.write_text(PROGRAM)
    produce(broker, "looked-views", views(60), partitions=2)
    once(file)

    found = json.loads(riverrun("state", "looked", "--json").out)
    steps = {each["step"]: each for each in found["steps"]}
    assert {name: each["rows"] for name, each in steps.items()} == {
        "users": 30, "sizes": 2, "latest": 89,
    }  # fmt: skip
    assert sum(page["rows"] for page in steps["latest"]["pages"]) == 89
    assert steps["users"]["skew"] > 1
    assert found["largest"][0]["key"] == {"user": "u0"}
    assert found["largest"][0]["bytes"] > 5 * found["largest"][1]["bytes"]
    (row,) = json.loads(riverrun("state", "looked.latest", "u0", "/7", "--json").out)["rows"]
    assert (row["user"], row["page"], row["segment"]) == ("u0", "/7", 0)
    assert row["until"] == "2026-01-02T12:00:00Z"
    for wrong, said in (
        (("looked.users", "a", "b"), "the key of 'users' has 1 columns"),
        (("looked.nothing", "a"), "has no step 'nothing'"),
        (("looked", "a"), "a key is one of a step"),
        (("unknown",), "the application 'unknown' keeps nothing"),
    ):
        ended = riverrun("state", *wrong)
        assert ended.code == 2
        assert said in ended.err

    parts = found["partitions"] + 1
    made = json.loads(riverrun("rescale", "looked", "--partitions", str(parts), "--json").out)
    assert (made["before"], made["now"], made["pages"]) == (parts - 1, parts, found["pages"])
    again = riverrun("rescale", "looked", "--partitions", str(parts))
    assert f"is in {parts} parts already" in again.err
    assert "more parts than pages" in riverrun("rescale", "looked", "--partitions", "99").err
    told = riverrun("state", "looked.latest").out
    assert f"in {parts} parts" in told
    assert "latest" in told
    assert "sizes" not in told

    produce(broker, "looked-views", views(20, 50), partitions=2)
    once(file)
    counts = {
        row["user"]: (row["n"], row["pages"]) for row in table(broker, "looked-users").values()
    }
    assert counts == {"u0": (80, 70), **{f"u{n}": (2, 1) for n in range(1, 30)}}
    verified = riverrun("verify", str(file), "looked-users")
    assert verified.code == 0, verified.out


def test_rows_are_as_wide_as_what_they_hold():
    rows = pl.DataFrame(
        {
            "text": ["", "ab", None],
            "number": [1, 2, 3],
            "list": [[], ["a", "b"], ["c", "d"]],
            "struct": [{"x": 1, "y": "é"}, {"x": 1, "y": ""}, None],
            "bytes": [b"", b"xyz", b""],
        }
    )
    assert row_bytes(rows).to_list() == [8 + 8 + 2, 2 + 8 + 2 + 8 + 3, 8 + 2 + 8]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (0, "per_user has no row of the key ann"),
        (1, "1 row of per_user ann"),
        (2, "2 rows of per_user ann, the newest first: it replaces those of the same list"),
    ],
)
def test_how_many_rows_a_key_has_is_told(rows, told, riverrun, monkeypatch):
    kept = SimpleNamespace(rows=lambda step, key: [{"user": "ann"}] * rows)
    monkeypatch.setattr(asking, "step_called", lambda settings, name: ("shop", "per_user"))
    monkeypatch.setattr(state, "check_asked", lambda *asked: None)
    monkeypatch.setattr(state, "opened", lambda *asked: kept)
    outcome = riverrun("state", "shop.per_user", "ann")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, told)
