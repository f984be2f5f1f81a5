"""Keys in PostgreSQL: one table for all applications, for workers on several machines."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection

import psycopg

from riverrun.errors import DatabaseError
from riverrun.forgetting.cipher import KEY
from riverrun.forgetting.store import Found, KeyStore

SECONDS = 10
TABLES = """
    CREATE TABLE IF NOT EXISTS riverrun_key_stores (
        application text PRIMARY KEY, secret bytea NOT NULL, destroyed bigint NOT NULL DEFAULT 0
    );
    CREATE TABLE IF NOT EXISTS riverrun_keys (
        application text, subject bytea, key bytea, destroyed_at timestamptz,
        PRIMARY KEY (application, subject)
    )
"""


class PostgresStore(KeyStore):
    def __init__(self, address: str, application: str) -> None:
        self.address, self.application = address, application
        self.held: tuple[int, psycopg.Connection] | None = None

    @property
    def _connection(self) -> psycopg.Connection:
        held = self.held
        if held is None or held[0] != os.getpid() or held[1].closed:
            self.held = held = os.getpid(), self._opened()
        return held[1]

    def _opened(self) -> psycopg.Connection:
        try:
            found = psycopg.connect(self.address, autocommit=True, connect_timeout=SECONDS)
        except psycopg.Error as error:
            raise DatabaseError(
                "the store of keys cannot be reached", got=str(error).strip().splitlines()[0]
            ) from error
        with found.transaction():
            found.execute("SELECT pg_advisory_xact_lock(hashtext('riverrun_keys'))")
            found.execute(TABLES)
            found.execute(
                "INSERT INTO riverrun_key_stores VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (self.application, secrets.token_bytes(KEY)),
            )
        return found

    def close(self) -> None:
        if self.held is not None and self.held[0] == os.getpid():
            self.held[1].close()
        self.held = None

    def secret(self) -> bytes:
        query = "SELECT secret FROM riverrun_key_stores WHERE application = %s"
        [[found]] = self._connection.execute(query, [self.application]).fetchall()
        return bytes(found)

    def find(self, subjects: Collection[bytes]) -> Found:
        query = (
            "SELECT subject, key FROM riverrun_keys WHERE application = %s AND subject = ANY(%s)"
        )
        rows = self._connection.execute(query, [self.application, list(subjects)]).fetchall()
        return {bytes(subject): key and bytes(key) for subject, key in rows}

    def make(self, subjects: Collection[bytes]) -> Found:
        # in one order, so that two that make the same keys do not wait for each other
        rows = [(self.application, each, secrets.token_bytes(KEY)) for each in sorted(subjects)]
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO riverrun_keys (application, subject, key) VALUES (%s, %s, %s) "
                "ON CONFLICT DO NOTHING",
                rows,
            )
        return self.find(subjects)

    def destroy(self, subject: bytes) -> None:
        connection = self._connection
        with connection.transaction():
            connection.execute(
                "INSERT INTO riverrun_keys VALUES (%s, %s, NULL, now()) "
                "ON CONFLICT (application, subject) DO UPDATE SET key = NULL, "
                "destroyed_at = coalesce(riverrun_keys.destroyed_at, now())",
                [self.application, subject],
            )
            connection.execute(
                "UPDATE riverrun_key_stores SET destroyed = (SELECT count(*) FROM riverrun_keys "
                "WHERE application = %s AND key IS NULL) WHERE application = %s",
                [self.application, self.application],
            )
        # the row as it was stays in the table's file until that is written anew
        connection.execute("VACUUM FULL riverrun_keys")

    def destroyed(self) -> int:
        query = "SELECT destroyed FROM riverrun_key_stores WHERE application = %s"
        [[found]] = self._connection.execute(query, [self.application]).fetchall()
        return int(found)
