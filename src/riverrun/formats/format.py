"""What a format is: bytes to columns and columns to bytes, with causes for what cannot be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import reduce
from typing import ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.errors import JobError
from riverrun.formats import keys as plain_keys
from riverrun.formats.instants import with_texts
from riverrun.formats.numbers import with_words
from riverrun.formats.query import arrow_schema, run, spread
from riverrun.schema import Schema, quoted, schema_of


class Written(NamedTuple):
    """Rows, and the expressions over them that give the key and the value of their records."""

    rows: pa.Table
    key: str
    value: str


class Format(ABC):
    """Derive from it for a format of your own, and give an instance to `format=…`.

    Its code runs in Spark's workers, and has to give the same for the same bytes.
    """

    name: str
    time: str = "_timestamp"
    """The column that tells when an event happened, unless the program says otherwise."""
    marks: ClassVar[Mapping[str, str]] = {}
    """Columns that it gives beside the declared ones, with their types."""

    @abstractmethod
    def decode(self, records: pa.Table, columns: Schema, *, key: tuple[str, ...] = ()) -> pa.Table:
        """The columns of records, a row for each.

        `records` have `__value` and `__key`, in bytes; none is without a value. A column may be of
        any type that Arrow casts to the declared one. A column `__cause` says why a record cannot
        be read, and is null where all is well. An error that is raised is the cause of the record
        that raises it. Of a table, `key` names the columns that tell rows apart, and a column
        `__gone` may say which records delete; those without a value do so anyway.
        """

    @abstractmethod
    def encode(self, rows: pa.Table, columns: Schema) -> pa.Array:
        """The value of each row, as bytes or text."""

    def encode_key(self, rows: pa.Table, columns: Schema, *, table: bool) -> pa.Array:
        """The key of each row: the text of one text column, else JSON.

        A table's row has one also where its columns are null: compacted topics take none without.
        """
        key = plain_keys.written(columns, table=table)
        made = run(f"SELECT {key} AS key FROM rows", rows=with_words(with_texts(rows)))
        return made["key"].combine_chunks()

    def decode_key(self, found: pa.Array, columns: Schema) -> pa.Table:
        """The columns that `encode_key` was given; null where a key cannot be read."""
        read = ", ".join(
            f"{plain_keys.read(columns, c)} AS {quoted(c.name)}" for c in columns.columns
        )
        return run(f"SELECT {read} FROM lot", lot=pa.table({"__key": found}))

    def prepared(self, records: pa.Table, columns: Schema, key: tuple[str, ...]) -> pa.Table:
        """Records, with what `relation` needs beside them."""
        given = pc.is_valid(records["__value"])
        decoded = spread(self._isolated(records.filter(given), columns, key), given)
        for name in decoded.column_names:
            records = records.append_column(name, decoded[name])
        return self._with_keys(records, columns.only(key)) if key else records

    def _with_keys(self, records: pa.Table, key: Schema) -> pa.Table:
        """The columns of keys, of records that do not have them in their value."""
        absent = reduce(pc.or_, (pc.is_null(records[name]) for name in key.names))
        found = self.decode_key(records["__key"].filter(absent).combine_chunks(), key)
        found = spread(found, absent)
        for name in key.names:
            records = records.append_column(f"__key:{name}", found[name])
        return records

    def relation(self, columns: Schema, key: tuple[str, ...]) -> str:
        """A query over `lot`: its columns, those of the records, `__cause`, of tables `__gone`."""
        filled = [f"coalesce({quoted(k)}, {quoted(f'__key:{k}')}) AS {quoted(k)}" for k in key]
        empty = "NULL" if key else "'the record has no value'"
        cause = f"CASE WHEN __value IS NULL THEN {empty} ELSE __cause END AS __cause"
        gone = ["__value IS NULL OR coalesce(__gone, false) AS __gone"] if key else []
        return f"SELECT * REPLACE ({', '.join([*filled, cause, *gone])}) FROM lot"

    def read(self, records: pa.Table, columns: Schema, key: tuple[str, ...] = ()) -> pa.Table:
        """The columns, `__cause` and, of tables, `__gone` of records, as a program sees them."""
        names = [*map(quoted, columns.names), "__cause", *(["__gone"] if key else [])]
        query = f"SELECT {', '.join(names)} FROM ({self.relation(columns, key)})"
        return run(query, lot=self.prepared(records, columns, key))

    def read_back(self, records: pa.Table, columns: Schema, key: tuple[str, ...] = ()) -> pa.Table:
        """The same, of records that this format has written."""
        return self.read(records, columns, key)

    def written(self, rows: pa.Table, columns: Schema, key: Schema, *, table: bool) -> Written:
        """Rows of an output, with expressions for their records."""
        values = self.encode(rows.select(list(columns.names)), columns).cast(pa.binary())
        keys = pa.nulls(rows.num_rows)
        if key.columns:
            keys = self.encode_key(rows.select(list(key.names)), key, table=table)
        rows = rows.append_column("__value", values)
        return Written(rows.append_column("__key", keys.cast(pa.binary())), "__key", "__value")

    def _isolated(self, records: pa.Table, columns: Schema, key: tuple[str, ...]) -> pa.Table:
        """What `decode` gives; a record that it fails on is found by halving."""
        schema = self._result_schema(columns, key)
        try:
            return self._checked(records, columns, key, schema)
        except JobError:
            raise
        except Exception as error:  # whatever the user's code raises
            if records.num_rows == 1:
                cause = f"{type(error).__name__}: {error}"
                return pa.Table.from_pylist([{"__cause": cause}], schema=schema)
        middle = records.num_rows // 2
        halves = (records.slice(0, middle), records.slice(middle))
        return pa.concat_tables([self._isolated(half, columns, key) for half in halves])

    def _checked(
        self, records: pa.Table, columns: Schema, key: tuple[str, ...], schema: pa.Schema
    ) -> pa.Table:
        if records.num_rows == 0:
            return schema.empty_table()
        found = self.decode(records, columns, key=key)
        missing = [name for name in columns.names if name not in found.column_names]
        if missing or found.num_rows != records.num_rows:
            raise JobError(
                f"the format {self.name!r} does not give what it has to",
                got=f"{found.num_rows} rows of {', '.join(found.column_names)}",
                hint=f"{records.num_rows} rows of {', '.join(columns.names)}",
            )
        for name in ("__cause", "__gone"):
            if name not in found.column_names:
                found = found.append_column(name, pa.nulls(found.num_rows))
        return found.select(schema.names).cast(schema)

    def _result_schema(self, columns: Schema, key: tuple[str, ...]) -> pa.Schema:
        marks = [pair for pair in self.marks.items() if pair[0] not in columns]
        found = arrow_schema(Schema((*columns.columns, *schema_of(marks).columns)))
        found = found.append(pa.field("__cause", pa.string()))
        return found.append(pa.field("__gone", pa.bool_())) if key else found
