"""Changes of rows as Debezium writes them: keys, envelopes, tombstones, transactions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring as text
from typing import NamedTuple

from riverrun.capture.pgoutput import UNCHANGED, Cells, Delete, Insert, Update
from riverrun.capture.values import Kind, writer
from riverrun.formats.debezium import UNAVAILABLE

CONNECTOR = "postgresql"
_OF_BYTES = '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="'
NO_KEY = "{}"
"""Of truncating: compacted topics take no record without a key, and the last one will do."""
Fetch = Callable[["CapturedTable", Cells, int], Cells]
"""The values that a row has, after a transaction or later, where the log left them out."""


class Out(NamedTuple):
    """A record to be written. Without a partition it goes where its key belongs."""

    topic: str
    key: str | None
    value: str | None
    partition: int | None = None


class RowWriter:
    """Rows of one table as JSON."""

    def __init__(self, columns: Sequence[tuple[str, Kind]], key: Sequence[str]) -> None:
        names = [name for name, _ in columns]
        self.parts = [
            (f"{text(name)}:", writer(kind), _unavailable(kind)) for name, kind in columns
        ]
        self.key_places = [names.index(name) for name in key]

    def row(self, cells: Cells) -> str:
        made = [
            head + ("null" if cell is None else unavailable if cell is UNCHANGED else write(cell))  # type: ignore[arg-type]
            for (head, write, unavailable), cell in zip(self.parts, cells, strict=True)
        ]
        return f"{{{','.join(made)}}}"

    def key(self, cells: Cells) -> str:
        made = []
        for place in self.key_places:
            head, write, _ = self.parts[place]
            cell = cells[place]
            assert isinstance(cell, str), "a key is never null, and always in the log"
            made.append(head + write(cell))
        return f"{{{','.join(made)}}}"

    def key_cells(self, cells: Cells) -> Cells:
        return tuple(cells[place] for place in self.key_places)


def _unavailable(kind: Kind) -> str:
    if kind.array:
        return json.dumps([UNAVAILABLE])
    return _OF_BYTES if kind.form == "bytes" else text(UNAVAILABLE)


@dataclass
class CapturedTable:
    """A table as the log tells of it now."""

    schema: str
    name: str
    topic: str
    partitions: int
    rows: RowWriter
    whole: bool
    """Whether changes carry the whole row as it was before."""
    loaded: bool
    """Whether the topic has all its rows, so that values may be left out."""

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass
class Transaction:
    """A transaction of the source, while it is read."""

    xid: int
    lsn: int
    at: int
    """Microseconds since 1970."""
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Of this transaction alone: a server that is made anew counts from the beginning."""
        return f"{self.xid}-{self.lsn}"

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Envelopes:
    """Writes what happens to tables of one database."""

    def __init__(self, name: str, database: str, fetch: Fetch) -> None:
        self.name, self.database, self.fetch = name, database, fetch
        self.left_out: set[str] = set()
        """Tables of which a value was left out."""

    @property
    def transactions(self) -> str:
        """The topic that tells of transactions."""
        return transaction_topic(self.name)

    def begun(self, transaction: Transaction) -> Out:
        body = {"status": "BEGIN", "id": transaction.id, "event_count": None}
        return self._told(transaction, {**body, "data_collections": None})

    def ended(self, transaction: Transaction) -> Out:
        counts = [
            {"data_collection": name, "event_count": count}
            for name, count in transaction.counts.items()
        ]
        body = {"status": "END", "id": transaction.id, "event_count": transaction.total}
        return self._told(transaction, {**body, "data_collections": counts})

    def _told(self, transaction: Transaction, body: dict[str, object]) -> Out:
        value = json.dumps({**body, "ts_ms": transaction.at // 1000})
        return Out(self.transactions, json.dumps({"id": transaction.id}), value)

    def change(
        self, message: Insert | Update | Delete, table: CapturedTable, within: Transaction, lsn: int
    ) -> Iterator[Out]:
        match message:
            case Insert():
                yield self._put(table, "c", message.new, within=within, lsn=lsn)
            case Update():
                yield from self._updated(message, table, within, lsn)
            case Delete():
                yield from self._deleted(message.old, table, within, lsn)

    def _updated(
        self, message: Update, table: CapturedTable, within: Transaction, lsn: int
    ) -> Iterator[Out]:
        new, old = message.new, message.old
        if old is not None:  # the whole row, or its key, which may be large, too
            pairs = zip(new, old, strict=True)
            new = tuple(o if n is UNCHANGED and o is not None else n for n, o in pairs)
        moved = old is not None and table.rows.key_cells(old) != table.rows.key_cells(new)
        if UNCHANGED in new:
            if moved or not table.loaded:
                new = self.fetch(table, new, within.xid)
            else:
                self.left_out.add(table.full_name)
        if old is None or not moved:
            before = table.rows.row(old) if old is not None and table.whole else "null"
            yield self._put(table, "u", new, within=within, lsn=lsn, before=before)
            return
        yield from self._deleted(old, table, within, lsn)
        yield self._put(table, "c", new, within=within, lsn=lsn)

    def _put(
        self,
        table: CapturedTable,
        op: str,
        new: Cells,
        *,
        within: Transaction,
        lsn: int,
        before: str = "null",
    ) -> Out:
        after = table.rows.row(new)
        return Out(
            table.topic,
            table.rows.key(new),
            self._value(table, op, before, after, within=within, lsn=lsn),
        )

    def _deleted(
        self, old: Cells, table: CapturedTable, within: Transaction, lsn: int
    ) -> Iterator[Out]:
        key, before = table.rows.key(old), table.rows.row(old)
        yield Out(table.topic, key, self._value(table, "d", before, "null", within=within, lsn=lsn))
        yield Out(table.topic, key, None)

    def truncated(self, table: CapturedTable, within: Transaction, lsn: int) -> Iterator[Out]:
        """One for each partition: each tells the rows that it has told of."""
        for partition in range(table.partitions):
            value = self._value(table, "t", "null", "null", within=within, lsn=lsn)
            yield Out(table.topic, NO_KEY, value, partition)

    def cleared(self, table: CapturedTable, lsn: int) -> Iterator[Out]:
        """Before a snapshot: what the topic had of the table is no more."""
        for partition in range(table.partitions):
            source = self._source(table, "true", time.time_ns() // 1000, None, lsn)
            value = _envelope("t", "null", "null", source, "null")
            yield Out(table.topic, NO_KEY, value, partition)

    def reading(self, table: CapturedTable, snapshot: str, lsn: int) -> Callable[[Cells], Out]:
        """How rows of a snapshot are written that holds at a position of the log."""
        source = self._source(table, snapshot, time.time_ns() // 1000, None, lsn)
        head = '{"before":null,"after":'
        tail = _envelope("r", "null", "", source, "null").removeprefix(head)
        row, key, topic = table.rows.row, table.rows.key, table.topic

        def read(cells: Cells) -> Out:
            return Out(topic, key(cells), head + row(cells) + tail)

        return read

    def _value(
        self,
        table: CapturedTable,
        op: str,
        before: str,
        after: str,
        *,
        within: Transaction,
        lsn: int,
    ) -> str:
        counts = within.counts
        order = counts[table.full_name] = counts.get(table.full_name, 0) + 1
        transaction = (
            f'{{"id":"{within.id}","total_order":{within.total},"data_collection_order":{order}}}'
        )
        source = self._source(table, "false", within.at, within.xid, lsn)
        return _envelope(op, before, after, source, transaction)

    def _source(
        self, table: CapturedTable, snapshot: str, at: int, xid: int | None, lsn: int
    ) -> str:
        return (
            f'{{"version":"riverrun","connector":"{CONNECTOR}","name":{text(self.name)},'
            f'"ts_ms":{at // 1000},"snapshot":"{snapshot}","db":{text(self.database)},'
            f'"schema":{text(table.schema)},"table":{text(table.name)},'
            f'"txId":{"null" if xid is None else xid},"lsn":{lsn},"xmin":null,"ts_us":{at}}}'
        )


def _envelope(op: str, before: str, after: str, source: str, transaction: str) -> str:
    return (
        f'{{"before":{before},"after":{after},"source":{source},"transaction":{transaction},'
        f'"op":"{op}","ts_ms":{time.time_ns() // 1_000_000}}}'
    )


def transaction_topic(name: str) -> str:
    return f"{name}.transaction"


def topic_of(name: str, table: str) -> str:
    """Where the changes of a table are written, as Debezium calls it."""
    return f"{name}.{table}"
