"""riverrun's own capture of PostgreSQL: a process that reads its log, without a JVM."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import psutil
import psycopg

from riverrun.capture.address import name_of, parts_of, shown, slot_of
from riverrun.capture.capturer import Capturer, CaptureState, TableState
from riverrun.capture.catalog import with_schema
from riverrun.capture.envelopes import topic_of
from riverrun.capture.files import Files, Wish, files_of
from riverrun.capture.ledger import Ledger, ledger_topic
from riverrun.capture.server import Server
from riverrun.config import Settings
from riverrun.embedded import kafka, postgres, process
from riverrun.embedded.lock import exclusive
from riverrun.errors import (
    ConfigError,
    DatabaseError,
    InputError,
    NoTopic,
    RiverrunError,
    ServerError,
)
from riverrun.kafka import admin

STARTS_WITHIN = 20.0


class OwnCapturer(Capturer):
    """One process per captured database, started like the embedded servers."""

    by = "riverrun"

    def __init__(self, settings: Settings, name: str, database: str | None = None) -> None:
        self.settings, self.name = settings, name
        self.database = database
        """None: that of the settings, or the embedded one."""
        self.files: Files = files_of(settings, name)

    def ensure(self, tables: Sequence[str]) -> None:
        self.files.folder.mkdir(parents=True, exist_ok=True)
        with exclusive(self.files.lock):
            before = self.files.wish() or Wish(self.name)
            database = self.database or self.settings.postgres
            self._refuse_other(before, database)
            known = [*before.tables, *map(with_schema, tables)]
            wish = replace(
                before,
                tables=tuple(dict.fromkeys(known)),
                database=database,
                brokers=self.settings.brokers,
                kafka=dict(self.settings.kafka),
                compaction_lag=self.settings.compaction_lag // 1000,
            )
            if wish != self.files.wish():
                self.files.ask(wish)
            if self.process() is None:
                self._start()

    def _refuse_other(self, before: Wish, database: str | None) -> None:
        if before.by != self.by:
            raise ConfigError(
                f"the capture {self.name!r} is done by Kafka Connect",
                hint=f"`riverrun capture remove {self.name}`, or give this one another name",
            )
        if not before.tables or before.database == database:
            return
        was, now = (_place(each) if each else None for each in (before.database, database))
        if was != now:
            raise ConfigError(
                f"the capture {self.name!r} is of another database",
                got=f"{shown(before.database) if before.database else 'the embedded one'}, "
                f"not {shown(database) if database else 'the embedded one'}",
                hint='give this one a name of its own: app.capture(…, name="…")',
            )

    def _start(self) -> None:
        left = process.search(str(self.files.folder))
        if left is not None:  # whoever started it was killed before the id was noted
            self.files.note_pid(left.pid)
            return
        self.files.forget_state()
        if self.files.log.exists():  # what a process that died has said is kept once
            self.files.log.replace(self.files.log.with_suffix(".log.before"))
        pid = process.spawn(self.files.command, output=self.files.log)
        self.files.note_pid(pid)
        give_up = time.monotonic() + STARTS_WITHIN
        while process.alive(pid) and process.marked(pid, str(self.files.folder)) is None:
            if time.monotonic() > give_up:
                raise ServerError("the capture does not start", where=self.files.log)
            time.sleep(0.01)

    def process(self) -> psutil.Process | None:
        pid = self.files.pid()
        return process.marked(pid, str(self.files.folder)) if pid is not None else None

    def state(self) -> CaptureState:
        wish = self.files.wish()
        if wish is None:
            raise InputError(f"there is no capture {self.name!r}", hint="`riverrun capture list`")
        empty = CaptureState(self.name, self._address(wish), "riverrun", "starting", ())
        state = self.files.state() or empty
        known = {each.table for each in state.tables}
        waiting = tuple(
            TableState(each, topic_of(self.name, each), "starting")
            for each in wish.tables
            if each not in known
        )
        state = replace(
            state, tables=(*state.tables, *waiting), database=state.database or empty.database
        )
        return state if self.process() is not None else self._stopped(state, wish)

    def _stopped(self, state: CaptureState, wish: Wish) -> CaptureState:
        """What the server keeps is asked here: nobody else does."""
        state = replace(state, doing="stopped", behind_seconds=None, slot=slot_of(self.name))
        with suppress(psycopg.Error, RiverrunError):
            server = Server(self._database(wish))
            facts = server.slot(slot_of(self.name))
            server.close()
            if facts is not None:
                return replace(state, behind_bytes=facts.behind, warning=facts.warning)
        return state

    def _address(self, wish: Wish) -> str:
        with suppress(RiverrunError):
            return shown(self._database(wish))
        return ""

    def _database(self, wish: Wish) -> str:
        if wish.database is not None:
            return wish.database
        found = postgres.status(self.settings)
        if found is None:
            raise DatabaseError("PostgreSQL is not running", hint="`riverrun up --postgres`")
        return found.url

    def pause(self) -> None:
        self._change(paused=True)

    def resume(self) -> None:
        self._change(paused=False)
        with exclusive(self.files.lock):
            if self.process() is None:
                self._start()

    def snapshot(self, table: str) -> None:
        wish, table = self._wish(), with_schema(table)
        if table not in wish.tables:
            raise InputError(
                f"the capture {self.name!r} has no table {table!r}",
                hint=f"it has: {', '.join(wish.tables)}",
            )
        self._change(snapshots={**wish.snapshots, table: wish.snapshots.get(table, 0) + 1})

    def _wish(self) -> Wish:
        wish = self.files.wish()
        if wish is None:
            raise InputError(f"there is no capture {self.name!r}", hint="`riverrun capture list`")
        return wish

    def _change(self, **changes: object) -> None:
        self._wish()
        with exclusive(self.files.lock):
            self.files.change(**changes)

    def remove(self) -> None:
        wish = self._wish()
        self.stop()
        client = self.settings.client(wish.brokers) if wish.brokers else kafka.client(self.settings)
        if Ledger(client, self.name).noted.held is not None:  # else they are of another capture
            self._drop(self._database(wish))
        with suppress(NoTopic):
            admin.delete_topic(client, ledger_topic(self.name))
        self.files.forget()

    def _drop(self, database: str) -> None:
        server = Server(database)
        try:
            server.drop_slot(slot_of(self.name))
            server.drop_publication(slot_of(self.name))
        finally:
            server.close()

    def stop(self) -> bool:
        if not self.files.folder.exists():
            return False
        with exclusive(self.files.lock):
            found = self.process() or process.search(str(self.files.folder))
            if found is not None:
                process.stop(found)
            self.files.note_pid(None)
            return found is not None

    def died(self) -> bool:
        return self.files.pid() is not None and self.process() is None

    def running(self) -> int | None:
        found = self.process()
        return found.pid if found is not None else None


def _place(database: str) -> tuple[object, ...]:
    parts = parts_of(database)
    return tuple(str(parts.get(name)) for name in ("host", "port", "dbname"))


def default_name(settings: Settings, database: str | None) -> str:
    """Of the capture of a database, unless the program gives one."""
    found = database or settings.postgres
    return name_of(found) if found else "postgres"
