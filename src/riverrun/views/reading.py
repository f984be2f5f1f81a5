"""Views as they stand, read where they are kept, with the note of how fresh they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from riverrun.errors import InputError
from riverrun.outputs import Ways
from riverrun.schema import quoted
from riverrun.sinks.viewing.notes import BEGINNING, CHANGES, Facts, Layout, Revision, ways_read
from riverrun.sinks.viewing.store import PostgresStore, SqliteStore, Store
from riverrun.views.asked import Asked, Words, asked, place_text
from riverrun.views.connections import (
    Connection,
    PerThread,
    PostgresConnection,
    SqliteConnection,
    Table,
    no_views,
)
from riverrun.views.dialect import Dialect, InPostgres, InSqlite, keyed
from riverrun.views.tokens import Note, Token, Verdict, verdict
from riverrun.views.values import given

Row = dict[str, Any]
REMEMBERED = 1.0
"""Seconds for which it is known what a view holds."""
NOTES = 20_000
"""Batches of an application that are remembered."""
LOOK = 0.02
"""Seconds between two looks whether a token is met."""


@dataclass(frozen=True)
class Known:
    """What is noted of a view."""

    name: str
    application: str
    layout: Layout
    ways: Ways
    kept: Revision
    """Changes after it can be followed."""


@dataclass(frozen=True)
class Page:
    rows: list[Row]
    next: str | None
    """What the next page is asked with; None after the last row."""


ANEW = "read the whole view, and follow it from the revision of the answer"
END = 2**31
"""After all tasks of a batch."""


class Place(NamedTuple):
    """A place among the changes of a view: after a change of a task of a revision."""

    revision: Revision
    task: int = END
    n: int = 0

    def __str__(self) -> str:
        return f"{self.revision}.{self.task}.{self.n}" if self.task < END else str(self.revision)

    @classmethod
    def parse(cls, text: str) -> Place:
        """`generation.batch`, after all of it, or `generation.batch.task.n`."""
        try:
            generation, batch, *within = (int(each) for each in text.split("."))
            task, n = within or (END, 0)
            if min(generation, batch + 1, task, n) < 0 or max(generation, batch, task, n) > END:
                raise ValueError(text)
        except ValueError as error:
            raise InputError(
                "the revision cannot be read", got=repr(text)[:100], hint="such as 1.52"
            ) from error
        return cls(Revision(generation, batch), task, n)


class Change(NamedTuple):
    place: Place
    """After it."""
    key: str
    """In JSON: the value of one column, an object of several."""
    value: str | None
    """The row in JSON; None if it is gone."""


class Reader:
    """All views of one database."""

    def __init__(self, store: Store, queries: str | None = None) -> None:
        """`queries` is the address that other people's SQL is asked at, in PostgreSQL."""
        self.store = store
        self.dialect: Dialect = InSqlite() if isinstance(store, SqliteStore) else InPostgres()
        self._connections = PerThread(_connecting(store))
        self._asking = PerThread(_connecting(PostgresStore(queries) if queries else store))
        self._known: dict[str, tuple[float, Known]] = {}
        self._notes: dict[str, list[Note]] = {}

    def close(self) -> None:
        self._connections.close()
        self._asking.close()

    @property
    def connection(self) -> Connection:
        return self._connections.get()

    def version(self) -> object:
        """Another one when something was written since."""
        if isinstance(self.store, SqliteStore):
            return self.connection.rows("PRAGMA data_version")
        return self.connection.rows("SELECT max(tick), count(*) FROM riverrun_batches")

    def views(self) -> list[Known]:
        sql = "SELECT name, application, layout, ways, kept FROM riverrun_views ORDER BY name"
        return [_known(*row) for row in self.connection.rows(sql)]

    def view(self, name: str) -> Known:
        """An InputError if there is none."""
        at, found = self._known.get(name, (0.0, None))
        if found is None or time.monotonic() > at + REMEMBERED:
            sql = "SELECT name, application, layout, ways, kept FROM riverrun_views WHERE name = ?"
            rows = self.connection.rows(sql, name)
            if not rows:
                raise self._no_view(name)
            found = _known(*rows[0])
            self._known[name] = time.monotonic(), found
        return found

    def _no_view(self, name: str) -> InputError:
        names = [each.name for each in self.views()]
        if not names:
            return no_views(self.store.where)
        return NoView(f"there is no view {name!r}"[:200], hint=f"there are {', '.join(names)}")

    def get(self, name: str, key: Sequence[str | None]) -> Row | None:
        """The row of a key, whose values are given as texts."""
        view = self.view(name)
        layout, schema = view.layout, view.layout.schema
        if len(key) != len(layout.key):
            raise InputError(f"the key of {name} is ({', '.join(layout.key)})", got=_values(key))
        columns = schema.only(layout.key).columns
        values = [None if t is None else given(c, t) for c, t in zip(columns, key, strict=True)]
        where, taken = keyed(self.dialect, schema, layout.key, values)
        sql = f"SELECT {self._names(layout)} FROM {self.store.table(name)} WHERE {where}"
        rows = self._made(layout, self.connection.rows(sql, *taken))
        return next(rows, None)

    def count(self, name: str) -> int:
        found = self.connection.rows(f"SELECT count(*) FROM {self.store.table(name)}")
        return int(found[0][0])

    def page(self, name: str, words: Words) -> Page:
        view = self.view(name)
        layout, schema = view.layout, view.layout.schema
        want = asked(words, schema, layout.key)
        where, values = self.dialect.where(want, schema)
        order = self.dialect.order(want, schema)
        sql = f"SELECT {self._names(layout)} FROM {self.store.table(name)}{where}{order} LIMIT ?"
        found = self.connection.rows(sql, *values, want.limit + 1)
        rows = list(self._made(layout, found[: want.limit]))
        following = self._following(want, rows) if len(found) > want.limit else None
        if want.columns:
            rows = [{column: row[column] for column in want.columns} for row in rows]
        return Page(rows, following)

    def _following(self, want: Asked, rows: list[Row]) -> str:
        last = rows[-1]
        return place_text(want.order, [last[each.column] for each in want.order])

    def changes(self, name: str, after: Place, limit: int) -> list[Change]:
        """What has changed since, in the order of revisions, of batches that are all there; from
        the beginning: all that is kept."""
        view = self.view(name)
        if after.revision == BEGINNING:
            after = Place(view.kept)
        if after.revision < view.kept:
            raise Gone(f"changes of {name} after {after.revision} are no longer kept", hint=ANEW)
        rows = []
        if after.task < END:
            rest = "= (?, ?) AND (changes.task, changes.n) > (?, ?)"
            place = (*after.revision, after.task, after.n)
            rows = self.connection.rows(_following(rest), name, *place, limit)
        if len(rows) < limit:
            left = limit - len(rows)
            rows += self.connection.rows(_following("> (?, ?)"), name, *after.revision, left)
        return [_change(*row) for row in rows]

    def query(self, sql: str, *, seconds: float, limit: int) -> Table:
        return self._asking.get().query(sql, seconds=seconds, limit=limit)

    def last(self, application: str) -> Note | None:
        """The last batch that is all there."""
        found = self.connection.rows(
            "SELECT generation, batch, tick, facts FROM riverrun_batches WHERE application = ?"
            " ORDER BY generation DESC, batch DESC LIMIT 1",
            application,
        )
        return _note(*found[0]) if found else None

    def notes(self, application: str) -> list[Note]:
        """Those of its latest checkpoint that are known, in their order."""
        known = self._notes.get(application, [])
        since = known[-1].revision if known else Revision(0, -1)
        found = self.connection.rows(
            "SELECT generation, batch, tick, facts FROM riverrun_batches WHERE application = ?"
            " AND (generation, batch) > (?, ?) ORDER BY generation DESC, batch DESC LIMIT ?",
            application, *since, NOTES,
        )  # fmt: skip
        known = [*known, *(_note(*row) for row in reversed(found))]
        if known:
            latest = known[-1].revision.generation
            known = [note for note in known if note.revision.generation == latest][-NOTES:]
        self._notes[application] = known
        return known

    def verdict(self, name: str, token: Token) -> Verdict:
        view = self.view(name)
        return verdict(token, view.ways, self.notes(view.application), view=name)

    def awaited(self, name: str, token: Token, seconds: float) -> Verdict:
        """What has become of what was written, as soon as it is there, or when time is over."""
        give_up_at = time.monotonic() + seconds
        while True:
            found = self.verdict(name, token)
            if found.state != "waiting" or time.monotonic() > give_up_at:
                return found
            time.sleep(LOOK)

    def _names(self, layout: Layout) -> str:
        return ", ".join(quoted(name) for name, _ in layout.columns)

    def _made(self, layout: Layout, rows: Sequence[tuple[Any, ...]]) -> Iterator[Row]:
        made = [(name, self.dialect.made(type)) for name, type in layout.columns]
        for row in rows:
            pairs = zip(made, row, strict=True)
            yield {name: None if value is None else make(value) for (name, make), value in pairs}


def with_nulls(view: Known, parts: Sequence[str], nulls: Sequence[str]) -> list[str | None]:
    """A key of which only those columns are given that are not null."""
    if not nulls:
        return list(parts)
    key = view.layout.key
    for name in nulls:
        if name not in key:
            raise InputError(
                f"{name!r} is not in the key of {view.name}"[:300], hint=f"it is {', '.join(key)}"
            )
    given = iter([] if list(parts) == [""] and set(nulls) == set(key) else parts)
    found = [None if name in nulls else next(given, None) for name in key]
    missing = [name for name, part in zip(key, found, strict=True) if part is None]
    if (surplus := list(given)) or set(missing) != set(nulls):
        raise InputError(
            f"the key of {view.name} is ({', '.join(key)})",
            got=f"{_values(parts)} besides null for {', '.join(nulls)}",
            hint="columns that are null have no part in it" if surplus else None,
        )
    return found


def _values(given: Sequence[object]) -> str:
    return f"{len(given)} value{'' if len(given) == 1 else 's'}"


class NoView(InputError):
    """There is no view of the name."""


class Gone(InputError):
    """What is asked for is no longer kept."""


def never_was(name: str, place: Place, now: Place) -> Gone:
    return Gone(
        f"{name} has no revision {place.revision} yet", got=f"the last is {now.revision}", hint=ANEW
    )


def _known(name: str, application: str, layout: str, ways: str, kept: str) -> Known:
    return Known(name, application, Layout.read(layout), ways_read(ways), Revision.parse(kept))


def _note(generation: int, batch: int, tick: int, facts: str) -> Note:
    return Note(Revision(generation, batch), tick, Facts.read(facts))


def _following(place: str) -> str:
    """Changes of a view at a place, in their order: all of it is in indexes."""
    return (
        "SELECT batches.generation, batches.batch, changes.task, changes.n, changes.key,"
        f" changes.value FROM riverrun_batches AS batches JOIN {CHANGES} AS changes"
        " ON changes.checkpoint = batches.checkpoint AND changes.batch = batches.batch"
        f" WHERE changes.view = ? AND (batches.generation, batches.batch) {place}"
        " ORDER BY batches.generation, batches.batch, changes.task, changes.n LIMIT ?"
    )


def _change(generation: int, batch: int, task: int, n: int, *change: str) -> Change:
    key, value = change
    return Change(Place(Revision(generation, batch), task, n), key, value)


def _connecting(store: Store) -> Callable[[], Connection]:
    if isinstance(store, SqliteStore):
        file = store.file
        return lambda: SqliteConnection(file)
    assert isinstance(store, PostgresStore)
    url, where = store.url, store.where
    return lambda: PostgresConnection(url, where)
