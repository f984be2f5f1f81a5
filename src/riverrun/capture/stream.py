"""Changes from the log to topics: whole transactions of the source, each once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from riverrun.capture import catalog
from riverrun.capture.chunks import MOST_HELD, Piece, Pieces
from riverrun.capture.envelopes import (
    CapturedTable,
    Envelopes,
    Out,
    RowWriter,
    Transaction,
)
from riverrun.capture.evolution import Changed, evolved, key_after
from riverrun.capture.ledger import Ledger, TableProgress
from riverrun.capture.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Note,
    Relation,
    Truncate,
    Update,
    decoded,
)
from riverrun.capture.server import Server
from riverrun.capture.status import Status
from riverrun.capture.wire import Logged, Wire

AT_ONCE = 20_000
LONGEST = 0.2
"""Records of one transaction of Kafka, and seconds that it may take, if more keeps coming."""
IDLE = 0.05
LOOK_EVERY = 5.0
A_WHILE = 1.0


def captured(
    server: Server, progress: TableProgress, *, name: str, partitions: int, like: Relation | None
) -> CapturedTable:
    """A table as it looks at a place of the log, where it is known how."""
    schema, _, table = name.partition(".")
    types = [column.type for column in (like.columns if like else progress.columns)]
    names = [column.name for column in progress.columns]
    columns = list(zip(names, map(server.kinds.of, types), strict=True))
    rows, whole = RowWriter(columns, progress.key), like is not None and like.identity == "f"
    return CapturedTable(schema, table, progress.topic, partitions, rows, whole, progress.loaded)


class Stream:
    """The log of one database, read from where the ledger has come to."""

    def __init__(
        self, server: Server, ledger: Ledger, envelopes: Envelopes, status: Status, *, wire: Wire
    ) -> None:
        self.server, self.ledger, self.envelopes = server, ledger, envelopes
        self.status, self.wire = status, wire
        self.partitions: dict[str, int] = {}
        self.lsn = ledger.noted.lsn
        """The end of the last transaction that was read."""
        self.relations: dict[int, Relation] = {}
        self.tables: dict[int, CapturedTable] = {}
        self.transaction: Transaction | None = None
        self.skipping = False
        self.open_since = 0.0
        self.pieces = Pieces(server, ledger, envelopes, gone=status.gone)
        self.careful = False
        """Each transaction of the source is one of Kafka."""
        self.begun_at = self.looked_at = time.monotonic()

    def run(self, over: Callable[[], bool], even: Callable[[], None]) -> None:
        """`even` hears that all which waited is written. Ends when tables are not those any more
        that the capture began with."""
        while not (self.transaction is None and self.pieces.piece is None and over()):
            logged = self.wire.next()
            if logged is not None:
                self._take(logged)
                self._acknowledge()  # a server that hears nothing for a while ends the connection
                continue
            if self.transaction is None:
                self._flush()
                if self._nothing_waits():
                    even()
                    self.status.even_at = time.time()
                    self.careful = False
                if self._other_tables():
                    return
                if self.pieces.next_table() is not None:
                    self.pieces.take()
            self._acknowledge()
            self.wire.wait(IDLE)

    def _nothing_waits(self) -> bool:
        return not self.careful or time.monotonic() - self.begun_at > A_WHILE

    def _other_tables(self) -> bool:
        """Whether a table was dropped, made, or is published no more: looked at now and then."""
        if time.monotonic() - self.looked_at < LOOK_EVERY or self.pieces.piece is not None:
            return False
        self.looked_at = time.monotonic()
        known = self.ledger.noted.tables
        now = self.server.oids({*known, *self.status.gone})
        if any(name in now for name in self.status.gone) or not now.keys() <= self._published():
            return True
        return any(
            name not in self.status.gone and now.get(name) != known[name].oid for name in known
        )

    def _published(self) -> set[str]:
        return self.server.published(str(self.status.slot))

    def _take(self, logged: Logged) -> None:
        message = decoded(logged.data)
        match message:
            case Begin():
                self.transaction = Transaction(message.xid, message.commit_lsn, message.at)
                self.skipping = message.commit_lsn < self.ledger.noted.lsn
            case Commit():
                self._committed(message)
            case Relation():
                self.relations[message.oid] = message
                self.tables.pop(message.oid, None)
            case Note():
                if not self.skipping:
                    self._noted(message, logged.lsn)
            case Insert() | Update() | Delete() | Truncate():
                if not self.skipping:
                    self._changed(message, logged.lsn)
            case None:
                pass

    def _changed(self, message: Insert | Update | Delete | Truncate, lsn: int) -> None:
        within = self.transaction
        assert within is not None
        if isinstance(message, Truncate):
            for oid in message.oids:
                if table := self._table(oid):
                    self._send(table, list(self.envelopes.truncated(table, within, lsn)))
        elif table := self._table(message.oid):
            self._send(table, list(self.envelopes.change(message, table, within, lsn)))

    def _send(self, table: CapturedTable, records: list[Out]) -> None:
        within = self.transaction
        assert within is not None
        envelopes = sum(record.value is not None for record in records)
        if within.total == envelopes:
            self._write([self.envelopes.begun(within)])
            self.pieces.recent.append(within.xid)
        if self.pieces.holds(table.full_name):
            assert self.pieces.piece is not None
            self.pieces.piece.hold(within.xid, records)
            if self.pieces.piece.count > MOST_HELD:
                self.pieces.give_up()
        else:
            self._write(records)

    def _write(self, records: Iterable[Out]) -> None:
        if not self.ledger.open:
            self.open_since = time.monotonic()
        self.ledger.send(records)

    def _noted(self, note: Note, lsn: int) -> None:
        piece = self.pieces.piece
        if piece is not None and self.pieces.marked(note, self._piecewise(piece), lsn):
            self.status.tables = dict(self.ledger.noted.tables)
            self.tables.clear()  # one that is loaded now may leave values out

    def _committed(self, message: Commit) -> None:
        within, self.transaction = self.transaction, None
        assert within is not None
        if self.skipping:
            return
        if within.counts:
            self._write([self.envelopes.ended(within)])
        self.lsn = message.end_lsn
        self.status.even_at = within.at / 1e6
        late = time.monotonic() - self.open_since > LONGEST
        if self.ledger.open and (self.careful or self.ledger.pending > AT_ONCE or late):
            self._flush()
            self._acknowledge()
            if self.pieces.next_table() is not None:
                self.pieces.take()

    def _flush(self) -> None:
        if self.ledger.open and self.pieces.piece is None:
            self.ledger.note_position(self.lsn)
            self.ledger.commit()
            self.status.lsn = self.lsn

    def _acknowledge(self) -> None:
        """Only what Kafka has; when nothing waits, all that the server has read."""
        busy = self.ledger.open or self.transaction is not None or self.pieces.piece is not None
        lsn = self.ledger.noted.lsn if busy else max(self.lsn, self.wire.server_end)
        self.wire.acknowledge(lsn)

    def _piecewise(self, piece: Piece) -> CapturedTable | None:
        """The table as a piece has it, also if the log has told nothing of it yet."""
        progress = self.ledger.noted.tables[piece.table]
        known = self._table(progress.oid) if progress.oid in self.relations else None
        progress = self.ledger.noted.tables[piece.table]
        if known is not None and progress.columns == piece.columns:
            return known
        if progress.oid in self.relations and known is None:
            return None
        return self._captured(piece.table, progress.with_(columns=piece.columns), None)

    def _captured(self, name: str, progress: TableProgress, like: Relation | None) -> CapturedTable:
        partitions = self.partitions[progress.topic]
        return captured(self.server, progress, name=name, partitions=partitions, like=like)

    def _table(self, oid: int) -> CapturedTable | None:
        """The table of a change, with the columns that it has here; None if it is not captured, or
        was not yet."""
        if oid in self.tables:
            return self.tables[oid]
        relation = self.relations[oid]
        name = self._known_as(relation)
        if name is None:
            return None
        progress = self.ledger.noted.tables[name]
        if self.transaction is not None and self.transaction.lsn < progress.since:
            return None
        progress = self._up_to_date(name, progress, relation)
        self.tables[oid] = self._captured(name, progress, relation)
        return self.tables[oid]

    def _known_as(self, relation: Relation) -> str | None:
        """The name of a captured table, also where it had another for a time."""
        name, known = f"{relation.schema}.{relation.table}", self.ledger.noted.tables
        if name in known:
            return name
        before = next((each for each in known if known[each].oid == relation.oid), None)
        if before is not None and self.server.oids([before]).get(before) != relation.oid:
            raise Changed(
                before,
                f"the table {before} was renamed",
                got=name,
                hint="give it its name back; or `riverrun capture remove`, and capture it anew",
            )
        return before

    def _up_to_date(self, name: str, progress: TableProgress, relation: Relation) -> TableProgress:
        here = [(column.name, column.type) for column in relation.columns]
        columns = progress.columns
        if [(column.name, column.type) for column in columns] != here:
            accepted = progress.doing == "snapshot" and progress.after is None
            if self.transaction is not None:
                self.server.await_seen(self.transaction.xid)
            found = catalog.columns(self.server.connection, relation.oid)
            now = {each.number: each for each in found}
            columns = evolved(progress.columns, relation, now, accepted=accepted)
        key = key_after(progress.key, progress.columns, columns, relation)
        if (columns, key) != (progress.columns, progress.key):
            progress = progress.with_(columns=columns, key=key)
            self.ledger.note_table(name, progress)
        return progress
