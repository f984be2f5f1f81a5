"""Capture by Debezium on Kafka Connect: the embedded one, or one of the user's own, by REST."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import psycopg

from riverrun import private
from riverrun.capture import notes, tasks
from riverrun.capture.capturer import Capturer, CaptureState, Doing, TableState
from riverrun.capture.connectors import CLASSES, Connector
from riverrun.capture.files import Files, Wish, files_of
from riverrun.capture.notes import Snapshot
from riverrun.capture.places import Kind, address_of, kind_of
from riverrun.capture.rest import Rest
from riverrun.capture.secrets import property_text, secret_file
from riverrun.capture.side_mariadb import MariaSide
from riverrun.capture.side_postgresql import PostgresSide
from riverrun.capture.sides import Behind, Side
from riverrun.config import Settings
from riverrun.embedded import connect, kafka, postgres
from riverrun.embedded.lock import exclusive
from riverrun.errors import (
    BrokerError,
    ConfigError,
    ConnectError,
    InputError,
    NoTopic,
    RiverrunError,
)
from riverrun.kafka import admin

SIDES: dict[Kind, Callable[[str], Side]] = {
    "postgresql": PostgresSide,
    "mariadb": MariaSide,
    "mysql": MariaSide,
}


class ConnectCapturer(Capturer):
    """One connector per captured database. It runs in Connect, not in a process of ours."""

    by = "connect"

    def __init__(self, settings: Settings, name: str, database: str | None = None) -> None:
        self.settings, self.name = settings, name
        self.database = database
        """None: that of the settings, or the embedded one."""
        self.files: Files = files_of(settings, name)

    def ensure(self, tables: Sequence[str]) -> None:
        self.files.folder.mkdir(parents=True, exist_ok=True)
        with exclusive(self.files.lock):
            before = self.files.wish() or Wish(self.name, by="connect")
            wish = replace(before, database=self.database or self.settings.postgres)
            self._refuse_other(before, wish)
            with _side(self._database(wish)) as side:
                known = side.described([*before.tables, *tables])
                named = tuple(dict.fromkeys(each.name for each in known))
                wish = replace(wish, tables=named, brokers=self.settings.brokers)
                self.files.ask(wish)
                self._run(self._connector(wish), side)

    def _run(self, connector: Connector, side: Side) -> None:
        """The connector is as it should be, and runs; tables that are new to it are snapshot."""
        rest, client = self._rest(), self._client()
        wanted = connector.settings(self._password(connector), client["bootstrap.servers"])
        there = rest.get("connectors", self.name, "config")
        if there is None:
            self._refuse_missing(rest, connector)
            side.prepare(connector)
            rest.put("connectors", self.name, "config", body=wanted)
            return
        paused = tasks.doing(rest, self.name)[0] == "paused"
        if {**there, "name": ""} != {**wanted, "name": ""}:
            # What is asked of a connector that does not know the table yet would be lost.
            tasks.stopped(rest, self.name)
            side.prepare(connector)
            rest.put("connectors", self.name, "config", body=wanted)
        added = self._unread(connector, client)
        if paused:
            rest.put("connectors", self.name, "pause")
        else:
            tasks.resumed(rest, self.name)
        if added:
            side.ask_snapshot(connector, added)

    def _unread(self, connector: Connector, client: Mapping[str, str]) -> list[str]:
        """Tables that have no snapshot, once there was a first one; none is under way."""
        told = notes.read(client, connector.notes)
        if not any(each.complete for each in told.values()):
            return []
        return [table for table in connector.tables if table not in told]

    def _refuse_other(self, before: Wish, wish: Wish) -> None:
        if before.by != "connect":
            raise ConfigError(
                f"the capture {self.name!r} is riverrun's own, not one by Connect",
                hint=f"`riverrun capture remove {self.name}`, or give this one another name",
            )
        if not before.tables or before.database == wish.database:
            return
        was, now = (address_of(each or "") for each in (before.database, wish.database))
        if (was.host, was.port, was.database) != (now.host, now.port, now.database):
            raise ConfigError(
                f"the capture {self.name!r} is of another database",
                got=f"{was}, not {now}",
                hint='give this one a name of its own: app.capture(…, name="…")',
            )

    def _refuse_missing(self, rest: Rest, connector: Connector) -> None:
        wanted = CLASSES[connector.address.kind]
        there = [str(each["class"]) for each in rest.get("connector-plugins")]
        if wanted not in there:
            raise ConnectError(
                f"Kafka Connect has no connector for {connector.address.kind}",
                where=rest.url,
                got=", ".join(each.rpartition(".")[2] for each in there),
                hint=f"install Debezium's {wanted.rpartition('.')[2]} there",
            )

    def state(self) -> CaptureState:
        wish, rest = self._wish(), self._running()
        connector = Connector(self.name, address_of(self._known(wish)), wish.tables)
        doing, error = tasks.doing(rest, self.name) if rest else ("stopped", None)
        told = self._told(connector)
        behind, expected = self._asked_database(rest, connector, wish)
        tables = tuple(
            self._table(connector, table, doing, told.get(table), expected.get(table))
            for table in wish.tables
        )
        if doing == "streaming" and any(each.doing == "snapshot" for each in tables):
            doing = "snapshot"
        if doing == "streaming" and not any(each.loaded for each in tables):
            doing = "starting"
        return CaptureState(
            name=self.name,
            database=str(connector.address),
            by="connect",
            doing=doing,
            tables=tables,
            slot=connector.slot if connector.address.kind == "postgresql" else None,
            position=behind.position,
            behind_bytes=behind.bytes,
            behind_seconds=behind.seconds,
            warning=behind.warning,
            error=error,
        )

    def _table(
        self,
        connector: Connector,
        table: str,
        doing: Doing,
        found: Snapshot | None,
        expected: int | None,
    ) -> TableState:
        topic = connector.topic(table)
        if found is None:
            return TableState(table, topic, "starting" if doing == "streaming" else doing)
        if doing == "streaming" and not found.complete:
            doing = "failed" if found.error else "snapshot"
        rows = found.rows if found.rows is not None else self._written(topic)
        return TableState(table, topic, doing, rows, found.expected or expected, found.error)

    def _told(self, connector: Connector) -> dict[str, Snapshot]:
        with suppress(BrokerError):  # it is stopped, and so is the embedded Connect
            return notes.read(self._client(), connector.notes)
        return {}

    def _written(self, topic: str) -> int:
        """Records of a topic, about: while the first snapshot goes on nobody counts its rows."""
        with suppress(NoTopic):
            return admin.describe(self._client(), topic).span
        return 0

    def _asked_database(
        self, rest: Rest | None, connector: Connector, wish: Wish
    ) -> tuple[Behind, dict[str, int | None]]:
        """How far its log is read, and about how many rows tables have."""
        answer = rest.get("connectors", self.name, "offsets") if rest else None
        known = answer["offsets"] if answer else []
        offset = (known[0]["offset"] or {}) if known else {}
        # one that is away, or has lost a table: Debezium's own error says so
        with suppress(RiverrunError, psycopg.Error), _side(self._known(wish)) as side:
            behind = side.behind(connector, offset)
            return behind, {each.name: each.rows for each in side.described(wish.tables)}
        return Behind(), {}

    def pause(self) -> None:
        self._wish()
        self._rest().put("connectors", self.name, "pause")

    def resume(self) -> None:
        self._wish()
        tasks.resumed(self._rest(), self.name)

    def stop(self) -> bool:
        rest = self._running()
        if rest is None or rest.get("connectors", self.name, "config") is None:
            return False
        tasks.stopped(rest, self.name)
        return True

    def running(self) -> int | None:
        worker = connect.status(self.settings) if self.settings.connect is None else None
        return worker.pid if worker else None

    def died(self) -> bool:
        return self.settings.connect is None and connect.died(self.settings)

    def snapshot(self, table: str) -> None:
        wish = self._wish()
        with _side(self._database(wish)) as side:
            [found] = side.described([table])
            if found.name not in wish.tables:
                raise InputError(
                    f"the capture {self.name!r} has no table {found.name!r}",
                    hint=f"it has: {', '.join(wish.tables)}",
                )
            side.ask_snapshot(self._connector(wish), [found.name])

    def remove(self) -> None:
        wish = self._wish()
        connector, rest = self._connector(wish), self._rest()
        if rest.get("connectors", self.name, "config") is not None:
            tasks.stopped(rest, self.name)
            rest.delete("connectors", self.name, "offsets")  # else the next of its name goes on
            rest.delete("connectors", self.name)
        with _side(self._database(wish)) as side:
            side.drop(connector)
        for topic in connector.inner_topics:
            with suppress(NoTopic):
                admin.delete_topic(self._client(), topic)
        if worker := connect.status(self.settings):
            secret_file(worker.secrets, self.name).unlink(missing_ok=True)
        self.files.forget()

    def _wish(self) -> Wish:
        wish = self.files.wish()
        if wish is None:
            raise InputError(f"there is no capture {self.name!r}", hint="`riverrun capture list`")
        return wish

    def _connector(self, wish: Wish) -> Connector:
        return Connector(self.name, address_of(self._database(wish)), wish.tables)

    def _database(self, wish: Wish) -> str:
        return wish.database or postgres.ensure(self.settings)

    def _known(self, wish: Wish) -> str:
        """The same, but nothing is started."""
        server = postgres.status(self.settings)
        embedded = server.url if server else "postgresql://localhost/postgres"
        return wish.database or self.settings.postgres or embedded

    def _client(self) -> dict[str, str]:
        return kafka.client(self.settings)

    def _rest(self) -> Rest:
        """An embedded Connect that does not run is started."""
        own = self.settings.connect
        return Rest(own if own is not None else connect.up(self.settings).url)

    def _running(self) -> Rest | None:
        """None if it is the embedded one, and it does not run."""
        if self.settings.connect is not None:
            return Rest(self.settings.connect)
        worker = connect.status(self.settings)
        return Rest(worker.url) if worker else None

    def _password(self, connector: Connector) -> str:
        """As Connect is told it: the embedded one reads it from a file, so that it is neither in
        Connect's topics nor in its answers."""
        if self.settings.connect is not None:
            return self.settings.connect_password or connector.address.password
        # one that has ended since it was asked for is started again, on its port
        file = secret_file(connect.up(self.settings).secrets, self.name)
        private.replace(file, f"password={property_text(connector.address.password)}\n")
        return f"${{file:{file}:password}}"


def _side(database: str) -> Side:
    return SIDES[kind_of(database)](database)
