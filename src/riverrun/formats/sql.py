"""Formats that DuckDB reads and writes: their expressions become part of the one query of a lot."""

from __future__ import annotations

from abc import abstractmethod

import pyarrow as pa

from riverrun.formats import keys
from riverrun.formats.format import Format, Written
from riverrun.formats.query import run
from riverrun.schema import Schema


class SqlFormat(Format):
    """A format as expressions, which cost no query of their own."""

    @abstractmethod
    def prepared(self, records: pa.Table, columns: Schema, key: tuple[str, ...]) -> pa.Table:
        """Records, with what `relation` needs beside them."""

    @abstractmethod
    def relation(self, columns: Schema, key: tuple[str, ...]) -> str:
        """A query over `lot`: its columns, those of the records, `__cause`, of tables `__gone`."""

    @abstractmethod
    def value(self, columns: Schema) -> str:
        """The bytes of a row's value."""

    def shown(self, rows: pa.Table) -> pa.Table:
        """Rows as `value` wants them."""
        return rows

    def decode(self, records: pa.Table, columns: Schema, *, key: tuple[str, ...] = ()) -> pa.Table:
        return self.read(records, columns, key)

    def encode(self, rows: pa.Table, columns: Schema) -> pa.Array:
        query = f"SELECT {self.value(columns)} AS value FROM rows"
        return run(query, rows=self.shown(rows))["value"].combine_chunks()

    def written(self, rows: pa.Table, columns: Schema, key: Schema, *, table: bool) -> Written:
        return Written(self.shown(rows), keys.written(key, table=table), self.value(columns))
