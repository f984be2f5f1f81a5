"""Snapshots of single tables while changes flow: rows stand where they belong in the log.

A piece, so many rows in the order of the key, is read under a snapshot of the database. Then a mark
is written into the log. When the mark comes, every transaction that the snapshot has seen has come,
too. Changes of the table that came since the piece was read are held until then: first those that
the snapshot has seen are written, then the piece, then the others. All of it, and how far the
snapshot has come, is one transaction of Kafka.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from riverrun.capture import catalog
from riverrun.capture.address import connected
from riverrun.capture.catalog import Column, TableFacts
from riverrun.capture.envelopes import CapturedTable, Envelopes, Out
from riverrun.capture.ledger import Ledger, TableProgress
from riverrun.capture.pgoutput import Cells, Note
from riverrun.capture.seen import Seen
from riverrun.capture.server import Server
from riverrun.capture.snapshot import copied

ROWS = 10_000
MOST_HELD = 50_000
"""Changes: with more of them, the piece is read again later."""
REMEMBERED = 20_000
PREFIX = "riverrun"


@dataclass
class Piece:
    """Rows that wait for their mark."""

    table: str
    known: tuple[Column, ...]
    """The columns of the table as the log had told when it was read."""
    columns: tuple[Column, ...]
    """With those that were added since, though the log has told of no row that has them."""
    seen: Seen
    rows: list[Cells]
    mark: str = field(default_factory=lambda: str(uuid.uuid4()))
    held: list[tuple[int, list[Out]]] = field(default_factory=list)
    """Changes since, with their transaction."""
    count: int = 0

    def hold(self, xid: int, records: list[Out]) -> None:
        self.held.append((xid, records))
        self.count += len(records)

    def cuts(self) -> bool:
        """Whether the changes that were seen are the first ones. A commit may be seen before one
        that stands earlier in the log; but a topic has its transactions in the order of the log."""
        seen = [self.seen.has(xid) for xid, _ in self.held]
        return seen == sorted(seen, reverse=True)

    def in_order(self, read: Iterator[Out]) -> Iterator[Out]:
        for xid, records in self.held:
            if self.seen.has(xid):
                yield from records
        yield from read
        for xid, records in self.held:
            if not self.seen.has(xid):
                yield from records


class Pieces:
    """The snapshots of tables that were added, or asked for again."""

    def __init__(
        self, server: Server, ledger: Ledger, envelopes: Envelopes, *, gone: Set[str]
    ) -> None:
        self.server, self.ledger, self.envelopes = server, ledger, envelopes
        self.gone = set(gone)
        """Tables that were dropped: of these there is nothing to read."""
        self.reader = connected(server.database)
        self.piece: Piece | None = None
        self.recent: deque[int] = deque(maxlen=REMEMBERED)
        # A transaction that runs since before the table was published may have changes of which
        # the log tells nothing: it has to end first.
        self.begun_before = int(self._asked("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))

    def close(self) -> None:
        self.reader.close()

    def _asked(self, query: str) -> Any:
        found = self.reader.execute(query).fetchone()
        assert found is not None
        return found[0]

    def next_table(self) -> str | None:
        tables = self.ledger.noted.tables.items()
        waiting = (name for name, each in tables if each.doing == "snapshot")
        return next((name for name in waiting if name not in self.gone), None)

    def holds(self, table: str) -> bool:
        """Whether changes of the table wait for a piece."""
        return self.piece is not None and self.piece.table == table

    def take(self) -> None:
        """Reads the next piece, and writes its mark into the log."""
        table = self.next_table()
        if table is None or self.piece is not None:
            return
        progress = self.ledger.noted.tables[table]
        self.reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            # first: a table that is written anew has no rows for those who began before
            lock = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(catalog.named(table))
            self.reader.execute(lock)
            seen = Seen.of(self._asked("SELECT pg_current_snapshot()::text"))
            # one that was written to the topic already, but is not seen yet, cannot be ordered
            early = any(number in seen.open for number in map(seen.whole, self.recent))
            if early or seen.first_open < self.begun_before:
                return
            facts = catalog.facts(self.reader, table)
            read = progress.with_(columns=_with_new(progress, facts))
            rows = list(copied_piece(self.reader, facts, read))
        except psycopg.errors.UndefinedTable:  # the next look at all tables tells of it
            self.gone.add(table)
            return
        finally:
            self.reader.execute("ROLLBACK")
        self.piece = Piece(table, progress.columns, read.columns, seen, rows)
        query = "SELECT pg_logical_emit_message(true, %s, %s)"
        self.reader.execute(query, (PREFIX, self.piece.mark))

    def marked(self, note: Note, table: CapturedTable | None, lsn: int) -> bool:
        """Whether a note of the log is the mark of the piece; then it is written."""
        piece = self.piece
        if piece is None or note.prefix != PREFIX or note.content != piece.mark.encode():
            return False
        progress = self.ledger.noted.tables[piece.table]
        told = progress.columns in (piece.known, piece.columns)
        if table is None or not told or not piece.cuts():
            self.give_up()
            return True
        self.piece = None
        read = map(self.envelopes.reading(table, "incremental", lsn), piece.rows)
        self.ledger.send(piece.in_order(read))
        progress = progress.with_(columns=piece.columns)
        self.ledger.note_table(piece.table, _after(progress, piece, table))
        return True

    def give_up(self) -> None:
        """The piece is read again later; changes that waited for it are written in their order."""
        piece, self.piece = self.piece, None
        if piece is not None:
            self.ledger.send(out for _, records in piece.held for out in records)


def _with_new(progress: TableProgress, facts: TableFacts) -> tuple[Column, ...]:
    """At the beginning of a snapshot: later its rows have the columns of those before."""
    last = max((column.number for column in progress.columns), default=0)
    new = [column for column in facts.columns if column.number > last]
    return (*progress.columns, *(new if progress.after is None else ()))


def _after(progress: TableProgress, piece: Piece, table: CapturedTable) -> TableProgress:
    rows = progress.rows + len(piece.rows)
    if len(piece.rows) < ROWS:
        done = progress.snapshots + (1 if progress.reading else 0)
        return progress.with_(loaded=True, reading=False, after=None, rows=rows, snapshots=done)
    last = tuple(str(cell) for cell in table.rows.key_cells(piece.rows[-1]))
    return progress.with_(after=last, rows=rows)


def copied_piece(connection: Any, facts: TableFacts, progress: TableProgress) -> Iterator[Cells]:
    """The next rows, with the columns that the log has; those that are gone since are null."""
    now = {column.number: column for column in facts.columns}
    here = [now[column.number] for column in progress.columns if column.number in now]
    places = {column.number: place for place, column in enumerate(here)}
    order = [places.get(column.number) for column in progress.columns]
    rest = _following(facts, progress.after)
    for cells in copied(connection, facts, here, rest):
        yield tuple(None if place is None else cells[place] for place in order)


def _following(facts: TableFacts, after: Sequence[str] | None) -> sql.Composable:
    key = [sql.Identifier(name) for name in facts.key]
    listed = sql.SQL(", ").join(key)
    where: sql.Composable = sql.SQL("")
    if after is not None:
        types = dict(zip((c.name for c in facts.columns), facts.types, strict=True))
        values = sql.SQL(", ").join(
            sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(types[name]))
            for name, value in zip(facts.key, after, strict=True)
        )
        where = sql.SQL("WHERE ({}) > ({})").format(listed, values)
    return sql.SQL("{} ORDER BY {} LIMIT {}").format(where, listed, sql.Literal(ROWS))
