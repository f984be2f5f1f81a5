"""What Connect is told of a capture, what is understood of its answers, and what stays secret."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import riverrun as rr
from riverrun import config
from riverrun.capture import tasks
from riverrun.capture.connectors import Connector
from riverrun.capture.mariadb import type_of
from riverrun.capture.notes import Snapshot, told
from riverrun.capture.places import address_of
from riverrun.capture.rest import Rest
from riverrun.capture.secrets import property_text
from riverrun.embedded import ports
from riverrun.errors import ConfigError, ConnectError, ProgramError

POSTGRES = "postgresql://ann:s%2Fcret@db:6543/shop?sslmode=require"
MARIADB = "mariadb://ann:s%2Fcret@db/shop"


def settings_of(database: str, *tables: str) -> dict[str, str]:
    connector = Connector("shop", address_of(database), tables)
    return connector.settings("${file:there:password}", "kafka:9092")


def test_a_connector_delivers_exactly_once_and_writes_what_the_format_reads():
    made = settings_of(POSTGRES, "public.users", "public.a-b")
    assert made["exactly.once.support"] == "required"
    assert made["table.include.list"] == r"public\.users,public\.a\-b"
    assert (made["decimal.handling.mode"], made["time.precision.mode"]) == ("string", "isostring")
    assert (made["slot.name"], made["publication.name"]) == ("riverrun_shop", "riverrun_shop")
    assert (made["database.hostname"], made["database.port"]) == ("db", "6543")
    assert made["database.sslmode"] == "require"
    assert made["topic.creation.default.cleanup.policy"] == "delete"  # emptying has no key


def test_mariadb_gets_a_number_of_its_own_and_a_topic_for_its_history():
    made = settings_of(MARIADB, "shop.users")
    other = Connector("other", address_of(MARIADB), ("shop.users",)).settings("", "kafka:9092")
    assert made["connector.class"].endswith("MariaDbConnector")
    assert made["schema.history.internal.kafka.topic"] == "shop.schema-history"
    assert 0 < int(made["database.server.id"]) < 2**32
    assert made["database.server.id"] != other["database.server.id"]


@pytest.mark.parametrize("database", [POSTGRES, MARIADB])
def test_a_password_is_neither_shown_nor_sent(database):
    address = address_of(database)
    assert address.password == "s/cret"
    assert "s/cret" not in f"{address} {address!r} {settings_of(database, 'shop.users')}"


def test_an_address_that_cannot_be_read_is_told_without_its_password():
    with pytest.raises(ConfigError, match="mariadb://user:password@host:3306/database") as caught:
        address_of("mariadb://ann:secret@/shop")
    assert "secret" not in str(caught.value)


def test_the_kind_of_capture_follows_from_the_address_the_program_or_the_settings(monkeypatch):
    def by(**options) -> str:
        app = rr.App("copy")
        app.capture("users", schema="id bigint", key="id", **options)
        [found] = app.captures
        return f"{found.by} {found.topic}"

    assert by(database=POSTGRES) == "riverrun shop.public.users"
    assert by(database=POSTGRES, by="connect", name="two") == "connect two.public.users"
    assert by(database=MARIADB) == "connect shop.shop.users"
    monkeypatch.setenv("RIVERRUN_CAPTURE", "connect")
    assert by(database=POSTGRES) == "connect shop.public.users"
    with pytest.raises(ProgramError, match="riverrun itself captures PostgreSQL only"):
        by(database=MARIADB, by="riverrun")
    monkeypatch.setenv("RIVERRUN_CAPTURE", "kafka")
    with pytest.raises(ConfigError, match="who is to capture"):
        config.load()


def note(kind: str, table: str | None = None, *, first: bool = False, **more: object) -> dict:
    name = {"IN_PROGRESS": "current_collection_in_progress"}.get(kind, "scanned_collection")
    data = {**({name: table} if table else {}), **more}
    kinds = "Initial Snapshot" if first else "Incremental Snapshot"
    return {"type": kind, "aggregate_type": kinds, "additional_data": data}


def test_tables_of_the_first_snapshot_are_complete_together_and_a_repeated_one_begins_anew():
    scanned = {"total_rows_scanned": "5", "status": "SUCCEEDED"}
    notes = [
        note("STARTED", first=True),
        note("IN_PROGRESS", "public.a", first=True),
        note("TABLE_SCAN_COMPLETED", "public.a", first=True, **scanned),
        note("IN_PROGRESS", "public.b", first=True),
    ]
    assert told(notes) == {"public.a": Snapshot(False, 5, 5), "public.b": Snapshot()}
    assert told([*notes, note("STARTED", first=True)]) == {}
    rest = [
        note("TABLE_SCAN_COMPLETED", "public.b", first=True, status="EMPTY"),
        note("COMPLETED", first=True),
    ]
    assert told([*notes, *rest]) == {
        "public.a": Snapshot(True, 5, 5),
        "public.b": Snapshot(True, 0, 0),
    }


def test_a_further_snapshot_is_counted_in_pieces_and_leaves_the_table_complete():
    whole = {"total_rows_scanned": "20000", "status": "SUCCEEDED"}
    piece = note("IN_PROGRESS", "public.a", chunk_index="2", total_rows="20000")
    first = [note("STARTED"), piece]
    assert told(first) == {"public.a": Snapshot(False, 16384, 20000)}
    done = [*first, note("TABLE_SCAN_COMPLETED", "public.a", **whole), note("COMPLETED")]
    assert told(done) == {"public.a": Snapshot(True, 20000, 20000)}
    assert told([*done, piece])["public.a"].complete
    lost = note("TABLE_SCAN_COMPLETED", "public.a", status="SQL_EXCEPTION")
    assert told([*first, lost])["public.a"].error == "the snapshot has ended: sql_exception"


def test_what_a_connector_is_at_and_why_it_failed_is_told_in_words():
    def status(state: str, *tasks: dict) -> dict:
        return {"connector": {"state": state}, "tasks": list(tasks)}

    assert tasks.told(status("RUNNING", {"state": "RUNNING"})) == ("streaming", None)
    assert tasks.told(status("RUNNING")) == ("starting", None)
    assert tasks.told(status("PAUSED", {"state": "PAUSED"})) == ("paused", None)
    assert tasks.told(status("STOPPED")) == ("stopped", None)
    trace = (
        "org.apache.kafka.connect.errors.ConnectException: the producer has stopped\n"
        "\tat io.debezium.Some.method(Some.java:1)\n"
        "Caused by: io.debezium.DebeziumException: in between\n\tat more\n"
        "Caused by: org.postgresql.util.PSQLException: FATAL: no such slot\n\t... 5 more\n"
    )
    failed = status("RUNNING", {"state": "FAILED", "trace": trace})
    assert tasks.told(failed) == ("failed", "the producer has stopped; FATAL: no such slot")


def test_a_value_in_a_file_of_properties_is_read_as_it_is():
    assert property_text(" a=\\é€😀") == r"\u0020\u0061\u003d\u005c\u00e9\u20ac\ud83d\ude00"


@pytest.mark.parametrize(
    ("described", "type"),
    [
        (("tinyint", "tinyint(1)", 3, 0), "smallint"),
        (("int", "int(10) unsigned", 10, 0), "bigint"),
        (("decimal", "decimal(12,4)", 12, 4), "decimal(12,4)"),
        (("bit", "bit(1)", 1, None), "boolean"),
        (("bit", "bit(8)", 8, None), "string"),
        (("datetime", "datetime(6)", None, None), "timestamp"),
        (("enum", "enum('a','b')", None, None), "string"),
    ],
)
def test_columns_of_mariadb_have_the_types_that_records_hold(described, type):
    assert type_of(*described) == type


class Answers(BaseHTTPRequestHandler):
    """Busy twice, which it says with two codes, then refuses."""

    asked: list[str | None] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers["Authorization"])
        code = {1: 409, 2: 500, 3: 404}.get(len(self.asked), 400)
        message = "Connector\n configuration is invalid"
        if code == 500:
            message = "Request cannot be completed because a rebalance is expected"
        body = json.dumps({"error_code": code, "message": message})
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def busy() -> Iterator[int]:
    Answers.asked.clear()
    with HTTPServer((ports.LOOPBACK, 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_busy_connect_is_asked_again_and_its_refusal_is_told_without_the_password(busy):
    rest = Rest(f"http://ann:secret@127.0.0.1:{busy}")
    assert rest.get("connectors", "a/b") is None
    with pytest.raises(ConnectError, match="HTTP 400: Connector configuration is inv") as caught:
        rest.get("connectors", "a/b")
    assert "secret" not in str(caught.value)
    assert f"127.0.0.1:{busy}/connectors/a%2Fb" in str(caught.value.where)
    assert Answers.asked == ["Basic YW5uOnNlY3JldA=="] * 4


def test_a_connect_that_is_away_is_one_clear_error():
    with pytest.raises(ConnectError, match="does not answer") as caught:
        Rest(f"http://127.0.0.1:{ports.any_free()}").get("connectors")
    assert "riverrun up --connect" in str(caught.value.hint)
    with pytest.raises(ConfigError, match="address of Kafka Connect"):
        Rest("kafka:8083")
