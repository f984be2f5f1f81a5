"""Delivery to views, exactly once: rows, their changes and the note of them are one transaction.

A batch is released when all its tasks have written their parts: the driver notes it then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa

from riverrun.delivery.comparable import as_deletions
from riverrun.delivery.encode import key_of, records
from riverrun.errors import DatabaseError
from riverrun.formats import keys
from riverrun.outputs import (
    Destination,
    Done,
    Evaluator,
    OutputSpec,
    Owner,
    Part,
    Renewal,
    Rows,
    Standing,
    Swapped,
    Ways,
    together,
)
from riverrun.sinks.progress import compared
from riverrun.sinks.viewing import handing
from riverrun.sinks.viewing.notes import (
    BEGINNING,
    CHANGE,
    CHANGES,
    TABLES,
    Facts,
    Layout,
    Revision,
    ways_written,
)
from riverrun.sinks.viewing.sink import View
from riverrun.sinks.viewing.store import Execute, Store

TIDY = 60.0
"""Seconds between two looks for what need not be kept any longer."""
AT_ONCE = 500
"""Rows of one statement."""
MOST = 2_000_000
"""Changes of a view that are kept."""
HOUR = 3_600_000_000
"""So long it is known of each batch how far it read: tokens go by that."""


class Views(Destination):
    def __init__(self, store: Store) -> None:
        self.store, self.tables = store, store.writer()
        self.tidied_at = 0.0

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        self.tables.prepare([*map(self._table, outputs), self._changes])
        with self.store.transaction() as execute:
            for statement in TABLES:
                execute(statement)

    def take_over(self, application: str, run: int) -> None:
        self.tables.take_over(application, run)

    def announce(
        self, application: str, outputs: Sequence[OutputSpec], ways: Mapping[str, Ways]
    ) -> None:
        with self.store.transaction() as execute:
            for output in outputs:
                self._note_view(execute, application, output, ways[output.name])

    def _note_view(
        self, execute: Execute, application: str, output: OutputSpec, ways: Ways
    ) -> None:
        name, layout = _view(output).view, Layout.of(output).written()
        found = execute("SELECT application FROM riverrun_views WHERE name = ?", name)
        if found and found[0][0] != application:
            raise DatabaseError(
                f"the view {name!r} is that of another application",
                where=self.store.where,
                got=found[0][0],
                hint=f"choose another name; or, if it is not wanted: riverrun views drop {name}",
            )
        if found:
            execute(
                "UPDATE riverrun_views SET layout = ?, ways = ? WHERE name = ?",
                layout, ways_written(ways), name,
            )  # fmt: skip
        else:
            execute(
                "INSERT INTO riverrun_views VALUES (?, ?, ?, ?, ?)",
                name, application, layout, ways_written(ways), str(BEGINNING),
            )  # fmt: skip

    def start_over(self, part: Part, outputs: Sequence[OutputSpec], evaluator: Evaluator) -> None:
        """Views begin empty: followers are told of the rows that go, as of a batch before the
        first. All in one transaction, since a start that is broken off has another checkpoint."""
        owner, gone = Owner(part.application, part.checkpoint), 0
        with self.store.transaction() as execute:
            for output in outputs:
                view, table = _view(output).view, self._table(output)
                with self.tables.standing(table, owner) or _nothing() as found:
                    for rows in found.rows:
                        taken = as_deletions(output, rows, evaluator)
                        changes = _changes(replace(part, task=gone), output, taken, evaluator)
                        _insert(execute, CHANGES, changes)
                        gone += 1
                execute(f"DELETE FROM {self.store.table(view)}")
            if gone:
                self._note(execute, Done.before_all(part))

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> Any:
        rows = [(self._table(output), each) for output, each in found]
        changes = [_changes(part, output, each, evaluator) for output, each in together(found)]
        return self.tables.deliver(
            part, [*rows, (self._changes, pa.concat_tables(changes))], evaluator
        )

    def compare(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        if found:
            self.deliver(compared(part), found, evaluator)
        else:
            self.tables.compare(part, [], evaluator)

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        """See `note`."""

    def note(self, done: Done) -> None:
        with self.store.transaction() as execute:
            self._note(execute, done)

    def _note(self, execute: Execute, done: Done) -> None:
        generation = _generation(execute, done.checkpoint)
        last = execute(
            "SELECT facts FROM riverrun_batches WHERE generation = ? AND batch < ?"
            " ORDER BY batch DESC LIMIT 1",
            generation, done.batch,
        )  # fmt: skip
        now = Facts(
            done.ends, done.own, done.clocks, done.highs, done.closes, done.aside
        )  # fmt: skip
        facts = now.after(Facts.read(last[0][0]) if last else Facts())
        execute(
            "DELETE FROM riverrun_batches WHERE generation = ? AND batch = ?",
            generation, done.batch,
        )  # fmt: skip
        changed = _changed(execute, done)
        execute(
            "INSERT INTO riverrun_batches VALUES (?, ?, ?, ?, ?, ?, ?)",
            generation, done.batch, done.application, done.checkpoint, done.tick, changed,
            facts.written(),
        )  # fmt: skip
        if time.monotonic() > self.tidied_at + TIDY:
            self.tidied_at = time.monotonic()
            _tidy(execute, done)

    def standing(self, output: OutputSpec, owner: Owner) -> AbstractContextManager[Standing] | None:
        return self.tables.standing(self._table(output), owner)

    def renewal(self, output: OutputSpec, owner: Owner) -> AbstractContextManager[Renewal] | None:
        """None: followers would not be told of what it changes."""
        return None

    def handed_over(self, source: OutputSpec, place: OutputSpec, owner: Owner) -> Swapped:
        """Nothing is done twice: what was handed over is the owner's."""
        views = source, place
        found = handing.difference(self.store, self.tables, views, owner)
        old, new = _view(source).view, _view(place).view
        with self.store.transaction() as execute:
            whose = execute("SELECT application FROM riverrun_views WHERE name = ?", new)
            if found or whose != [(owner.application,)]:
                handing.copy_rows(execute, self.store, source, place)
                batch = handing.give(execute, owner, old, new)
                if batch is not None:
                    at = new, owner.checkpoint, batch, 0
                    told = [(*at, n, key, row) for n, (key, row, _) in enumerate(found)]
                    _insert(execute, CHANGES, _table_of(told))
        return handing.swapped(found)

    def close(self) -> None:
        self.tables.close()

    def _table(self, output: OutputSpec) -> OutputSpec:
        return replace(output, sink=self.store.sink(_view(output).view))

    @property
    def _changes(self) -> OutputSpec:
        return OutputSpec(CHANGES, self.store.own(CHANGES), CHANGE, (), table=False)


def _view(output: OutputSpec) -> View:
    assert isinstance(output.sink, View)
    return output.sink


def _changes(part: Part, output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
    """The keys and rows that followers are told: what a batch has made of each key."""
    key = keys.told(key_of(output), "key")
    found = evaluator.run(
        f"SELECT {key} AS key, value FROM rows ORDER BY key", rows=records(output, rows, evaluator)
    )
    place = {"view": _view(output).view, "checkpoint": part.checkpoint}
    numbers = {"batch": part.batch, "task": part.task}
    count = found.num_rows
    return pa.table(
        {
            **{name: pa.array([text] * count, pa.string()) for name, text in place.items()},
            **{name: pa.array([number] * count, pa.int64()) for name, number in numbers.items()},
            "n": pa.array(range(count), pa.int64()),
            "key": found["key"].cast(pa.string()),
            "value": found["value"].cast(pa.string()),
        }
    )


def _table_of(told: list[tuple[Any, ...]]) -> pa.Table:
    names = CHANGE.names
    columns = zip(*told, strict=True) if told else [()] * len(names)
    return pa.table([pa.array(each) for each in columns], names=list(names))


@contextmanager
def _nothing() -> Iterator[Standing]:
    yield Standing(None, iter(()))


def _insert(execute: Execute, table: str, rows: pa.Table) -> None:
    names, many = ", ".join(rows.column_names), len(rows.column_names)
    values = list(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
    for begin in range(0, len(values), AT_ONCE):
        some = values[begin : begin + AT_ONCE]
        marks = ", ".join([f"({', '.join('?' * many)})"] * len(some))
        execute(f"INSERT INTO {table} ({names}) VALUES {marks}", *chain.from_iterable(some))


def _generation(execute: Execute, checkpoint: str) -> int:
    known = execute("SELECT max(generation) FROM riverrun_batches WHERE checkpoint = ?", checkpoint)
    if known[0][0] is not None:
        return int(known[0][0])
    return int(execute("SELECT coalesce(max(generation), 0) FROM riverrun_batches")[0][0]) + 1


def _changed(execute: Execute, done: Done) -> str:
    """How many rows of each view the batch has changed."""
    mine = "SELECT name FROM riverrun_views WHERE application = ?"
    count = f"SELECT count(*) FROM {CHANGES} WHERE view = ? AND checkpoint = ? AND batch = ?"
    found = {
        name: execute(count, name, done.checkpoint, done.batch)[0][0]
        for (name,) in execute(mine, done.application)
    }
    return json.dumps(found)


def _tidy(execute: Execute, done: Done) -> None:
    """Forgets changes that were kept long enough, or are too many; then notes of batches, never
    the last one's."""
    batches = execute(
        "SELECT generation, batch, checkpoint, tick, changed FROM riverrun_batches"
        " WHERE application = ? ORDER BY generation DESC, batch DESC",
        done.application,
    )
    mine = "SELECT name, layout, kept FROM riverrun_views WHERE application = ?"
    for name, layout, kept in execute(mine, done.application):
        left = MOST
        for generation, batch, checkpoint, tick, changed in batches:
            left -= json.loads(changed).get(name, 0)
            # a batch of before anything was read has no time
            if left < 0 or 0 < tick < done.tick - Layout.read(layout).changes:
                end = Revision(generation, batch)
                if end > Revision.parse(kept):
                    _forget(execute, name, end, checkpoint)
                break
    last = (
        "batch < (SELECT max(batch) FROM riverrun_batches AS others"
        " WHERE others.generation = riverrun_batches.generation)"
    )
    kept = "SELECT kept FROM riverrun_views WHERE application = ?"
    ends = [Revision.parse(each) for (each,) in execute(kept, done.application)]
    if ends:
        execute(
            f"DELETE FROM riverrun_batches WHERE application = ? AND tick < ? AND {last}"
            " AND (generation, batch) < (?, ?)",
            done.application, done.tick - HOUR, *min(ends),
        )  # fmt: skip
    execute(
        f"UPDATE riverrun_batches SET facts = '{{}}' WHERE application = ? AND tick < ? AND {last}"
        " AND facts <> '{}'",
        done.application, done.tick - HOUR,
    )  # fmt: skip


def _forget(execute: Execute, view: str, end: Revision, checkpoint: str) -> None:
    """The changes of a view up to a revision."""
    execute("UPDATE riverrun_views SET kept = ? WHERE name = ?", str(end), view)
    execute(
        f"DELETE FROM {CHANGES} WHERE view = ? AND checkpoint = ? AND batch <= ?",
        view, checkpoint, end.batch,
    )  # fmt: skip
    older = "SELECT DISTINCT checkpoint FROM riverrun_batches WHERE generation < ?"
    for (before,) in execute(older, end.generation):
        execute(f"DELETE FROM {CHANGES} WHERE view = ? AND checkpoint = ?", view, before)
