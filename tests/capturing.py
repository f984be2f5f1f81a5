"""A database that is captured, and what its topics say of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from riverrun.capture.capturer import CaptureState
from riverrun.capture.own import OwnCapturer
from riverrun.kafka.browse import Browser

PATIENCE = 60.0


@dataclass
class Source:
    """A schema of its own in a database, and its capture."""

    url: str
    schema: str
    client: dict[str, str]
    capture: OwnCapturer
    connection: psycopg.Connection[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.connection = psycopg.connect(self.url, autocommit=True)

    def execute(self, query: str, *parameters: Any) -> list[Any]:
        cursor = self.connection.execute(query.replace("@", f"{self.schema}."), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def ensure(self, *tables: str) -> None:
        self.capture.ensure([f"{self.schema}.{table}" for table in tables])

    def loaded(self) -> CaptureState:
        return self.until(lambda state: bool(state.tables) and all(t.loaded for t in state.tables))

    def until(self, done: Callable[[CaptureState], bool]) -> CaptureState:
        give_up = time.monotonic() + PATIENCE
        while not done(state := self.capture.state()):
            log = self.capture.files.last_lines(30)
            assert time.monotonic() < give_up, f"{state} {log}"
            time.sleep(0.05)
        return state

    def topic(self, table: str) -> str:
        return f"{self.capture.name}.{self.schema}.{table}"

    def records(self, topic: str) -> list[tuple[int, str | None, dict[str, Any] | None]]:
        """Partition, key and value of all committed records."""
        with Browser(self.client, topic) as browser:
            found = sorted(
                browser.read(browser.earliest), key=lambda m: (m.partition(), m.offset())
            )
        return [
            (
                m.partition(),
                None if m.key() is None else m.key().decode(),
                None if m.value() is None else json.loads(m.value()),
            )
            for m in found
        ]

    def table(self, table: str) -> dict[str, dict[str, Any]]:
        """The rows that a topic has, by key: what large values stayed is filled in."""
        rows: dict[tuple[int, str], dict[str, Any]] = {}
        for partition, key, value in self.records(self.topic(table)):
            if value is not None and value["op"] == "t":
                rows = {place: row for place, row in rows.items() if place[0] != partition}
                continue
            assert key is not None
            if value is None or value["op"] == "d":
                rows.pop((partition, key), None)
                continue
            before = rows.get((partition, key), {})
            rows[partition, key] = {
                name: before[name] if _left_out(cell) else cell
                for name, cell in value["after"].items()
            }
        return {key: row for (_, key), row in rows.items()}

    def rows(self, table: str) -> dict[str, dict[str, Any]]:
        """The rows that the database has, in the same form, made by the database itself."""
        columns = self.execute(
            "SELECT attname, format_type(atttypid, null) FROM pg_attribute WHERE attnum > 0 AND "
            f"NOT attisdropped AND attrelid = '@{table}'::regclass ORDER BY attnum"
        )
        made = ", ".join(f"'{name}', {_as_json(name, type)}" for name, type in columns)
        key = self.execute(
            "SELECT attname FROM pg_index i JOIN pg_attribute a ON attrelid = indrelid AND attnum "
            f"= ANY(indkey) WHERE indisprimary AND indrelid = '@{table}'::regclass ORDER BY attnum"
        )
        found = self.execute(f"SELECT json_build_object({made}) FROM @{table}")
        names = [name for (name,) in key]
        return {
            json.dumps({name: row[name] for name in names}, separators=(",", ":")): row
            for (row,) in found
        }

    def settle(self, table: str) -> None:
        """Waits until the topic has what the table has."""
        give_up = time.monotonic() + PATIENCE
        while (found := self.table(table)) != (wanted := self.rows(table)):
            assert time.monotonic() < give_up, _differences(found, wanted, self)
            time.sleep(0.3)


def _left_out(cell: Any) -> bool:
    return cell in ("__debezium_unavailable_value", ["__debezium_unavailable_value"])


def _as_json(name: str, type: str) -> str:
    """An expression for a value as envelopes have it."""
    if type == "bytea":
        return f"encode({name}, 'base64')"
    if type.startswith("timestamp"):
        utc = f"{name} AT TIME ZONE 'UTC'" if "with time zone" in type else name
        text = f"""to_char({utc}, 'YYYY-MM-DD"T"HH24:MI:SS.US')"""
        return f"rtrim(rtrim({text}, '0'), '.') || 'Z'"
    if type in ("numeric", "json", "jsonb", "interval", "uuid"):
        return f"{name}::text"
    return name


def _differences(found: dict[str, Any], wanted: dict[str, Any], source: Source) -> str:
    keys = [key for key in found | wanted if found.get(key) != wanted.get(key)]
    shown = [(key, found.get(key), wanted.get(key)) for key in keys[:5]]
    return f"{len(keys)} rows differ: {shown} {source.capture.state()}"
