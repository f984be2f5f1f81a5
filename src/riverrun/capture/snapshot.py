"""Rows of tables as they were at one position of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import psycopg
from psycopg import sql

from riverrun.capture import catalog
from riverrun.capture.address import connected
from riverrun.capture.catalog import Column, TableFacts
from riverrun.capture.envelopes import CapturedTable, Envelopes
from riverrun.capture.ledger import Ledger
from riverrun.capture.pgoutput import Cells
from riverrun.capture.wire import Exported
from riverrun.errors import DatabaseError

ALL = sql.SQL("")
AT_ONCE, TOGETHER = 50_000, 1000
"""Rows of one transaction of Kafka, and rows that are counted together."""
Count = Callable[[str, int], None]
"""Hears how many rows of a table are written."""


def copied(
    connection: psycopg.Connection[Any],
    table: str,
    columns: Sequence[Column],
    rest: sql.Composable = ALL,
) -> Iterator[Cells]:
    """Rows, their values in text. The query may go on after the table's name."""
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
    query = sql.SQL("COPY (SELECT {} FROM {} {}) TO STDOUT").format(
        names, catalog.named(table), rest
    )
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        yield from copy.rows()


def write_all(
    database: str,
    exported: Exported,
    tables: Mapping[str, tuple[TableFacts, CapturedTable]],
    ledger: Ledger,
    envelopes: Envelopes,
    *,
    count: Count,
) -> None:
    """All rows of the tables as they were when the slot was made."""
    with connected(database) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute(
            sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(exported.snapshot))
        )
        for name, (facts, table) in tables.items():
            _lock(connection, facts)
            read = envelopes.reading(table, "true", exported.lsn)
            found, rows = copied(connection, name, facts.columns), 0
            while some := list(islice(found, TOGETHER)):
                ledger.send(map(read, some))
                rows += len(some)
                count(name, rows)
                if ledger.pending >= AT_ONCE:
                    ledger.commit()
            ledger.commit()
            count(name, rows)


def _lock(connection: psycopg.Connection[Any], facts: TableFacts) -> None:
    """From here on the table keeps its columns; they are those of the snapshot."""
    table = catalog.named(facts.full_name)
    connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(table))
    now = catalog.facts(connection, facts.full_name)
    if (now.columns, now.file) != (facts.columns, facts.file):
        raise DatabaseError(
            f"{facts.full_name} was altered while its snapshot began", hint="it begins again"
        )
