"""Requests of somebody who means harm, or has odd keys: each is answered, and in one shape."""

from __future__ import annotations

import base64
import json
import socket
import time
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
import urllib3

from riverrun.client import Client
from riverrun.config import Settings
from riverrun.errors import InputError
from riverrun.schema import schema_of
from riverrun.server import http
from riverrun.server.ingest.bodies import Fault, records_of
from riverrun.server.security import Tokens
from riverrun.views.asked import Words, asked, place_text
from test_server import Serving, closed, home, serving, stand
from test_server import asked as answered
from test_views import Stand

__all__ = ["closed", "home", "serving", "stand"]

KEYS = [
    ".", "..", "changes", "a/b", "a%2Fb", "%", "", " ", "a\nb", "a\n", "\r\nX: y", "\0", "é😀",
    "?#&=+", "'; DROP TABLE per_user; --", "x" * 5000, "\u2028", "\\",
]  # fmt: skip


def coded(value: object) -> str:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@pytest.mark.parametrize("number", range(len(KEYS)))
def test_whatever_the_key_is_its_row_is_found(stand: Stand, serving: Serving, number: int) -> None:
    key = KEYS[number]
    stand.batch(1, {key: 7})
    view = Client(serving()).view("per_user")
    assert view.get(key) == {"user": key, "n": 7}
    change = next(view.changes("1.0"))
    assert (change.key, change.row) == (key, {"user": key, "n": 7})


DEEP = b"[" * 40_000


@pytest.mark.parametrize(
    "path",
    [
        f"/views/per_user?after={coded(DEEP)}",
        f"/views/per_user/ann?token=rr1.{coded(DEEP)}",
        f"/views/per_user?order=n&after={coded([['n', 'user'], [str(10**30), 'x']])}",
        f"/views/per_user?order=n&after={coded([['n', 'user'], [10**30, 'x']])}",
        "/views/per_user?after=" + coded(rb'[["user"],["\ud800"]]'),
        "/views/per_user/ann?token=rr1." + coded(rb'{"clicks": {"0": 1e999}}'),
        "/views/per_user/ann?token=rr1." + coded(rb'{"clicks": {"0": 1.5}}'),
        f"/views/per_user/ann?token=rr1.{coded({'clicks': {'0': 1}})}&wait={quote('²')}",
        "/views/per_user/changes?from=99999999999999999999.0",
        "/views/per_user/changes?from=1.99999999999999999999",
        "/views/per_user/changes?from=1.1.-5.0",
        "/views/per_user/changes?from=1.1.1",
        "/views/per_user?" + "&".join(["n=ge.0"] * 2000),
        f"/views/per_user?n=in.({','.join(['1'] * 1001)})",
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_fails(
    stand: Stand, serving: Serving, path: str
) -> None:
    status, body = answered(serving() + path)
    assert status == 400, body
    assert {"code", "fact", "got", "hint"} <= body["error"].keys()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (rb'{"sql": "SELECT ' + b"'" + rb"\ud800" + b"'" + b'"}', 400),
        (b'{"sql": "SELECT printf(\'%.*c\', 500000000, \'x\')"}', 400),
        (b'{"sql": "SELECT hex(zeroblob(900000000))"}', 400),
        (b'{"sql": "SELECT zeroblob(60000000), zeroblob(60000000)"}', 400),
        (b'"text"', 400), (b"null", 400), (b"[1]", 400),
        (b'{"sql": "SELECT 1", "limit": 1e9}', 400),
    ],
)  # fmt: skip
def test_a_query_that_would_make_the_server_fail_or_stall_is_refused(
    stand: Stand, serving: Serving, body: bytes, status: int
) -> None:
    begun = time.monotonic()
    found, said = answered(f"{serving()}/query", "POST", body=body)
    assert (found, time.monotonic() - begun < 10) == (status, True), said


def test_numbers_and_bytes_that_json_has_not_are_texts(stand: Stand, serving: Serving) -> None:
    sql = "SELECT 9e999 AS high, -9e999 AS low, x'ff00' AS bytes"
    found = answered(f"{serving()}/query", "POST", body=json.dumps({"sql": sql}).encode())[1]
    assert found["rows"] == [["Infinity", "-Infinity", "/wA="]]


COLUMNS = schema_of(
    [
        ("k", "VARCHAR"), ("h", "HUGEINT"), ("d", "DECIMAL(10,2)"), ("b", "BOOLEAN"),
        ("f", "DOUBLE"), ("at", "TIMESTAMP"), ("dt", "DATE"), ("li", "BIGINT[]"), ("j", "JSON"),
    ]
)  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value", "kept"),
    [
        ("h", 10**30, str(10**30)), ("d", Decimal("-6.40"), "-6.40"), ("b", True, 1),
        ("f", 1.5, 1.5), ("f", "Infinity", float("inf")), ("h", None, None),
        ("at", "2026-01-01T00:00:00.004000Z", "2026-01-01T00:00:00.004000Z"),
        ("dt", "2026-01-01", "2026-01-01"),
    ],
)  # fmt: skip
def test_a_page_goes_on_after_a_value_of_any_type(column: str, value: Any, kept: Any) -> None:
    order = asked(Words(order=column), COLUMNS, ("k",)).order
    words = Words(order=column, after=place_text(order, [value, "a"]))
    assert asked(words, COLUMNS, ("k",)).after == (kept, "a")


@pytest.mark.parametrize("column", ["li", "j"])
def test_a_column_without_an_order_is_not_ordered_by(column: str) -> None:
    with pytest.raises(InputError, match="has no order"):
        asked(Words(order=column), COLUMNS, ("k",))


def test_a_record_with_very_many_names_of_which_one_is_there_twice_is_soon_refused() -> None:
    names = ", ".join(f'"{number}": 1' for number in range(200_000))
    begun = time.monotonic()
    [found] = records_of(f'{{{names}, "199999": 2}}'.encode(), "json")
    assert found == Fault(0, None, "'199999' is there twice")
    assert time.monotonic() - begun < 10


def test_bytes_that_are_no_http_are_refused_in_the_same_shape(
    stand: Stand, serving: Serving
) -> None:
    answer = urllib3.request("GET", f"{serving()}/views/per_user?user={'x' * 100_000}")
    assert answer.status == 400
    assert {"code", "fact", "got", "hint"} <= json.loads(answer.data)["error"].keys()


def test_who_sends_no_request_is_not_waited_for_and_holds_nobody_up(
    stand: Stand, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "WITHIN", 0.5)
    url = serving()
    port = int(url.rpartition(":")[2])
    begun = [b"", b"GET /views", b"GET /views HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "]
    slow = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(60)]
    for number, each in enumerate(slow):
        each.sendall(begun[number % 3])
    assert answered(f"{url}/views/per_user/ann")[0] == 200
    assert [each.recv(1) for each in slow] == [b""] * 60
    for each in slow:
        each.close()


def test_slow_queries_leave_room_for_all_others(stand: Stand, serving: Serving) -> None:
    url = serving()
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"
    content = json.dumps({"sql": endless}).encode()
    head = f"POST /query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n"
    port = int(url.rpartition(":")[2])
    slow = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(60)]
    for each in slow:
        each.sendall(head.encode() + content)
    time.sleep(0.5)
    begun = time.monotonic()
    assert answered(f"{url}/views/per_user")[0] == 200
    assert time.monotonic() - begun < 8
    for each in slow:
        each.close()


ROUTES: dict[str, tuple[str, str]] = {
    "GET /views": ("query", "query"),
    "GET /views/per_user": ("read:per_user", "read:*"),
    "GET /views/per_user/ann": ("read:per_user", "read:*"),
    "GET /views/per_user/changes?from=x": ("read:per_user", "read:*"),
    "POST /query": ("query", "query"),
    "GET /topics": ("query", "query"),
    "GET /topics/clicks": ("write:clicks", "write:*"),
    "POST /topics/clicks": ("write:clicks", "write:*"),
    "POST /ask/shop.per_user": ("ask:shop.per_user", "ask:*"),
    "GET /metrics": ("metrics", "metrics"),
    "GET /udp": ("metrics", "metrics"),
}
SCOPES = sorted({each for both in ROUTES.values() for each in both} | {"read:per", "write:click"})


def test_a_token_of_each_scope_opens_its_routes_and_no_other(
    stand: Stand, serving: Serving, home: Settings
) -> None:
    url, tokens = serving(), Tokens(home)
    for number, scope in enumerate(SCOPES):
        headers = {"Authorization": f"Bearer {tokens.add(f'holder{number}', (scope,))}"}
        for route, opened in ROUTES.items():
            method, path = route.split()
            answer = urllib3.request(method, url + path, headers=headers, body=b"", retries=False)
            assert (answer.status == 403) == (scope not in opened), (scope, route, answer.status)


def test_who_takes_the_last_token_back_does_not_open_the_door(
    stand: Stand, serving: Serving, home: Settings
) -> None:
    url, tokens = serving(), Tokens(home)
    assert answered(f"{url}/views/per_user/ann")[0] == 200
    tokens.add("ann", ("read:*",))
    tokens.remove("ann")
    assert answered(f"{url}/views/per_user/ann")[0] == 401


def test_a_follower_in_python_keeps_up_with_many_changes(stand: Stand, serving: Serving) -> None:
    stand.batch(1, {f"user {number}": number for number in range(2000)})
    changes = Client(serving()).view("per_user").changes("1.0")
    begun = time.thread_time()
    assert len({next(changes).place for _ in range(2000)}) == 2000
    assert time.thread_time() - begun < 1  # a query for each row would take milliseconds
