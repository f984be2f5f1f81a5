"""PostgreSQL's side of a capture by Debezium: publication, the table of signals, the slot."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import sql

from riverrun.capture import catalog
from riverrun.capture.connectors import Connector
from riverrun.capture.pgoutput import lsn_text
from riverrun.capture.server import Server
from riverrun.capture.sides import Behind, Described, Side, seconds_since, wish_for
from riverrun.errors import DatabaseError

_SIGNALS = "CREATE TABLE IF NOT EXISTS {} (id text PRIMARY KEY, type text NOT NULL, data text)"
_SECONDS = """
SELECT extract(epoch FROM coalesce(flush_lag, interval '0'))::float
FROM pg_stat_replication r JOIN pg_replication_slots s ON r.pid = s.active_pid
WHERE s.slot_name = %s
"""


_NEXT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_OLDEST = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
PATIENCE = 60.0


class PostgresSide(Side):
    def __init__(self, database: str) -> None:
        self.server = Server(database)

    def close(self) -> None:
        self.server.close()

    def described(self, tables: Sequence[str]) -> list[Described]:
        self.server.check()
        found = self.server.facts(tables).values()
        return [Described(each.full_name, each.rows) for each in found]

    def prepare(self, connector: Connector) -> None:
        """A transaction that began before its table was published may not be in the log: a
        snapshot that comes after it has ended has its rows."""
        self._execute(_SIGNALS, connector.signals)
        self.server.publish(connector.slot, [*connector.tables, connector.signals])
        self._settle()

    def ask_snapshot(self, connector: Connector, tables: Sequence[str]) -> None:
        query = sql.SQL("INSERT INTO {} VALUES (%s, 'execute-snapshot', %s)")
        row = (str(uuid.uuid4()), json.dumps(wish_for(tables)))
        table = catalog.named(connector.signals)
        self.server.connection.execute(query.format(table), row)

    def behind(self, connector: Connector, offset: Mapping[str, Any]) -> Behind:
        slot, lsn = self.server.slot(connector.slot), offset.get("lsn")
        position = lsn_text(int(lsn)) if lsn is not None else None
        if slot is None:
            return Behind(position)
        seconds = self.server.ask(_SECONDS, connector.slot) if slot.active else None
        if seconds is None and slot.behind and "ts_usec" in offset:
            seconds = seconds_since(offset["ts_usec"], time.time())  # at most
        return Behind(position, slot.behind, seconds, slot.warning)

    def drop(self, connector: Connector) -> None:
        self.server.drop_slot(connector.slot)
        self.server.drop_publication(connector.slot)
        self._execute("DROP TABLE IF EXISTS {}", connector.signals)

    def _settle(self) -> None:
        """Waits until every transaction that writes now has ended."""
        until, give_up_at = self._number(_NEXT), time.monotonic() + PATIENCE
        while self._number(_OLDEST) < until:
            if time.monotonic() > give_up_at:
                raise DatabaseError(
                    "a transaction does not end: what it writes might be missed",
                    where=self.server.name,
                    got=f"waited {PATIENCE:.0f} s",
                    hint="see pg_stat_activity, and try again when it is over",
                )
            time.sleep(0.05)

    def _number(self, query: str) -> int:
        return int(self.server.ask(query))

    def _execute(self, query: str, table: str) -> None:
        self.server.connection.execute(sql.SQL(query).format(catalog.named(table)))
