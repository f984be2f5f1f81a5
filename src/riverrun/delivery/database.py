"""What deliveries to databases share: changes folded to rows by key, clashes, and patience."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.errors import DatabaseError, ProgramError
from riverrun.kernels.sql import Evaluator
from riverrun.program import OutputSpec
from riverrun.schema import Column, nested, quoted

VERSION = "_version"
"""The column of a table that holds the tick of the batch which wrote the row."""

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
        self, output: OutputSpec, rows: pa.Table, evaluator: Evaluator, cell: Cell
    ) -> None:
        self.output, self.rows = output, rows
        self._evaluator, self._cell = evaluator, cell
        self._chosen = ", ".join(_written(column, cell) for column in output.schema.columns)

    def fresh(self) -> pa.Table:
        """Rows that should not be there yet: nothing was told of them before."""
        if not self.output.table:
            return self._made(f"SELECT {self._chosen} FROM rows")
        return self._put("__revision <= 0")

    def changed(self) -> pa.Table | None:
        """Rows that take the place of others. A stream has none."""
        return self._put("__revision > 0") if self.output.table else None

    def gone(self) -> pa.Table | None:
        """The keys of rows to delete, if there are any."""
        output = self.output
        if not output.table or pc.min(self.rows["__op"]).as_py() > 0:
            return None
        columns = [column for column in output.schema.columns if column.name in output.key]
        keys = ", ".join(_written(column, self._cell) for column in columns)
        key = ", ".join(map(quoted, output.key))
        query = f"SELECT {keys} FROM (SELECT {key} FROM rows GROUP BY ALL HAVING max(__op) < 0)"
        found = self._evaluator.run(query, rows=self.rows)
        return self._by_key(found) if found.num_rows else None

    def _put(self, condition: str) -> pa.Table:
        query = f"SELECT {self._chosen} FROM rows WHERE __op > 0 AND {condition}"
        return self._by_key(self._made(query))

    def _made(self, query: str) -> pa.Table:
        return _valid_json(self.output, self._evaluator.run(query, rows=self.rows))

    def _by_key(self, rows: pa.Table) -> pa.Table:
        """Neighbours in an index are written together."""
        return rows.sort_by([(name, "ascending") for name in self.output.key])


def _written(column: Column, cell: Cell) -> str:
    name = quoted(column.name)
    return f"{cell(column.type, name)} AS {name}"


def _valid_json(output: OutputSpec, rows: pa.Table) -> pa.Table:
    """JSON knows neither NaN nor infinity: inside lists, structs and maps they are null."""
    for place, column in enumerate(output.schema.columns):
        if not nested(column.type) or not re.search("DOUBLE|FLOAT", column.type):
            continue
        texts = rows[column.name]
        if pc.any(pc.match_substring_regex(texts, "NaN|Infinity")).as_py():
            finite = [None if text is None else _finite(text) for text in texts.to_pylist()]
            rows = rows.set_column(place, column.name, pa.array(finite, pa.string()))
    return rows


def _finite(text: str) -> str:
    return json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)


def refuse_own_columns(outputs: Iterable[OutputSpec]) -> None:
    for output in outputs:
        if output.table and VERSION in {name.lower() for name in output.schema.names}:
            raise ProgramError(
                f"the column name {VERSION!r} is riverrun's own in a database",
                where=output.name,
                hint="choose another name",
            )


def refuse_types(outputs: Iterable[OutputSpec], column_type: Callable[[str], str | None]) -> None:
    for output in outputs:
        for column in output.schema.columns:
            if column_type(column.type) is None:
                raise ProgramError(
                    f"the type of {column.name!r} cannot be written to a database",
                    where=output.name,
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
