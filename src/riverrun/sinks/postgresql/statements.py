"""What is asked of PostgreSQL in more than one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from riverrun.outputs import OutputSpec, Owner
from riverrun.schema import quoted
from riverrun.sinks.postgresql.load import Piece
from riverrun.sinks.postgresql.tables import table_name


@contextmanager
def staged(connection: psycopg.Connection, output: OutputSpec, columns: str) -> Iterator[str]:
    """A table with some columns of the output's, for a moment."""
    connection.execute(
        f"CREATE TEMPORARY TABLE riverrun_staged ON COMMIT DROP AS"
        f" SELECT {columns} FROM {table_name(output)} WITH NO DATA"
    )
    yield "pg_temp.riverrun_staged"
    connection.execute("DROP TABLE pg_temp.riverrun_staged")


def copy(connection: psycopg.Connection, table: str, columns: str, piece: Piece) -> None:
    statement = f"COPY {table} ({columns}) FROM STDIN (FORMAT {piece.format})"
    with connection.cursor().copy(statement) as target:
        for lot in piece.lots():
            target.write(lot)


def same_keys(key: Sequence[str], other: str, *, nulls: bool) -> Iterator[str]:
    """Conditions, one of which holds where a row of `own` has the key of one of `other`."""
    yield " AND ".join(f"own.{name} = {other}.{name}" for name in key)
    if nulls:
        # an index helps with `=` only: rows without a null go by it, the few others do not
        null = " OR ".join(f"{other}.{name} IS NULL" for name in key)
        both = " AND ".join(f"own.{name} IS NOT DISTINCT FROM {other}.{name}" for name in key)
        yield f"({null}) AND {both}"


def last_batch(connection: psycopg.Connection, owner: Owner) -> int:
    """The last one that has written anything; -1 before the first."""
    last = "SELECT coalesce(max(batch), -1) FROM riverrun_progress WHERE checkpoint = %s"
    row = connection.execute(last, (owner.checkpoint,)).fetchone()
    assert row is not None
    return int(row[0])


def names(of: Sequence[str]) -> str:
    return ", ".join(map(quoted, of))
