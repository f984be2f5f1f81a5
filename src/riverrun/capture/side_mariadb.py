"""MariaDB's and MySQL's side of a capture by Debezium: the binary log, and the table of signals."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from riverrun.capture.connectors import Connector
from riverrun.capture.mariadb import MariaDb
from riverrun.capture.sides import Behind, Described, Side, seconds_since, wish_for
from riverrun.errors import DatabaseError


class MariaSide(Side):
    def __init__(self, database: str) -> None:
        self.server = MariaDb(database)

    def close(self) -> None:
        self.server.close()

    def described(self, tables: Sequence[str]) -> list[Described]:
        self.server.check()
        found = [self.server.table(table) for table in tables]
        return [Described(each.name, each.rows) for each in found]

    def prepare(self, connector: Connector) -> None:
        """Its log has the changes of all tables: only that of signals has to be there."""
        columns = "(id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data text)"
        self.server.ask(f"CREATE TABLE IF NOT EXISTS {_quoted(connector.signals)} {columns}")

    def ask_snapshot(self, connector: Connector, tables: Sequence[str]) -> None:
        query = f"INSERT INTO {_quoted(connector.signals)} VALUES (%s, 'execute-snapshot', %s)"
        self.server.ask(query, str(uuid.uuid4()), json.dumps(wish_for(tables)))

    def behind(self, connector: Connector, offset: Mapping[str, Any]) -> Behind:
        file, place = offset.get("file"), offset.get("pos")
        if file is None or place is None:
            return Behind()
        with suppress(DatabaseError):  # this user may not see them
            logs = {str(name): int(size) for name, size, *_ in self.server.ask("SHOW BINARY LOGS")}
            waiting = sum(size for name, size in logs.items() if name > file)
            waiting += max(logs.get(file, 0) - int(place), 0)
            lost = "the server has deleted log that was still to be read"
            seconds, warning = _seconds(waiting, offset), None if file in logs else lost
            return Behind(f"{file}:{place}", waiting, seconds, warning)
        return Behind(f"{file}:{place}")

    def drop(self, connector: Connector) -> None:
        """The server keeps no log for those who read it."""
        self.server.ask(f"DROP TABLE IF EXISTS {_quoted(connector.signals)}")


def _seconds(waiting: int, offset: Mapping[str, Any]) -> float | None:
    """Since the last change that was read, if there are others: at most."""
    if not waiting:
        return 0.0
    at = offset.get("ts_sec")
    return None if at is None else seconds_since(float(at) * 1e6, time.time())


def _quoted(table: str) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in table.split(".", 1))
