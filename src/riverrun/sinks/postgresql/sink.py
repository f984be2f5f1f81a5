"""A table in PostgreSQL as a sink."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from riverrun.arguments import checked
from riverrun.outputs import Delivery, Destination, Guarantee, Need, Places, Sink
from riverrun.schema import Schema
from riverrun.sinks.database import check_table, refuse_columns
from riverrun.sinks.postgresql.types import column_type
from riverrun.versions import Version


@dataclass(frozen=True)
class Postgres(Sink):
    """A table of the PostgreSQL database that the settings name."""

    table: str
    """`table` or `schema.table`."""

    @property
    def name(self) -> str:
        return f"postgres:{self.table}"

    @property
    def text(self) -> str:
        return f"PostgreSQL table {self.table}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "exactly once"

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        refuse_columns(columns.visible, column_type, table=table, where=where)

    def destination(self, places: Places) -> Destination:
        # only programs that run wait for the client
        from riverrun.sinks.postgresql.delivery import PostgresDatabase  # noqa: PLC0415

        assert places.postgres is not None
        return PostgresDatabase(places.postgres)

    def place(self) -> Hashable:
        """All tables are written in one transaction."""
        return Postgres

    def beside(self, version: Version) -> Postgres:
        named = version.table(self.table)
        check_table(named.rpartition(".")[2], named)
        return replace(self, table=named)

    def needs(self) -> frozenset[Need]:
        return frozenset({"PostgreSQL"})


@checked
def postgres(table: str) -> Postgres:
    """A table in PostgreSQL, `"table"` or `"schema.table"`, made from the columns if missing.

    A stream's rows are added; a table's rows are put in, changed and deleted by key.
    """
    for part in table.split(".", 1):
        check_table(part, table)
    return Postgres(table)
