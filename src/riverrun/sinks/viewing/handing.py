"""A view whose rows become those of another, and which another application writes from then on.

Followers are told the difference as one revision: the last batch of that application counts as the
first of a new generation, so that it comes after all that the view has told so far.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from riverrun.delivery.comparable import as_additions
from riverrun.delivery.encode import key_of, records
from riverrun.formats import keys
from riverrun.kernels.sql import shared_evaluator
from riverrun.outputs import Destination, OutputSpec, Owner, Swapped
from riverrun.schema import quoted
from riverrun.sinks.database import VERSION
from riverrun.sinks.viewing.notes import Revision
from riverrun.sinks.viewing.sink import View
from riverrun.sinks.viewing.store import Execute, Store

Difference = list[tuple[str, str | None, str | None]]
"""Key, new row and old row, in JSON."""


def difference(
    store: Store, tables: Destination, views: tuple[OutputSpec, OutputSpec], owner: Owner
) -> Difference:
    """What a view has otherwise than another, while nobody writes to either."""
    with duckdb.connect() as own:
        for name, output in zip(("new", "old"), views, strict=True):
            own.execute(f"CREATE TABLE {name} (key VARCHAR, value VARCHAR)")
            for made in _told(store, tables, output, owner):
                own.register("made", made)
                own.execute(f"INSERT INTO {name} SELECT key, value FROM made")
                own.unregister("made")
        return own.execute(
            "SELECT coalesce(new.key, old.key) AS k, new.value, old.value FROM new FULL JOIN old"
            " ON new.key = old.key WHERE new.value IS DISTINCT FROM old.value ORDER BY k"
        ).fetchall()


def _told(
    store: Store, tables: Destination, output: OutputSpec, owner: Owner
) -> Iterator[pa.Table]:
    """Its rows as followers are told of them."""
    standing = tables.standing(table_of(store, output), owner)
    assert standing is not None
    key, evaluator = keys.told(key_of(output), "key"), shared_evaluator()
    with standing as found:
        for rows in found.rows:
            made = records(output, as_additions(output, rows, evaluator), evaluator)
            yield evaluator.run(f"SELECT {key} AS key, value FROM rows", rows=made)


def table_of(store: Store, output: OutputSpec) -> OutputSpec:
    return OutputSpec(output.name, store.sink(view_of(output)), output.schema, output.key, True)


def view_of(output: OutputSpec) -> str:
    assert isinstance(output.sink, View)
    return output.sink.view


def copy_rows(execute: Execute, store: Store, source: OutputSpec, place: OutputSpec) -> None:
    names = ", ".join(map(quoted, (*source.schema.names, VERSION)))
    old, new = (store.table(view_of(each)) for each in (place, source))
    execute(f"DELETE FROM {old}")
    execute(f"INSERT INTO {old} ({names}) SELECT {names} FROM {new}")


def give(execute: Execute, owner: Owner, source: str, place: str) -> int | None:
    """From here on, the view is told of by the batches of its new owner. Gives the one that tells
    the difference, if the view was another's; one of its own is to be read anew."""
    [(layout, ways)] = execute("SELECT layout, ways FROM riverrun_views WHERE name = ?", source)
    known = execute("SELECT application, kept FROM riverrun_views WHERE name = ?", place)
    others = bool(known) and known[0][0] != owner.application
    last = _last(execute, owner, anew=others)
    execute("DELETE FROM riverrun_views WHERE name = ?", place)
    execute(
        "INSERT INTO riverrun_views VALUES (?, ?, ?, ?, ?)",
        place, owner.application, layout, ways, known[0][1] if others else str(last),
    )  # fmt: skip
    return last.batch if others else None


def _last(execute: Execute, owner: Owner, *, anew: bool) -> Revision:
    """The last batch of the owner; it may count from here on as the first of a new generation."""
    last = "SELECT generation, batch FROM riverrun_batches WHERE checkpoint = ?"
    found = execute(f"{last} ORDER BY generation DESC, batch DESC LIMIT 1", owner.checkpoint)
    generation, batch = found[0]
    if anew:
        (highest,) = execute("SELECT max(generation) FROM riverrun_batches")[0]
        execute(
            "UPDATE riverrun_batches SET generation = ? WHERE generation = ? AND batch = ?",
            highest + 1, generation, batch,
        )  # fmt: skip
        generation = highest + 1
    return Revision(generation, batch)


def swapped(found: Difference) -> Swapped:
    return Swapped(
        added=sum(old is None for _, _, old in found),
        changed=sum(None not in (new, old) for _, new, old in found),
        removed=sum(new is None for _, new, _ in found),
    )
