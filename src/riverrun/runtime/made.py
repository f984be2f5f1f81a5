"""What a version has made for itself, as plain facts: its program may be gone by then."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from riverrun.config import Settings
from riverrun.embedded import postgres
from riverrun.errors import InputError
from riverrun.kafka import admin
from riverrun.outputs import OutputSpec, Sink
from riverrun.schema import quoted
from riverrun.sinks.database import OWN_TABLES, PATIENCE
from riverrun.sinks.delta_folder import Delta
from riverrun.sinks.fulltext.sink import SearchIndex
from riverrun.sinks.parquet_folder import Parquet
from riverrun.sinks.postgresql.connecting import connect
from riverrun.sinks.postgresql.sink import Postgres
from riverrun.sinks.sqlite_file import Sqlite
from riverrun.sinks.viewing.sink import FILE, View
from riverrun.sinks.viewing.store import Store, store_at
from riverrun.views import Reader
from riverrun.views.dropping import drop

Fact = dict[str, str]
"""`kind`, what it is called, and where."""
STAYS = "stays"
"""What nobody knows how to remove: it is told."""


def facts(outputs: Sequence[OutputSpec], home: Path) -> list[Fact]:
    return [fact for each in outputs if (fact := _fact(each.sink, home))]


def _fact(sink: Sink, home: Path) -> Fact | None:
    if (topic := sink.kafka_topic()) is not None:
        return {"kind": "topic", "name": topic}
    match sink:
        case View():
            return {"kind": "view", "name": sink.view}
        case Postgres():
            return {"kind": "postgres", "name": sink.table}
        case Sqlite():
            return {"kind": "sqlite", "name": sink.table, "file": str(sink.file)}
        case Delta() | Parquet():
            return {"kind": "folder", "name": sink.folder}
        case SearchIndex():
            return {"kind": "folder", "name": str(sink.located(home))}
        case _:  # any other: the screen leaves nothing, and what others leave is theirs
            shown = sink.guarantee("exactly once") == "shown"
            return None if shown else {"kind": STAYS, "name": sink.text}


def text(fact: Fact) -> str:
    """For people."""
    kinds = {"postgres": "PostgreSQL table", "sqlite": "SQLite table", STAYS: ""}
    kind = kinds.get(fact["kind"], fact["kind"])  # any other: its own word
    of = f" of {fact['file']}" if "file" in fact else ""
    return f"{kind} {fact['name']}{of}".strip()


@dataclass
class Premises:
    """Where all that is: brokers, databases, this machine."""

    settings: Settings
    client: Mapping[str, str]

    def there(self, made: Sequence[Fact]) -> list[Fact]:
        """What is there of it."""
        topics = {each.name for each in admin.topics(self.client)}
        return [each for each in made if self._there(each, topics)]

    def _there(self, fact: Fact, topics: set[str]) -> bool:
        match fact["kind"]:
            case "topic":
                return fact["name"] in topics
            case "view":
                return fact["name"] in self._views()
            case "postgres":
                return self._in_postgres("SELECT to_regclass(%s) IS NOT NULL", _regclass(fact))
            case "sqlite":
                return _in_sqlite(fact)
            case "folder":
                folder = Path(fact["name"])
                return folder.is_dir() and any(folder.iterdir())
            case _:  # any other: nobody knows
                return False

    def remove(self, fact: Fact) -> None:
        """What is there of it is gone afterwards."""
        match fact["kind"]:
            case "topic":
                admin.delete_topic(self.client, fact["name"])
            case "view":
                with closing(Reader(self._store())) as reader:
                    drop(reader, fact["name"])
            case "postgres":
                with connect(postgres.ensure(self.settings)) as own:
                    own.execute(f"DROP TABLE {_regclass(fact)}")
            case "sqlite":
                with closing(sqlite3.connect(fact["file"], timeout=PATIENCE)) as file, file:
                    file.execute(f"DROP TABLE {quoted(fact['name'])}")
            case "folder":
                shutil.rmtree(fact["name"])
            case kind:
                raise AssertionError(f"{kind} is never there")

    def forget(self, made: Sequence[Fact], application: str) -> None:
        """What databases know of its runs and of how far it has come."""
        if any(each["kind"] == "postgres" for each in made):
            with connect(postgres.ensure(self.settings)) as own:
                for table in OWN_TABLES:
                    found = own.execute("SELECT to_regclass(%s)", (table,)).fetchone()
                    if found and found[0]:
                        own.execute(f"DELETE FROM {table} WHERE application = %s", (application,))
        for name in {each["file"] for each in made if each["kind"] == "sqlite"}:
            for table in OWN_TABLES:
                if _in_sqlite({"name": table, "file": name}):
                    with closing(sqlite3.connect(name, timeout=PATIENCE)) as file, file:
                        file.execute(f"DELETE FROM {table} WHERE application = ?", (application,))

    def own_topics(self, application: str) -> Iterator[Fact]:
        """Progress, control log, dead letters, late rows and what else is called after it."""
        for each in admin.topics(self.client):
            if each.name.startswith(f"{application}."):
                yield {"kind": "topic", "name": each.name}

    def _in_postgres(self, query: str, value: str) -> bool:
        with connect(postgres.ensure(self.settings)) as own:
            found = own.execute(query, (value,)).fetchone()
        return bool(found and found[0])

    def _views(self) -> set[str]:
        with closing(Reader(self._store())) as reader, suppress(InputError):  # there are none yet
            return {each.name for each in reader.views()}
        return set()

    def _store(self) -> Store:
        kind = self.settings.views
        address = postgres.ensure(self.settings) if kind == "postgres" else None
        return store_at(kind, address, self.settings.home / FILE)


def _regclass(fact: Fact) -> str:
    return ".".join(map(quoted, fact["name"].split(".", 1)))


def _in_sqlite(fact: Fact) -> bool:
    if not Path(fact["file"]).exists():
        return False
    with closing(sqlite3.connect(fact["file"])) as own:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
        return own.execute(query, (fact["name"],)).fetchone() is not None
