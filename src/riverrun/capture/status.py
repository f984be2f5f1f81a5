"""How far a capture is, told to a file every moment by a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from riverrun.capture.address import shown
from riverrun.capture.capturer import CaptureState, Doing, TableState
from riverrun.capture.envelopes import topic_of
from riverrun.capture.files import Files
from riverrun.capture.ledger import TableProgress
from riverrun.capture.pgoutput import lsn_text
from riverrun.capture.server import Server, SlotFacts
from riverrun.errors import RiverrunError

EVERY = 0.3
SLOT_EVERY = 2.0


@dataclass
class Status:
    """What is known of a capture. The engine writes it, the teller reads it."""

    name: str
    doing: Doing = "starting"
    error: str | None = None
    database: str | None = None
    """Its address, once it is known."""
    slot: str | None = None
    lsn: int = 0
    even_at: float | None = None
    """Up to when all that was committed is written, in seconds since 1970."""
    tables: dict[str, TableProgress] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """Of a snapshot that goes on."""
    left_out: set[str] = field(default_factory=set)
    """Tables of which a record has a placeholder for a value."""
    gone: set[str] = field(default_factory=set)
    """Tables that were dropped, or were never there."""
    failed: str | None = None
    """The table that the error is of."""
    slot_facts: SlotFacts | None = None

    def state(self) -> CaptureState:
        return CaptureState(
            name=self.name,
            database=shown(self.database) if self.database else "",
            by="riverrun",
            doing=self.doing,
            tables=(*self._tables(), *self._missing()),
            slot=self.slot,
            position=lsn_text(self.lsn) if self.lsn else None,
            behind_bytes=self.slot_facts.behind if self.slot_facts else None,
            behind_seconds=self._seconds(),
            warning=self._warning(),
            error=self.error,
        )

    def _tables(self) -> Iterator[TableState]:
        return (self._table(*pair) for pair in sorted(self.tables.items()))

    def _missing(self) -> Iterator[TableState]:
        for name in sorted(self.gone - self.tables.keys()):
            error = "there is no such table"
            yield TableState(name, topic_of(self.name, name), "failed", error=error)

    def _table(self, name: str, progress: TableProgress) -> TableState:
        doing: Doing = progress.doing
        error = self.error if self.failed == name else None
        if name in self.gone:
            doing, error = "failed", "the table was dropped"
        elif self.failed == name:
            doing = "failed"
        elif doing == "streaming" and self.doing == "paused":
            doing = "paused"
        return TableState(
            name,
            progress.topic,
            doing,
            max(self.rows.get(name, 0), progress.rows),
            progress.expected,
            error,
        )

    def _seconds(self) -> float | None:
        return None if self.even_at is None else round(max(time.time() - self.even_at, 0), 1)

    def _warning(self) -> str | None:
        if self.slot_facts is not None and self.slot_facts.warning:
            return self.slot_facts.warning
        if self.left_out:
            tables = ", ".join(sorted(self.left_out))
            return (
                f"large values that stay as they were are not in the log of {tables}: the topic is "
                "kept whole, not compacted; ALTER TABLE … REPLICA IDENTITY FULL before a capture "
                "begins changes that"
            )
        return None


class Teller:
    """Writes the state to its file, and asks the server what it keeps for the slot."""

    def __init__(self, status: Status, files: Files) -> None:
        self.status, self.files = status, files
        self.over = threading.Event()
        self.server: Server | None = None
        self.asked_at = 0.0
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self.over.set()
        self.thread.join(5)

    def _run(self) -> None:
        while not self.over.wait(EVERY):
            self._tell()

    def _tell(self) -> None:
        if self.status.slot and time.monotonic() - self.asked_at > SLOT_EVERY:
            self.asked_at = time.monotonic()
            self.status.slot_facts = self._slot(self.status.slot)
        with suppress(OSError):  # a disk that is full, or a folder that was removed
            self.files.tell(self.status.state())

    def _slot(self, slot: str) -> SlotFacts | None:
        try:
            if self.server is None and self.status.database:
                self.server = Server(self.status.database)
            return self.server.slot(slot) if self.server else None
        except (psycopg.Error, RiverrunError):
            self.server = None
            return None
