"""A table of PostgreSQL made anew in a temporary one, then brought in line in one transaction.

The table itself stays: renaming another one into its place would lose what hangs on it (views,
privileges, triggers, publications, columns of the user's own), and show an empty table to whoever
has a snapshot of before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pyarrow as pa

from riverrun.formats.instants import with_texts
from riverrun.outputs import Evaluator, OutputSpec, Owner, Renewal, Swapped
from riverrun.schema import nested, quoted
from riverrun.sinks.database import VERSION, Changes
from riverrun.sinks.postgresql.load import Piece, cell
from riverrun.sinks.postgresql.statements import copy, last_batch, names, same_keys, staged
from riverrun.sinks.postgresql.tables import table_name

FRESH = "pg_temp.riverrun_fresh"


class PostgresRenewal(Renewal):
    def __init__(self, connection: psycopg.Connection, output: OutputSpec, owner: Owner) -> None:
        self.connection, self.output, self.owner = connection, output, owner
        self.table, self.columns = table_name(output), names(output.schema.names)
        self.key = [quoted(name) for name in output.schema.names if name in output.key]
        self.empty = True
        connection.execute(
            f"CREATE TEMPORARY TABLE riverrun_fresh AS SELECT {self.columns} FROM {self.table}"
            " WITH NO DATA"
        )
        connection.execute(f"CREATE INDEX ON {FRESH} ({', '.join(self.key)})")

    def change(self, rows: pa.Table, evaluator: Evaluator) -> None:
        changes = Changes(self.output, with_texts(rows), evaluator, cell)
        fresh, changed, gone = changes.fresh(), changes.changed(), changes.gone()
        put = pa.concat_tables([fresh, changed]) if changed else fresh
        keys = [name for name in put.column_names if name in self.output.key]
        told = pa.concat_tables([put.select(keys), *([gone.select(keys)] if gone else [])])
        with self.connection.transaction():
            if not self.empty:
                self._take_away(Piece(self.output, told, "csv"))
            if put.num_rows:
                copy(self.connection, FRESH, self.columns, Piece(self.output, put, "csv"))
        self.empty = False

    def _take_away(self, keys: Piece) -> None:
        columns = ", ".join(self.key)
        with staged(self.connection, self.output, columns) as beside:
            copy(self.connection, beside, columns, keys)
            for condition in same_keys(self.key, "told", nulls=keys.nulls):
                self.connection.execute(
                    f"DELETE FROM {FRESH} AS own USING {beside} AS told WHERE {condition}"
                )

    @contextmanager
    def held(self) -> Iterator[int | None]:
        """Writers hold the row of their run, shared, until their transaction ends."""
        self.connection.execute(f"ANALYZE {FRESH}")
        with self.connection.transaction():
            self.connection.execute(
                "SELECT FROM riverrun_runs WHERE application = %s FOR UPDATE",
                (self.owner.application,),
            )
            yield last_batch(self.connection, self.owner)

    def swap(self, tick: int) -> Swapped:
        same = " AND ".join(f"own.{name} = new.{name}" for name in self.key)
        own = f"{self.table} AS own"
        removed = self._count(
            f"DELETE FROM {own} WHERE NOT EXISTS (SELECT FROM {FRESH} AS new WHERE {same})"
        )
        others = [c for c in self.output.schema.columns if c.name not in self.output.key]
        changed = 0
        if others:
            new = ", ".join(f"{quoted(c.name)} = new.{quoted(c.name)}" for c in others)
            unlike = " OR ".join(_unlike(quoted(c.name), c.type) for c in others)
            changed = self._count(
                f"UPDATE {own} SET {new}, {VERSION} = {tick} FROM {FRESH} AS new"
                f" WHERE {same} AND ({unlike})"
            )
        added = self._count(
            f"INSERT INTO {self.table} ({self.columns}, {VERSION})"
            f" SELECT {self.columns}, {tick} FROM {FRESH} AS new"
            f" WHERE NOT EXISTS (SELECT FROM {own} WHERE {same})"
        )
        return Swapped(added, changed, removed)

    def _count(self, statement: str) -> int:
        return self.connection.execute(statement).rowcount


def _unlike(name: str, type: str) -> str:
    # JSON that is not `jsonb` cannot be compared
    cast = "::jsonb" if nested(type) or type == "JSON" else ""
    return f"own.{name}{cast} IS DISTINCT FROM new.{name}{cast}"
