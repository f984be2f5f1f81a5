"""What a capture asks of its database beside the log: publication, slot, and values of rows."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from riverrun.capture import catalog
from riverrun.capture.address import connected, shown
from riverrun.capture.catalog import Kinds, TableFacts
from riverrun.capture.pgoutput import UNCHANGED, Cells
from riverrun.capture.seen import Seen
from riverrun.errors import DatabaseError
from riverrun.schema import quoted

OLDEST = 140000
PATIENCE = 15.0
WORRYING = 1 << 30
"""Bytes of log that a server keeps for a slot without a limit, before that is worth a warning."""


@dataclass(frozen=True)
class SlotFacts:
    """What the server keeps for a slot."""

    active: bool
    wal_status: str | None
    """`lost` if the server has deleted log that was still to be read."""
    behind: int
    """Bytes of log that are not acknowledged."""
    kept: int
    """Bytes of log that the server may not delete."""
    room: int | None
    """Bytes that may still be written before the server gives the slot up; None without limit."""

    @property
    def warning(self) -> str | None:
        if self.wal_status == "lost":
            return "the server has deleted log that was still to be read: the slot is lost"
        if self.room is not None and self.room < max(self.kept, 64 << 20):
            return (
                f"the server gives the slot up after another {_size(max(self.room, 0))} of log "
                "(max_slot_wal_keep_size)"
            )
        if self.room is None and self.kept > WORRYING:
            return (
                f"the server keeps {_size(self.kept)} of its log for the slot, without a limit: "
                "its disk may fill up (max_slot_wal_keep_size)"
            )
        return None


def _text(table: str) -> str:
    return ".".join(map(quoted, table.split(".", 1)))


def _size(count: int) -> str:
    return f"{count / (1 << 20):,.0f} MB"


_SLOT = """
SELECT active, wal_status, coalesce(pg_wal_lsn_diff(now, confirmed_flush_lsn), 0)::bigint,
       coalesce(pg_wal_lsn_diff(now, restart_lsn), 0)::bigint, safe_wal_size
FROM pg_replication_slots, (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                   ELSE pg_current_wal_lsn() END AS now)
WHERE slot_name = %s
"""


class Server:
    """The database that is captured, by an ordinary connection."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.connection = connected(database)
        self.kinds = Kinds(self.connection)

    def close(self) -> None:
        self.connection.close()

    @property
    def name(self) -> str:
        return str(self.connection.info.dbname)

    def ask(self, query: str, *parameters: Any) -> Any:
        """The first value of an answer."""
        found = self.connection.execute(query, parameters).fetchone()
        return None if found is None else found[0]

    def check(self) -> None:
        if self.connection.info.server_version < OLDEST:
            raise DatabaseError(
                "the database is too old to be captured",
                where=shown(self.database),
                got=f"PostgreSQL {self.connection.info.server_version // 10000}",
                hint="PostgreSQL 14 or later is needed",
            )
        level = self.ask("SHOW wal_level")
        if level != "logical":
            raise DatabaseError(
                "the database does not log what is needed to follow its changes",
                where=shown(self.database),
                got=f"wal_level is {level}",
                hint="ALTER SYSTEM SET wal_level = logical, and restart the server",
            )

    def system(self) -> str:
        return str(self.ask("SELECT system_identifier::text FROM pg_control_system()"))

    def slot(self, slot: str) -> SlotFacts | None:
        found = self.connection.execute(_SLOT, (slot,)).fetchone()
        return SlotFacts(*found) if found else None

    def take_over(self, slot: str) -> None:
        """Whoever reads the log of the slot is sent away: it was started before."""
        query = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
        give_up = time.monotonic() + PATIENCE
        while (facts := self.slot(slot)) and facts.active and time.monotonic() < give_up:
            with suppress(psycopg.errors.InsufficientPrivilege):  # another user's: it may end
                self.connection.execute(f"{query} WHERE slot_name = %s AND active", (slot,))
            time.sleep(0.05)

    def drop_slot(self, slot: str) -> None:
        """A slot is in use until its last reader's connection has ended."""
        self.take_over(slot)
        give_up = time.monotonic() + PATIENCE
        while self.slot(slot) is not None:
            try:
                self.connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)
            except psycopg.errors.UndefinedObject:
                return

    def drop_publication(self, name: str) -> None:
        query = sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name))
        self.connection.execute(query)

    def published(self, publication: str) -> set[str]:
        query = "SELECT schemaname || '.' || tablename FROM pg_publication_tables"
        found = self.connection.execute(f"{query} WHERE pubname = %s", (publication,))
        return {table for (table,) in found}

    def publish(self, publication: str, tables: Collection[str]) -> None:
        """The publication is there, and has these tables too."""
        there = self.ask("SELECT 1 FROM pg_publication WHERE pubname = %s", publication)
        missing = sorted(set(tables) - self.published(publication)) if there else sorted(tables)
        if not missing:
            return
        listed = sql.SQL(", ").join(map(catalog.named, missing))
        if there:
            query = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}")
        else:
            query = sql.SQL(
                "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
            )
        try:
            self.connection.execute(query.format(sql.Identifier(publication), listed))
        except psycopg.errors.InsufficientPrivilege as error:
            made = query.format(sql.Identifier(publication), listed).as_string(self.connection)
            raise DatabaseError(
                "the user of the capture may not publish the tables",
                where=shown(self.database),
                got=str(error).strip().splitlines()[0],
                hint=f"let the owner of the tables run: {made}",
            ) from error

    def oids(self, tables: Iterable[str]) -> dict[str, int]:
        """The object ids of those tables that are there."""
        query = "SELECT to_regclass(%s)::oid::bigint"
        found = {table: self.ask(query, _text(table)) for table in tables}
        return {table: oid for table, oid in found.items() if oid is not None}

    def facts(self, tables: Iterable[str]) -> dict[str, TableFacts]:
        return {table: catalog.facts(self.connection, table) for table in tables}

    def fetched(
        self, table: str, columns: list[str], key: dict[str, str], cells: Cells, *, xid: int
    ) -> Cells:
        """A row with the values that it has now where the log left them out.

        If it is not there any more, a later change says so, and null will do. The transaction is
        waited for: what is in the log may not be seen yet.
        """
        missing = [name for name, cell in zip(columns, cells, strict=True) if cell is UNCHANGED]
        query = _query_of(table, missing, key)
        values: list[Any] = [None] * len(missing)
        with suppress(psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable):
            seen, *values = self._one(query)
            while not Seen.of(seen).has(xid):
                time.sleep(0.002)
                seen, *values = self._one(query)
        now = dict(zip(missing, values, strict=True))
        return tuple(
            now[name] if cell is UNCHANGED else cell
            for name, cell in zip(columns, cells, strict=True)
        )

    def await_seen(self, xid: int) -> None:
        """Until what a transaction of the log has done is visible to all."""
        while not Seen.of(self.ask("SELECT pg_current_snapshot()::text")).has(xid):
            time.sleep(0.002)

    def _one(self, query: sql.Composed) -> tuple[Any, ...]:
        found = self.connection.execute(query).fetchone()
        assert found is not None
        return tuple(found)


def _query_of(table: str, columns: list[str], key: dict[str, str]) -> sql.Composed:
    """What the snapshot has seen, and some values of a row, null if it is not there."""
    picked = sql.SQL(", ").join(
        sql.SQL("{}::text").format(sql.Identifier(name)) for name in columns
    )
    where = sql.SQL(" AND ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Literal(value))
        for name, value in key.items()
    )
    return sql.SQL(
        "SELECT seen, found.* FROM (SELECT pg_current_snapshot()::text AS seen) AS s "
        "LEFT JOIN (SELECT {} FROM {} WHERE {}) AS found ON true"
    ).format(picked, catalog.named(table), where)
