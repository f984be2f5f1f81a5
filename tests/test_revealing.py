"""Personal columns of views, read by those who may: over HTTP, and from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from riverrun.config import Settings
from riverrun.forgetting import Keys
from riverrun.forgetting.places import place_of
from riverrun.server.security import Tokens
from riverrun.sinks.viewing.sink import FILE
from riverrun.sinks.viewing.store import SqliteStore
from test_server import Serving, asked, home, serving
from test_views import Stand, closed

__all__ = ["closed", "home", "serving"]


@pytest.fixture
def keys(home: Settings) -> Keys:
    """Those of the application with a view that holds a sealed address."""
    found = Keys(place_of(home, "shop").store())
    [sealed] = found.seal("customer", [("42", "ann@example.org")])
    Stand(SqliteStore(home.home / FILE)).batch(0, {sealed: 1, "plain": 2})
    return found


def test_the_server_reveals_to_tokens_that_say_so_and_to_nobody_else(
    home: Settings, keys: Keys, serving: Serving
) -> None:
    url = f"{serving()}/views/per_user"
    [sealed] = [row["user"] for row in asked(url)[1]["rows"] if row["n"] == 1]
    assert sealed.startswith("rrp1:")
    # nobody needs a token yet, but for this
    assert asked(f"{url}?reveal=true")[0] == 401
    tokens = Tokens(home)
    reader = {"Authorization": f"Bearer {tokens.add('ann', ('read:per_user',))}"}
    both = {"Authorization": f"Bearer {tokens.add('bob', ('read:*', 'reveal:per_user'))}"}
    assert asked(f"{url}?reveal=true", headers=reader)[0] == 403
    assert asked(f"{url}?reveal=maybe", headers=both)[0] == 400
    shown = asked(f"{url}?reveal=true&order=n", headers=both)[1]
    assert [row["user"] for row in shown["rows"]] == ["ann@example.org", "plain"]
    assert asked(f"{url}?reveal=false&order=n", headers=both)[1]["rows"][0]["user"] == sealed
    keys.forget(keys.subject("customer", "42"))
    shown = asked(f"{url}/{sealed}?reveal=true", headers=both)[1]
    assert (shown["row"], shown["forgotten"]) == ({"user": None, "n": 1}, ["user"])


def test_a_query_reveals_what_it_gives_and_marks_what_is_forgotten(
    keys: Keys, tmp_path: Path, riverrun, monkeypatch
) -> None:
    monkeypatch.setenv("RIVERRUN_HOME", str(tmp_path))
    sql = "SELECT n, user, user FROM per_user ORDER BY n"
    assert "ann@" not in riverrun("query", sql).out
    assert "ann@example.org  ann@example.org" in riverrun("query", sql, "--reveal", "shop").out
    keys.forget(keys.subject("customer", "42"))
    assert "null  (forgotten)" in riverrun("query", sql, "--reveal", "shop").out
    lines = riverrun("query", sql, "--reveal", "shop", "--json").out.splitlines()
    assert [json.loads(each) for each in lines] == [
        {"n": 1, "user": None, "forgotten": ["user"]},
        {"n": 2, "user": "plain"},
    ]
    wrong = riverrun("query", sql, "--reveal", "other")
    assert (wrong.code, "has no keys here" in wrong.err) == (2, True)
