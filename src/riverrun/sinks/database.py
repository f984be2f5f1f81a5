"""What deliveries to databases share: changes folded to rows by key, clashes, and patience."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.errors import DatabaseError, ProgramError, caller
from riverrun.formats.numbers import with_words
from riverrun.outputs import Evaluator, OutputSpec
from riverrun.schema import Column, Schema, nested, quoted

OWN_TABLES = ("riverrun_progress", "riverrun_runs")
LONGEST_NAME = 63
"""Bytes of a name that PostgreSQL keeps."""

VERSION = "_version"
"""The column of a table that holds the tick of the batch which wrote the row."""

READ_AT_ONCE = 50_000

PATIENCE = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0

PROGRESS = (
    "CREATE TABLE IF NOT EXISTS riverrun_progress (application text NOT NULL,"
    " checkpoint text NOT NULL, task integer NOT NULL, run bigint NOT NULL, batch bigint NOT NULL,"
    " rows bigint NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (checkpoint, task))"
)
RUNS = (
    "CREATE TABLE IF NOT EXISTS riverrun_runs (application text PRIMARY KEY, run bigint NOT NULL)"
)

Cell = Callable[[str, str], str]
"""From a type and an expression of DuckDB to the expression that is written."""


class Changes:
    """What becomes of an output's table. Each kind of change is made when it is asked for.

    A key's old and new row leave together: only the new one is written.
    """

    def __init__(
        self, output: OutputSpec, rows: pa.Table, evaluator: Evaluator, cell: Cell | None
    ) -> None:
        """Without `cell`, values stay as they are."""
        self.output, self.rows = output, rows
        self._evaluator, self._cell = evaluator, cell

    def fresh(self) -> pa.Table:
        """Rows that should not be there yet: nothing was told of them before."""
        return self._by_key(self._written(self._rows(earlier=False)))

    def changed(self) -> pa.Table | None:
        """Rows that take the place of others. A stream has none."""
        if not self.output.table:
            return None
        return self._by_key(self._written(self._rows(earlier=True)))

    def gone(self) -> pa.Table | None:
        """The keys of rows to delete, if there are any."""
        if not self.output.table or pc.min(self.rows["__op"]).as_py() > 0:
            return None
        key = ", ".join(map(quoted, self.output.key))
        query = f"SELECT {key} FROM rows GROUP BY ALL HAVING max(__op) < 0"
        found = self._evaluator.run(query, rows=self.rows)
        return self._by_key(self._written(found)) if found.num_rows else None

    def _rows(self, *, earlier: bool) -> pa.Table:
        """Rows to put there, of which something was told earlier, or not."""
        if not self.output.table:
            return self.rows
        told = pc.greater(self.rows["__revision"], 0).fill_null(False)
        wanted = pc.and_(pc.greater(self.rows["__op"], 0), told if earlier else pc.invert(told))
        return self.rows.filter(wanted)

    def _written(self, rows: pa.Table) -> pa.Table:
        """The columns that there are, as they are written."""
        columns = [
            column for column in self.output.schema.columns if column.name in rows.schema.names
        ]
        if self._cell is None:
            return rows.select([column.name for column in columns])
        chosen = [f"{self._cell(c.type, quoted(c.name))} AS {quoted(c.name)}" for c in columns]
        rows = self._with_distinct_keys(rows)
        made = self._evaluator.run(f"SELECT {', '.join(chosen)} FROM rows", rows=rows)
        return _valid_json([c for c in columns if c.name not in self.output.key], made)

    def _with_distinct_keys(self, rows: pa.Table) -> pa.Table:
        """In lists and structs of a key what is no number is a word, or null would be the same."""
        inner = [c.name for c in self.output.schema.columns if nested(c.type)]
        for name in set(inner) & set(self.output.key):
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, with_words(rows.select([name]))[name])
        return rows

    def _by_key(self, rows: pa.Table) -> pa.Table:
        """Neighbours in an index are written together."""
        # Arrow has no order of lists and structs that are not written as text
        plain = [n for n in self.output.key if not pa.types.is_nested(rows.schema.field(n).type)]
        if not self.output.table or not plain:
            return rows
        return rows.sort_by([(name, "ascending") for name in plain])


def _valid_json(columns: Sequence[Column], rows: pa.Table) -> pa.Table:
    """JSON knows neither NaN nor infinity: inside lists, structs and maps they are null."""
    for column in columns:
        if not nested(column.type) or not re.search("DOUBLE|FLOAT", column.type):
            continue
        texts = rows[column.name]
        if pc.any(pc.match_substring_regex(texts, "NaN|Infinity")).as_py():
            finite = [None if text is None else _finite(text) for text in texts.to_pylist()]
            place = rows.schema.get_field_index(column.name)
            rows = rows.set_column(place, column.name, pa.array(finite, pa.string()))
    return rows


def _finite(text: str) -> str:
    return json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)


class Cursor(Protocol):
    def fetchmany(self, size: int, /) -> list[Any]: ...


def text_tables(output: OutputSpec, found: Cursor) -> Iterator[pa.Table]:
    """Rows as they are read from a database: texts, and bytes."""
    types = [pa.binary() if c.type == "BLOB" else pa.string() for c in output.schema.columns]
    while rows := found.fetchmany(READ_AT_ONCE):
        columns = (
            pa.array([_text(value, type) for value in values], type)
            for values, type in zip(zip(*rows, strict=True), types, strict=True)
        )
        yield pa.table(list(columns), names=list(output.schema.names))


def _text(value: Any, type: pa.DataType) -> Any:
    """A store without strict types may hold anything anywhere."""
    if value is None:
        return None
    if pa.types.is_binary(type):
        return value if isinstance(value, bytes) else str(value).encode()
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def check_table(name: str, given: str) -> None:
    if not re.fullmatch(r"[\w-]+", name) or len(name.encode()) > LONGEST_NAME:
        raise ProgramError(
            "a table's name has letters, digits, _ and -, and at most 63 bytes",
            where=caller(),
            got=repr(given),
        )
    if name.lower() in OWN_TABLES:
        raise ProgramError(f"the table {name!r} is riverrun's own", where=caller())


def refuse_columns(
    columns: Schema, column_type: Callable[[str], str | None], *, table: bool, where: object
) -> None:
    """Columns that a database cannot have: those that riverrun adds, and types of no column."""
    if table and VERSION in {name.lower() for name in columns.names}:
        raise ProgramError(
            f"the column name {VERSION!r} is riverrun's own in a database",
            where=where,
            hint="choose another name",
        )
    for column in columns.columns:
        if column_type(column.type) is None:
            raise ProgramError(
                f"the type of {column.name!r} cannot be written to a database",
                where=where,
                got=column.type,
                hint="cast it, e.g. to string",
            )


@dataclass(frozen=True)
class Clash:
    """How an existing table does not fit, and the statement that would mend it."""

    fact: str
    mend: str | None = None


def refuse_clashes(found: Sequence[tuple[str, Sequence[Clash]]], where: object) -> None:
    """One error for all tables, with everything that is to be done."""
    clashing = [(table, clashes) for table, clashes in found if clashes]
    if not clashing:
        return
    names = ", ".join(table for table, _ in clashing)
    facts = [f"{table}: {clash.fact}" for table, clashes in clashing for clash in clashes]
    mends = [clash.mend for _, clashes in clashing for clash in clashes if clash.mend]
    mended = f"these statements mend it: {' '.join(mends)} Or write" if mends else "write"
    raise DatabaseError(
        f"the output does not fit the table {names}",
        where=where,
        got="; ".join(facts),
        hint=f"{mended} to another table",
    )


def retried(
    attempt: Callable[[], None], *, lost: tuple[type[Exception], ...], where: object
) -> None:
    """Tries again for a minute when the connection is lost: the server may be restarting."""
    give_up_at, pause = time.monotonic() + PATIENCE, FIRST_PAUSE
    while True:
        try:
            attempt()
            return
        except lost as error:
            if time.monotonic() + pause > give_up_at:
                raise DatabaseError(
                    f"the database did not take a batch within {PATIENCE:g} s",
                    where=where,
                    got=str(error).strip().replace("\n", " "),
                    hint="is the server running? the batch is delivered when the job starts again",
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
