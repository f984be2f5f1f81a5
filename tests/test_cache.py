"""A cache in a real Valkey: what is in it, who may write, and what happens when the server dies."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing

import pytest

import riverrun as rr
from derived import Writer
from riverrun.cache import Cache
from riverrun.errors import AlreadyRunning, ConfigError, DatabaseError, InputError, ProgramError
from riverrun.outputs import Places
from riverrun.sinks.valkey import server as servers
from riverrun.testing.contracts.sinks import EMPTY, FULL, NOTHING, TYPES
from valkeys import LASTING, Server

USERS = "id bigint, name string, at timestamp"
ANN = {"id": 1, "name": "ann", "at": "2026-01-01T12:00:00"}


@pytest.fixture
def client(valkey, valkey_server):
    with valkey_server.client() as own:
        yield own


def users(url, **options):
    return rr.sinks.cache("users", url=url, **options)


def keys(client):
    return {key for key in client.scan_iter() if not key.startswith("riverrun:")}


def test_each_row_is_json_under_its_name_and_key_and_goes_when_it_is_deleted(valkey, client):
    writer = Writer(users(valkey), USERS).begin()
    writer.write(0, (1, ANN), (1, {"id": 2, "name": "bob"}))
    assert json.loads(client.get("users:1")) == {**ANN, "at": "2026-01-01T12:00:00Z"}
    writer.write(1, (-1, ANN), (1, {**ANN, "name": "Ann"}), (-1, {"id": 2, "name": "bob"}))
    assert keys(client) == {"users:1"}
    assert json.loads(client.get("users:1"))["name"] == "Ann"


def test_a_row_can_be_a_hash_whose_fields_are_its_columns(valkey, client):
    writer = Writer(users(valkey, values="hash"), USERS).begin()
    writer.put(0, ANN)
    writer.put(1, {"id": 1, "name": None, "at": "2026-01-01T13:00:00"})
    assert client.hgetall("users:1") == {"id": "1", "at": "2026-01-01T13:00:00Z"}


@pytest.mark.parametrize("values", ["json", "hash"])
def test_values_of_every_type_come_back_as_they_were(valkey, values):
    sink = rr.sinks.cache("types", url=valkey, values=values)
    numbers = [{**row, "k": n} for n, row in enumerate((FULL, EMPTY, NOTHING))]
    numbers[0]["d"] = "NaN"
    Writer(sink, f"{TYPES}, k bigint", ("k",)).begin().put(0, *numbers)
    found = [Cache("types").get(n) for n in range(3)]
    assert str(found[0].pop("d")) == "nan"
    assert found == [{k: v for k, v in numbers[0].items() if k != "d"}, *numbers[1:]]


def test_a_row_is_found_by_a_list_as_python_has_it_or_json(valkey, client):
    sink = rr.sinks.cache("tagged", url=valkey)
    rows = [{"tags": tags, "n": n} for n, tags in enumerate((["a", None], [], ["ü", "a"]))]
    Writer(sink, "tags string[], n bigint", ("tags",)).begin().put(0, *rows)
    cache = Cache("tagged")
    assert [cache.get(row["tags"]) for row in rows] == rows
    assert cache.get('["\\u00fc", "a"]') == rows[2]
    assert cache.get(["a", "ü"]) is None
    with pytest.raises(InputError, match="not of its columns' types"):
        cache.get("a")


def test_keys_of_several_columns_and_of_nulls_are_told_apart(valkey, client):
    sink = rr.sinks.cache("pairs", url=valkey)
    rows = [{"a": "x", "b": 1}, {"a": "x", "b": None}, {"a": None, "b": 1}]
    Writer(sink, "a string, b bigint", ("a", "b")).begin().put(0, *rows)
    cache = Cache("pairs")
    assert sorted(cache.rows(), key=repr) == sorted(rows, key=repr)
    assert cache.many([("x", 1), ("x", 2), (None, 1)]) == [rows[0], None, rows[2]]
    assert 'pairs:{"a":"x","b":1}' in keys(client)
    with pytest.raises(InputError, match=r"the key of a row is \(a, b\)"):
        cache.get("x")


def test_a_row_expires_after_it_was_last_written(valkey, client):
    writer = Writer(users(valkey, expire="1 hour"), USERS).begin()
    writer.put(0, ANN)
    assert 3_590_000 < client.pttl("users:1") <= 3_600_000
    client.pexpire("users:1", 1000)
    writer.put(1, {**ANN, "name": "Ann"})
    assert client.pttl("users:1") > 3_590_000
    short = Writer(rr.sinks.cache("short", url=valkey, values="hash", expire="50 ms"), USERS)
    short.begin().put(0, ANN)
    time.sleep(0.1)
    assert Cache("short").get(1) is None
    assert list(Cache("short").rows()) == []


def test_rows_of_a_stream_are_entries_of_a_stream_in_their_order(valkey, client):
    writer = Writer(rr.sinks.cache("log", url=valkey), "n bigint", ()).begin()
    writer.put(0, *({"n": n} for n in range(1500)))
    writer.put(0, *({"n": n} for n in range(1500)))
    assert client.xlen("log") == 1500
    assert [row["n"] for row in Cache("log").rows()] == list(range(1500))


def test_a_run_that_is_taken_over_between_its_look_and_its_write_writes_nothing(
    valkey, client, monkeypatch
):
    """The transaction is watched: it is tried again, and sees the later run."""
    early, late = Writer(users(valkey), USERS).begin(), Writer(users(valkey), USERS, run=2)
    seen = []

    def slow(pipe, load):
        seen.append(1)
        late.begin()

    monkeypatch.setattr("riverrun.sinks.valkey.delivery._write", slow)
    with pytest.raises(AlreadyRunning):
        early.put(0, ANN)
    assert (len(seen), keys(client)) == (1, set())


def test_a_server_that_is_killed_and_comes_back_has_every_row_and_takes_the_rest(tmp_path):
    server = Server(tmp_path, *LASTING).start()
    try:
        writer = Writer(users(server.url), USERS).begin()
        writer.put(0, ANN)
        server.kill()
        timer = threading.Timer(1.0, server.start)
        timer.start()
        writer.put(1, {"id": 2, "name": "bob"})  # waits for it
        timer.join()
        writer.put(1, {"id": 2, "name": "bob"})
        server.kill()
        server.start()
        with closing(Cache("users", url=server.url)) as cache:
            assert {row["id"] for row in cache.rows()} == {1, 2}
    finally:
        server.kill()


def test_a_server_that_forgets_is_noticed_and_stays_refused(tmp_path):
    """Going on would leave a hole: rows of earlier batches would never come again."""
    server = Server(tmp_path).start()
    try:
        writer = Writer(users(server.url), USERS).begin()
        writer.put(0, ANN)
        server.kill()
        server.start()
        with pytest.raises(DatabaseError, match="has lost what was written to it"):
            writer.put(1, {"id": 2, "name": "bob"})
        again = Writer(users(server.url), USERS, run=2).begin()
        with pytest.raises(DatabaseError, match="it had batch 0, and has none"):
            again.put(1, {"id": 2, "name": "bob"})
        fresh = Writer(users(server.url), USERS, run=3, checkpoint="c2").begin()
        fresh.put(0, ANN)
    finally:
        server.kill()


def test_a_server_that_throws_keys_away_or_is_out_of_memory_is_told(valkey, client):
    try:
        client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(ConfigError, match="throws away any key") as caught:
            Writer(users(valkey), USERS).begin()
        assert "noeviction" in caught.value.hint
        client.config_set("maxmemory-policy", "noeviction")
        writer = Writer(users(valkey), USERS).begin()
        client.config_set("maxmemory", "1")
        with pytest.raises(DatabaseError, match="used memory"):
            writer.put(0, ANN)
    finally:
        client.config_set("maxmemory", "0")
        client.config_set("maxmemory-policy", "noeviction")
    writer.put(0, ANN)
    assert Cache("users").get(1)["name"] == "ann"


def test_a_cache_of_other_columns_is_an_error_before_anything_is_written(valkey):
    Writer(users(valkey), USERS).begin().put(0, ANN)
    with pytest.raises(DatabaseError, match="was made for other rows") as caught:
        Writer(users(valkey, values="hash"), "id bigint, name bigint", run=2).begin()
    facts = "name is VARCHAR, not BIGINT; at is TIMESTAMP, not written; rows are kept as json, not"
    assert caught.value.got.startswith(facts)


def test_a_key_that_is_no_stream_is_not_written_to(valkey, client):
    client.set("log", "mine")
    with pytest.raises(DatabaseError, match="taken by something that is no stream"):
        Writer(rr.sinks.cache("log", url=valkey), "n bigint", ()).begin()


def test_what_cannot_be_reached_or_is_not_there_is_told_without_the_password(valkey, monkeypatch):
    monkeypatch.setattr(servers, "CLIENT", {"socket_connect_timeout": 1})
    with pytest.raises(DatabaseError, match="cannot be reached") as caught:
        Writer(users("redis://:secret@127.0.0.1:1/0"), USERS).begin()
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(users("redis://:secret@127.0.0.1:1/0"))
    with pytest.raises(ConfigError, match="no Valkey or Redis is configured"):
        rr.sinks.cache("users").destination(Places((), "exactly once"))
    with pytest.raises(InputError, match="there is no cache 'nobody'"):
        Cache("nobody")


WRONG = {
    "the name of a cache": lambda: rr.sinks.cache("a:b"),
    "'riverrun' is taken": lambda: rr.sinks.cache("riverrun"),
    "the address of a cache cannot be read": lambda: rr.sinks.cache("a", url="http://x"),
    "a duration cannot be read": lambda: rr.sinks.cache("a", expire="soon"),
    "kept for a millisecond": lambda: rr.sinks.cache("a", expire="10 microseconds"),
    "values is one of json, hash": lambda: rr.sinks.cache("a", values="xml"),
}


@pytest.mark.parametrize("fact", WRONG)
def test_a_wrong_cache_is_an_error_at_its_line(fact):
    with pytest.raises(ProgramError, match=fact) as caught:
        WRONG[fact]()
    assert caught.value.where.file == __file__


def test_expiry_is_for_tables():
    app = rr.App("shop")
    views = app.stream("views", schema="page string")
    with pytest.raises(ProgramError, match="expire=… is for tables"):
        views.to(rr.sinks.cache("views", expire="1 hour"))


@pytest.mark.parametrize("url", ["redis://:secret@h:abc/0", "redis://h:99999/0", "redis://[h/0"])
def test_an_address_that_cannot_be_read_is_an_error_without_the_password(url, monkeypatch):
    with pytest.raises(ProgramError, match="cannot be read") as caught:
        rr.sinks.cache("a", url=url)
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("RIVERRUN_VALKEY", url)
    with pytest.raises(ConfigError, match="cannot be read"):
        Cache("a")


def test_a_server_is_reached_by_its_socket(tmp_path):
    socket = tmp_path / "s"
    server = Server(tmp_path / "server", "--unixsocket", str(socket)).start()
    try:
        Writer(rr.sinks.cache("a", url=f"unix://{socket}"), "id bigint").begin().put(0, {"id": 1})
        assert Cache("a", url=f"unix://{socket}").get(1) == {"id": 1}
    finally:
        server.kill()
