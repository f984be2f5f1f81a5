"""PostgreSQL's log as it is sent: read message by message, and acknowledged."""

from __future__ import annotations

import select
import struct
import time
from typing import Any, NamedTuple

import psycopg
from psycopg import pq

from riverrun.capture.address import Unreachable, connected
from riverrun.capture.pgoutput import EPOCH, lsn_of, lsn_text
from riverrun.errors import DatabaseError

STATUS_EVERY = 1.0
IN_USE = b"55006"
_DATA = struct.Struct("!qqq")
_KEEPALIVE = struct.Struct("!qqB")
_STATUS = struct.Struct("!cqqqqB")


class Exported(NamedTuple):
    """A slot that was just made: the log from `lsn` on, and a snapshot of what was before."""

    lsn: int
    snapshot: str


class Logged(NamedTuple):
    lsn: int
    data: bytes


class Wire:
    """A replication connection."""

    def __init__(self, database: str) -> None:
        self.connection: psycopg.Connection[Any] = connected(database, replication=True)
        self.pg = self.connection.pgconn
        self.server_end = 0
        """How far the server has read its log: all before was sent."""
        self.acknowledged = 0
        self.told_at = 0.0
        self.asked = False

    def close(self) -> None:
        self.connection.close()

    def create_slot(self, slot: str) -> Exported:
        """Waits until transactions that run have ended. The snapshot lasts as long as the
        connection does nothing else."""
        command = f"CREATE_REPLICATION_SLOT \"{slot}\" LOGICAL pgoutput (SNAPSHOT 'export')"
        found = self._command(command)
        point, snapshot = found.get_value(0, 1), found.get_value(0, 2)
        assert point is not None and snapshot is not None
        return Exported(lsn_of(point.decode()), snapshot.decode())

    def start(self, slot: str, lsn: int) -> None:
        options = f"proto_version '1', publication_names '{slot}', messages 'true'"
        self._command(f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(lsn)} ({options})')
        self.acknowledged = lsn

    def _command(self, command: str) -> pq.abc.PGresult:
        found = self.pg.exec_(command.encode())
        if found.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COPY_BOTH):
            message = (found.error_message or b"").decode(errors="replace").strip()
            if found.error_field(pq.DiagnosticField.SQLSTATE) == IN_USE:
                raise Unreachable("another process still reads the log", got=message)
            raise DatabaseError("the database refuses to give its log", got=message)
        return found

    def next(self) -> Logged | None:
        """What has come; None if there is nothing at the moment. Keepalives are noted."""
        while True:
            size, data = self.pg.get_copy_data(1)
            if size == 0:
                self.pg.consume_input()
                size, data = self.pg.get_copy_data(1)
            if size == 0:
                return None
            if size < 0:
                raise self._ended()
            content = bytes(data)
            if content[:1] == b"w":
                lsn, _, _ = _DATA.unpack_from(content, 1)
                return Logged(lsn, content[1 + _DATA.size :])
            end, _, asked = _KEEPALIVE.unpack_from(content, 1)
            self.server_end = max(self.server_end, end)
            self.asked = self.asked or bool(asked)

    def _ended(self) -> psycopg.OperationalError:
        result = self.pg.get_result()
        message = result.error_message if result else None
        return psycopg.OperationalError((message or b"the log ended").decode(errors="replace"))

    def wait(self, seconds: float) -> None:
        """Until something may have come."""
        select.select([self.pg.socket], [], [], seconds)

    def acknowledge(self, lsn: int) -> None:
        """All before is written: the server need not keep it. Told now and then."""
        moved = lsn > self.acknowledged
        self.acknowledged = max(lsn, self.acknowledged)
        since = time.monotonic() - self.told_at
        if self.asked or since > STATUS_EVERY or (moved and since > STATUS_EVERY / 10):
            self._tell()

    def _tell(self) -> None:
        now, lsn = time.time_ns() // 1000 - EPOCH, self.acknowledged
        self.pg.put_copy_data(_STATUS.pack(b"r", lsn, lsn, lsn, now, 0))
        self.pg.flush()
        self.told_at, self.asked = time.monotonic(), False
