"""The process of a capture: a snapshot first, then every change; whatever is away is waited for."""

from __future__ import annotations

import threading
import time
import traceback
import uuid
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, field

import psycopg
from confluent_kafka import KafkaException

from riverrun.capture import topics
from riverrun.capture.address import Unreachable, slot_of
from riverrun.capture.catalog import TableFacts, with_schema
from riverrun.capture.envelopes import CapturedTable, Envelopes, topic_of
from riverrun.capture.evolution import Changed
from riverrun.capture.files import Files, Wish
from riverrun.capture.ledger import Held, Ledger, TableProgress
from riverrun.capture.pgoutput import Cells
from riverrun.capture.server import Server
from riverrun.capture.snapshot import write_all
from riverrun.capture.status import Status
from riverrun.capture.stream import Stream, captured
from riverrun.capture.wire import Wire
from riverrun.config import Settings
from riverrun.embedded import kafka, postgres
from riverrun.errors import AlreadyRunning, BrokerError, DatabaseError, RiverrunError

LOOK_EVERY = 0.3
PAUSE, LONGEST_PAUSE = 0.3, 3.0


class Over(Exception):
    """The wish has changed, or the process is to end."""


@dataclass
class Parts:
    """What one attempt works with."""

    wish: Wish
    server: Server
    ledger: Ledger
    envelopes: Envelopes
    partitions: dict[str, int]
    fresh: set[str] = field(default_factory=set)
    """Topics that were just made: nothing in them has to be taken back."""

    @property
    def tables(self) -> list[str]:
        return [with_schema(table) for table in self.wish.tables]

    @property
    def slot(self) -> str:
        return slot_of(self.wish.name)


class Engine:
    """Runs until it is told to end. Each attempt begins with what the ledger knows."""

    def __init__(self, files: Files, status: Status, stopping: threading.Event) -> None:
        self.files, self.status, self.stopping = files, status, stopping
        self.settings = Settings(home=files.folder.parents[1], cache=files.folder)
        self.asked: Wish | None = None
        self.looked_at = 0.0
        self.changed = False
        self.token, self.claimed = str(uuid.uuid4()), False
        self.careful = False
        """After a failure each transaction is written by itself, so that those before it are."""

    def run(self) -> None:
        pause = PAUSE
        while not self.stopping.is_set():
            begun_at = time.monotonic()
            try:
                self._attempt()
                pause = PAUSE
            except Over:
                pass
            except KafkaException as error:
                self._told("starting", f"waiting for Kafka: {error.args[0].str()}")
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self._told("starting", f"waiting for the database: {_first_line(error)}")
            except psycopg.Error as error:
                self._told("failed", f"the database refuses: {_first_line(error)}")
            except (Unreachable, BrokerError) as error:
                self._told("starting", f"waiting: {error.text()}")
            except AlreadyRunning:
                raise
            except RiverrunError as error:
                self._told("failed", error.text(), error)
            except Exception as error:  # whatever it is, nothing is lost, and it is told
                traceback.print_exc()
                self._told("failed", f"{type(error).__name__}: {error}")
            pause = PAUSE if time.monotonic() - begun_at > 10 else min(pause * 2, LONGEST_PAUSE)
            self.stopping.wait(0 if self._over() else pause)

    def _told(self, doing: str, error: str, cause: RiverrunError | None = None) -> None:
        if error != self.status.error:
            print(f"{time.strftime('%F %T')} {doing}: {error}", flush=True)
        self.status.doing, self.status.error = doing, error  # type: ignore[assignment]
        self.status.failed = cause.table if isinstance(cause, Changed) else None
        self.careful = doing == "failed"

    def _over(self) -> bool:
        """Whether what is done now is to end: the wish has changed, or the process is to stop."""
        if time.monotonic() - self.looked_at > LOOK_EVERY:
            self.looked_at = time.monotonic()
            self.changed = self.files.wish() != self.asked
        return self.changed or self.stopping.is_set()

    def _attempt(self) -> None:
        wish = self.files.wish()
        self.asked, self.changed = wish, False
        if wish is None:
            self.stopping.set()
            return
        if wish.paused:
            self._paused(wish)
            return
        with ExitStack() as stack:
            parts = self._parts(wish, stack)
            self._known(parts)
            held = self._held(parts)
            if held is None or held.stage == "initial":
                self._initial(parts, held, stack)
            self._further(parts)
            self._stream(parts, stack)

    def _paused(self, wish: Wish) -> None:
        if not self.status.tables:  # it was started so: how far it is, the ledger knows
            with ExitStack() as stack:
                self._known(self._parts(wish, stack))
        self.status.doing, self.status.error = "paused", None
        while not self._over():
            self.stopping.wait(LOOK_EVERY)

    def _parts(self, wish: Wish, stack: ExitStack) -> Parts:
        database, client = self._database(wish), self._client(wish)
        self.status.database = database
        server = Server(database)
        stack.callback(server.close)
        server.check()
        ledger = Ledger(client, wish.name)
        stack.callback(ledger.close)
        ledger.claim(self.token, again=self.claimed)
        self.claimed = True
        topics.make(client, wish.name, topics.known(client))

        def fetch(table: CapturedTable, cells: Cells, xid: int) -> Cells:
            names = [column.name for column in ledger.noted.tables[table.full_name].columns]
            keys = ledger.noted.tables[table.full_name].key
            key = dict(zip(keys, map(str, table.rows.key_cells(cells)), strict=True))
            return server.fetched(table.full_name, names, key, cells, xid=xid)

        envelopes = Envelopes(wish.name, server.name, fetch)
        envelopes.left_out = self.status.left_out
        return Parts(wish, server, ledger, envelopes, topics.known(client))

    def _database(self, wish: Wish) -> str:
        if wish.database is not None:
            return wish.database
        found = postgres.status(self.settings)
        if found is None:
            raise Unreachable("PostgreSQL is not running", hint="`riverrun up --postgres`")
        return found.url

    def _client(self, wish: Wish) -> dict[str, str]:
        if wish.brokers is not None:
            return {"bootstrap.servers": wish.brokers, **wish.kafka}
        return kafka.client(self.settings)

    def _known(self, parts: Parts) -> None:
        self.status.slot, self.status.lsn = parts.slot, parts.ledger.noted.lsn
        self.status.tables = dict(parts.ledger.noted.tables)
        self.status.rows = {}

    def _held(self, parts: Parts) -> Held | None:
        """What the ledger says is there, is there."""
        held, slot = parts.ledger.noted.held, parts.server.slot(parts.slot)
        if held is None:
            if slot is not None:
                raise DatabaseError(
                    f"there is a replication slot {parts.slot} that this capture has not made",
                    hint='give the capture another name, app.capture(…, name="…"); or, if nobody '
                    f"needs it any more: SELECT pg_drop_replication_slot('{parts.slot}')",
                )
            return None
        if held.system != parts.server.system():
            raise DatabaseError(
                "this is another server than the one that was captured",
                where=parts.wish.name,
                hint=f"`riverrun capture remove {parts.wish.name}`, then begin anew",
            )
        if held.stage == "streaming" and (slot is None or slot.wal_status == "lost"):
            raise DatabaseError(
                f"the replication slot {parts.slot} is gone, and with it the changes since "
                "the capture read last",
                hint=f"`riverrun capture remove {parts.wish.name}`; the next run begins with a new "
                "snapshot",
            )
        return held

    def _initial(self, parts: Parts, held: Held | None, stack: ExitStack) -> None:
        """The slot, and all rows as they were when it was made. One that was broken off begins
        anew: its rows are taken back first."""
        server, ledger = parts.server, parts.ledger
        facts = server.facts(parts.tables)
        self._make_topics(parts, facts)
        mine = Held(parts.slot, server.system(), "initial")
        if held is None:
            ledger.note_held(mine)
            ledger.commit()
        server.drop_slot(parts.slot)
        server.publish(parts.slot, parts.tables)
        wire = Wire(server.database)
        stack.callback(wire.close)
        self.status.doing, self.status.error = "starting", None
        exported = wire.create_slot(parts.slot)
        begun = {
            name: TableProgress(each.oid, topic_of(parts.wish.name, name), each.key, each.columns,
                                expected=each.rows)
            for name, each in facts.items()
        }  # fmt: skip
        self.status.doing, self.status.tables = "snapshot", dict(begun)
        tables = {
            name: (facts[name], self._captured(parts, name, progress))
            for name, progress in begun.items()
        }
        for _, table in tables.values():
            if table.topic not in parts.fresh:
                ledger.send(parts.envelopes.cleared(table, exported.lsn))
        write_all(server.database, exported, tables, ledger, parts.envelopes, count=self._counted)
        wire.close()
        for name, progress in begun.items():
            ledger.note_table(name, progress.with_(loaded=True, rows=self.status.rows.get(name, 0)))
        ledger.note_held(Held(mine.slot, mine.system, "streaming"))
        ledger.note_position(exported.lsn)
        ledger.commit()
        self._known(parts)

    def _counted(self, table: str, rows: int) -> None:
        self.status.rows[table] = rows
        if self.stopping.is_set():
            raise Over

    def _captured(self, parts: Parts, name: str, progress: TableProgress) -> CapturedTable:
        count = parts.partitions[progress.topic]
        return captured(parts.server, progress, name=name, partitions=count, like=None)

    def _make_topics(self, parts: Parts, facts: dict[str, TableFacts]) -> None:
        for name, each in facts.items():
            topic = topic_of(parts.wish.name, name)
            if topic in parts.partitions:
                topics.keep(parts.ledger.client, topic, each)
            else:
                count = parts.wish.partitions
                lag = parts.wish.compaction_lag
                topics.make_for(parts.ledger.client, topic, each, partitions=count, lag=lag)
                parts.partitions[topic] = count
                parts.fresh.add(topic)

    def _further(self, parts: Parts) -> None:
        """Tables that were added, and snapshots that were asked for again."""
        ledger, noted = parts.ledger, parts.ledger.noted.tables
        there = parts.server.oids(parts.tables)
        self.status.gone = set(parts.tables) - set(there)
        facts = parts.server.facts(there)
        published = parts.server.published(parts.slot)
        new = {
            name: facts[name]
            for name, oid in there.items()
            if _new(noted.get(name), oid) or name not in published
        }
        self._make_topics(parts, facts)
        self._publish(parts, there, new)
        since = parts.server.end_of_log()
        for name, each in new.items():
            topic = topic_of(parts.wish.name, name)
            progress = TableProgress(
                each.oid, topic, each.key, each.columns,
                snapshots=parts.wish.snapshots.get(name, 0), expected=each.rows, since=since,
            )  # fmt: skip
            if topic not in parts.fresh:
                table = self._captured(parts, name, progress)
                ledger.send(parts.envelopes.cleared(table, ledger.noted.lsn))
            ledger.note_table(name, progress)
        for name, progress in list(noted.items()):
            asked = parts.wish.snapshots.get(name, 0) > progress.snapshots and name in there
            if asked and progress.loaded and not progress.reading:
                expected = facts[name].rows
                begun = progress.with_(reading=True, after=None, rows=0, expected=expected)
                ledger.note_table(name, begun)
        ledger.commit()
        self._known(parts)

    def _publish(self, parts: Parts, there: Collection[str], new: Collection[str]) -> None:
        """Noted first: killed when they are published, those that were not begin anew as well."""
        for name in new:
            before = parts.ledger.noted.tables.get(name)
            if before is not None and not before.left_out:
                parts.ledger.note_table(name, before.with_(left_out=True))
        parts.ledger.commit()
        parts.server.publish(parts.slot, there)

    def _stream(self, parts: Parts, stack: ExitStack) -> None:
        wire = Wire(parts.server.database)
        stack.callback(wire.close)
        parts.server.take_over(parts.slot)
        wire.start(parts.slot, parts.ledger.noted.lsn)
        stream = Stream(parts.server, parts.ledger, parts.envelopes, self.status, wire=wire)
        stack.callback(stream.pieces.close)
        stream.partitions, stream.careful = parts.partitions, self.careful
        if not self.careful:
            self._goes_on()
        stream.run(self._over, self._goes_on)

    def _goes_on(self) -> None:
        """All that waits is read."""
        if self.status.doing != "streaming":
            print(f"{time.strftime('%F %T')} streaming", flush=True)
        self.status.doing, self.status.error, self.status.failed = "streaming", None, None
        self.careful = False


def _new(before: TableProgress | None, oid: int) -> bool:
    """Whether a table was never captured, not for a time, or is another one of the same name."""
    return before is None or before.oid != oid or before.left_out


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
