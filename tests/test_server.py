"""The server over real HTTP: rows, pages, changes, tokens, and what it refuses."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import urllib3
import uvicorn

from riverrun.client import Client, Refusal
from riverrun.config import Settings
from riverrun.durations import BEGINNING, END
from riverrun.embedded import ports
from riverrun.errors import ConfigError
from riverrun.partitions import Partition
from riverrun.server.app import build
from riverrun.server.http import Http
from riverrun.server.limits import Limits
from riverrun.server.running import Listening, serve
from riverrun.server.security import Tokens
from riverrun.sinks.viewing.sink import FILE
from riverrun.sinks.viewing.store import SqliteStore
from riverrun.views import Token
from test_views import Stand, closed

__all__ = ["closed"]

Serving = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, cache=tmp_path, brokers="127.0.0.1:1")


@pytest.fixture
def stand(home: Settings) -> Stand:
    found = Stand(SqliteStore(home.home / FILE))
    found.batch(0, {"ann": 1, "bob/é %": 2, "": 3})
    return found


@pytest.fixture
def serving(home: Settings) -> Iterator[Serving]:
    """Starts a server, and gives its address."""
    begun: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(**limits: Any) -> str:
        port = ports.any_free()
        app = build(home, limits=Limits(**limits))
        config = uvicorn.Config(
            app, port=port, log_config=None, lifespan="off", http=Http, loop="uvloop",
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        begun.append((server, thread))
        while not server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{port}"

    yield start
    for server, thread in begun:
        server.should_exit = True
        thread.join()


def asked(url: str, method: str = "GET", **more: Any) -> tuple[int, dict[str, Any]]:
    answer = urllib3.request(method, url, retries=False, timeout=20, **more)
    found: dict[str, Any] = json.loads(answer.data)
    return answer.status, found


def test_a_row_is_found_by_its_key_whatever_is_in_it(stand: Stand, serving: Serving) -> None:
    view = Client(serving()).view("per_user")
    row = view.get("bob/é %")
    assert row == {"user": "bob/é %", "n": 2}
    assert row is not None
    assert row.fresh.revision == "1.0"
    assert "<td>bob/é %</td>" in row._repr_html_()
    assert view.get("nobody") is None


def test_rows_come_page_by_page(stand: Stand, serving: Serving) -> None:
    client = Client(serving())
    view = client.view("per_user")
    assert client.views() == ["per_user"]
    rows, after = view.page(order="-n", limit=2)
    assert [row["n"] for row in rows] == [3, 2]
    rows, after = view.page(order="-n", limit=2, after=after)
    assert ([row["n"] for row in rows], after) == ([1], None)
    assert list(view.rows({"n": "ge.2"})) == [{"user": "", "n": 3}, {"user": "bob/é %", "n": 2}]
    assert client.query("SELECT sum(n) AS n FROM per_user") == [{"n": 6}]


def test_a_clock_that_has_seen_nothing_or_the_end_has_no_time(
    stand: Stand, serving: Serving
) -> None:
    view = Client(serving()).view("per_user")
    for number, clock in enumerate((BEGINNING, END), 1):
        stand.note(number, clocks={"per_user": clock})
        row = view.get("ann")
        assert row is not None
        assert (row.fresh.revision, row.fresh.clock) == (f"1.{number}", None)


def test_a_query_has_as_long_as_it_is_given(stand: Stand, serving: Serving) -> None:
    client = Client(serving())
    endless = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT max(n) FROM x"
    with pytest.raises(Refusal, match=r"longer than 0\.2 s"):
        client.query(endless, timeout="200 milliseconds")
    with pytest.raises(Refusal, match="cannot be read"):
        client.query("SELECT 1", timeout="0 seconds")


def test_changes_come_as_they_happen_and_go_on_after_a_connection_that_broke(
    stand: Stand, serving: Serving
) -> None:
    view = Client(serving()).view("per_user")
    first = view.changes("0.-1")
    seen = [next(first) for _ in range(2)]
    first.close()  # type: ignore[attr-defined]
    again = view.changes(seen[-1].place)
    seen.append(next(again))
    stand.batch(1, {"ann": None, "": 4})
    seen += [next(again), next(again)]
    again.close()  # type: ignore[attr-defined]
    assert {(each.kind, each.key, each.row and each.row["n"]) for each in seen} == {
        ("put", "ann", 1), ("put", "bob/é %", 2), ("put", "", 3), ("put", "", 4),
        ("delete", "ann", None),
    }  # fmt: skip
    assert len({each.place for each in seen}) == 5


def test_a_read_with_a_token_waits_for_the_batch_that_holds_it(
    stand: Stand, serving: Serving
) -> None:
    url = serving()
    token = str(Token.of({Partition("clicks", 0): 15}))
    status, found = asked(f"{url}/views/per_user/ann?token={token}&wait=0.2s")
    assert (status, found["error"]["token"]["state"]) == (504, "waiting")

    def write() -> None:
        time.sleep(0.3)
        stand.batch(1, {"ann": 7})

    writer = threading.Thread(target=write)
    writer.start()
    row = Client(url).view("per_user").get("ann", token=token, wait="10 seconds")
    writer.join()
    assert row == {"user": "ann", "n": 7}
    assert row is not None
    assert row.state == "there"


def test_a_token_opens_what_its_scopes_say_and_nothing_else(
    stand: Stand, serving: Serving, home: Settings
) -> None:
    url = serving()
    tokens = Tokens(home)
    ann = tokens.add("ann", ("read:per_user",))
    bob = tokens.add("bob", ("read:other", "write:clicks"))
    assert ann not in tokens.file.read_text()
    assert tokens.file.stat().st_mode & 0o077 == 0

    def status(secret: str | None, path: str, method: str = "GET", **more: Any) -> int:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return asked(f"{url}{path}", method, headers=headers, **more)[0]

    assert status(None, "/views/per_user/ann") == 401
    assert status("rrt_wrong", "/views/per_user/ann") == 401
    assert status(ann, "/views/per_user/ann") == 200
    assert status(ann, "/views/per_user") == 200
    assert status(bob, "/views/per_user/ann") == 403
    assert status(bob, "/views/per_user/changes") == 403
    assert status(ann, "/views") == 403
    assert status(ann, "/query", "POST", body=b'{"sql": "SELECT 1"}') == 403
    refused = asked(f"{url}/views", headers={"Authorization": f"Bearer {ann}"})[1]
    assert refused["error"]["hint"] == "its scopes are read:per_user"
    tokens.remove("ann")
    assert status(ann, "/views/per_user/ann") == 401


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/views/none/1", 404), ("/views/per_user/nobody", 404), ("/nothing", 404),
        ("/views/per_user/a/b", 400), ("/views/per_user?limit=x", 400),
        ("/views/per_user?limit=0", 400), ("/views/per_user?order=%27", 400),
        ("/views/per_user?n=gt.x", 400), ("/views/per_user?after=%00", 400),
        ("/views/per_user/ann?token=x", 400), ("/views/per_user/changes?from=x", 400),
        ("/views/per_user/changes?from=1.1", 410), ("/views/per_user/changes?from=2.-1", 410),
        ("/views/per_user?%22%20OR%201=1", 400), ("/views/%2e%2e%2fetc/passwd", 404),
        ("/views/per_user/%00", 404), ("/views/per_user/%ff", 404),
        ("/views/riverrun_progress", 404), ("/views/sqlite_master", 404),
    ],
)  # fmt: skip
def test_every_refusal_has_the_same_shape(
    stand: Stand, serving: Serving, path: str, status: int
) -> None:
    found, body = asked(serving() + path)
    assert found == status
    assert {"code", "fact", "got", "hint"} <= body["error"].keys()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/ask/shop.users", {"sql": ""}), ("/ask/shop.users", {"sql": " "}),
        ("/ask/shop.users", {"sql": "FROM rows", "timeout": True}),
        ("/ask/shop.users", {"sql": "FROM rows", "timeout": 61}),
        ("/ask/shop.users", {"sql": "FROM rows", "timeout": "10 seconds"}),
        ("/query", {"sql": "SELECT 1", "timeout": True}),
        ("/query", {"sql": "SELECT 1", "limit": True}),
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_meant_is_refused_with_its_form(
    stand: Stand, serving: Serving, path: str, said: dict[str, Any]
) -> None:
    found, body = asked(serving() + path, "POST", body=json.dumps(said).encode())
    assert (found, body["error"]["fact"]) == (400, "the question cannot be read")
    assert " at most" in body["error"]["hint"]


def test_requests_are_limited_in_size_number_and_time(stand: Stand, serving: Serving) -> None:
    url = serving(body=1000, seconds=0.5, burst=5, rate=1)
    status, _ = asked(f"{url}/query", "POST", body=b"x" * 5000)
    assert status == 413
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as slow:
        slow.sendall(b"POST /query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        assert asked(f"{url}/views/per_user/ann")[0] == 200
        assert b" 408 " in slow.recv(100)
    assert 429 in [asked(f"{url}/views/per_user/ann")[0] for _ in range(10)]


def test_a_page_of_the_web_cannot_talk_to_it_under_another_name(
    stand: Stand, serving: Serving
) -> None:
    url = serving()
    assert asked(f"{url}/views/per_user/ann", headers={"Host": "evil.example"})[0] == 421
    assert asked(f"{url}/views/per_user/ann", headers={"Host": "localhost:1"})[0] == 200


def test_beyond_this_machine_it_needs_tls_and_tokens(home: Settings, tmp_path: Path) -> None:
    Stand(SqliteStore(home.home / FILE))
    with pytest.raises(ConfigError, match="TLS only"):
        next(serve(home, Listening("0.0.0.0")))
    some = tmp_path / "x.pem"
    some.write_text("")
    with pytest.raises(ConfigError, match="needs tokens"):
        next(serve(home, Listening("0.0.0.0", certificate=some)))
    Tokens(home).add("ann", ("read:*",))
    with pytest.raises(ConfigError, match="certificate cannot be used"):
        next(serve(home, Listening("0.0.0.0", certificate=some)))


def test_what_the_server_says_of_itself_is_read_by_a_client(stand: Stand, serving: Serving) -> None:
    url = serving()
    status, found = asked(f"{url}/openapi.json")
    assert (status, found["openapi"]) == (200, "3.1.0")
    page = urllib3.request("GET", url)
    assert b"riverrun" in page.data
    with pytest.raises(Refusal, match="no view 'x'") as refused:
        Client(url).view("x").get("y")
    assert refused.value.status == 404


def test_a_view_that_is_made_later_is_served_without_a_restart(
    home: Settings, serving: Serving
) -> None:
    url = serving()
    assert asked(f"{url}/views/per_user/ann")[0] == 400
    stand = Stand(SqliteStore(home.home / FILE))
    stand.batch(0, {"ann": 1})
    assert asked(f"{url}/views/per_user/ann")[0] == 200
    assert replace(stand, tick=1).there == {"ann": 1}
