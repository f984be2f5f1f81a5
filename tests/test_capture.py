"""Tables of PostgreSQL as topics: a snapshot, then every change, whatever happens in between."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from capturing import Source
from riverrun.capture.own import OwnCapturer
from riverrun.config import Settings
from riverrun.embedded import postgres as embedded
from running import Run

USERS = "id bigint PRIMARY KEY, name text, price numeric(9,2), at timestamptz, bio text"


@pytest.fixture
def source(
    broker: dict[str, str],
    broker_settings: Settings,
    postgres_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Source]:
    url, name = embedded.ensure(postgres_settings), f"cap{time.time_ns()}"
    monkeypatch.setenv("RIVERRUN_POSTGRES", url)
    settings = replace(broker_settings, postgres=url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    found = Source(url, name, broker, OwnCapturer(settings, name))
    yield found
    found.connection.close()
    if found.capture.files.wish():
        found.capture.remove()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE")


PROGRAM = """
import riverrun as rr
app = rr.App({name!r}, pages=2)
app.capture({table!r}, name={name!r}).to(rr.sinks.sqlite({file!r}, "users"))
"""


@pytest.mark.broker
@pytest.mark.spark
def test_a_captured_table_is_kept_in_another_database_by_one_line(
    source, broker_settings, tmp_path
):
    source.execute(f"CREATE TABLE @users ({USERS})")
    source.execute(
        "INSERT INTO @users SELECT n, 'user ' || n, n / 8.0, '2026-01-01', repeat('x', 3000) "
        "FROM generate_series(1, 500) AS n"
    )
    program, file = tmp_path / "captured.py", tmp_path / "copy.db"
    program.write_text(
        PROGRAM.format(name=source.schema, table=f"{source.schema}.users", file=str(file))
    )

    def stored() -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(file)) as own:
            return own.execute("SELECT id, name, price, bio FROM users ORDER BY id").fetchall()

    def wanted() -> list[tuple[object, ...]]:
        query = "SELECT id, name, price::text, bio FROM @users ORDER BY id"
        return [tuple(row) for row in source.execute(query)]

    with Run(program, home=broker_settings.home) as run:
        run.until(500)
        assert len(stored()) == 500
        source.execute("UPDATE @users SET name = upper(name) WHERE id % 3 = 0")
        source.execute("DELETE FROM @users WHERE id % 5 = 0")
        source.execute("UPDATE @users SET id = id + 1000 WHERE id < 10")
        source.execute("INSERT INTO @users VALUES (0, 'new', 1, now(), 'short')")
        give_up = time.monotonic() + 60
        while [(a, b, str(c), d) for a, b, c, d in stored()] != wanted():
            assert time.monotonic() < give_up, run.error()
            time.sleep(0.2)
