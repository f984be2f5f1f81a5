"""Tables in an SQLite file, exactly once: a part and the note of it are one transaction.

SQLite has five kinds of values; the declared type of a column says which of them it prefers.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from riverrun.arguments import checked
from riverrun.errors import DatabaseError
from riverrun.formats.instants import with_texts
from riverrun.outputs import (
    Delivery,
    Destination,
    Evaluator,
    Guarantee,
    Need,
    OutputSpec,
    Owner,
    Part,
    Places,
    Renewal,
    Rows,
    Sink,
    Standing,
)
from riverrun.schema import Schema, nested, quoted
from riverrun.sinks.database import (
    PATIENCE,
    PROGRESS,
    RUNS,
    VERSION,
    Changes,
    Clash,
    check_table,
    refuse_clashes,
    refuse_columns,
    text_tables,
)
from riverrun.sinks.progress import Progress, checksum, compared, done, refuse_if_fenced, taken_over
from riverrun.sinks.sqlite_renewal import SqliteRenewal
from riverrun.versions import Version

Row = tuple[Any, ...]

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
TEXTS = ("VARCHAR", "HUGEINT", "UBIGINT", "UHUGEINT", "TIME", "UUID", "JSON", '"NULL"')
"""Numbers beyond 64 bits, and decimals, are written as text: no digit is lost."""

BACK = {"INTEGER": "BIGINT", "REAL": "DOUBLE", "TEXT": "VARCHAR", "BLOB": "BLOB"}


@dataclass(frozen=True)
class Sqlite(Sink):
    """A table of an SQLite database."""

    file: Path
    table: str

    @property
    def name(self) -> str:
        return f"sqlite:{self.file.name}:{self.table}"

    @property
    def text(self) -> str:
        return f"SQLite table {self.table} of {self.file}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "exactly once"

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        refuse_columns(columns.visible, column_type, table=table, where=where)

    def destination(self, places: Places) -> Destination:
        return SqliteFile(self.file)

    def place(self) -> Hashable:
        """All tables of a file are written in one transaction."""
        return (Sqlite, self.file)

    def beside(self, version: Version) -> Sqlite:
        named = version.table(self.table)
        check_table(named, named)
        return replace(self, table=named)

    def needs(self) -> frozenset[Need]:
        return frozenset({"one machine"})


@checked
def sqlite(file: str | Path, table: str) -> Sqlite:
    """A table in an SQLite file, as `postgres`. The file is made if it is missing."""
    check_table(table, table)
    return Sqlite(Path(file).expanduser().absolute(), table)


@dataclass(frozen=True)
class Load:
    """An output's changes: rows to put there, and keys of rows to delete."""

    output: OutputSpec
    put: pa.Table
    gone: pa.Table | None

    @property
    def rows(self) -> list[Row]:
        return _rows(self.put) + (_rows(self.gone) if self.gone else [])


class SqliteFile(Destination):
    def __init__(self, file: Path) -> None:
        self.file = file

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        with self._transaction() as connection:
            clashes = [(_table(output), list(_clashes(connection, output))) for output in outputs]
            refuse_clashes(clashes, self.file)
            for output in outputs:
                if not _columns(connection, output):
                    connection.execute(creation(output))
            connection.execute(PROGRESS)
            connection.execute(RUNS)

    def take_over(self, application: str, run: int) -> None:
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO riverrun_runs VALUES (?, ?) ON CONFLICT (application)"
                " DO UPDATE SET run = max(run, excluded.run)",
                (application, run),
            )
            latest = _latest_run(connection, application)
        if latest is not None and latest > run:
            raise taken_over(application, run, latest)

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        loads = [_load(Changes(o, with_texts(rows), evaluator, cell)) for o, rows in found]
        rows = [row for load in loads for row in load.rows]
        total = checksum(repr(row).encode() for row in rows)
        now = Progress(part.batch, len(rows), total, part.run)
        with self._transaction() as connection:
            refuse_if_fenced(part, _latest_run(connection, part.application))
            if not done(part, _progress(connection, part), now):
                _note(connection, part, now)
                for load in loads:
                    _write(connection, load, part.tick)

    def compare(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        self.deliver(compared(part), found, evaluator)

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        """Tasks do it all."""

    @contextmanager
    def standing(self, output: OutputSpec, owner: Owner) -> Iterator[Standing]:
        """Readers see the file as it was when they began, and hold up no writer."""
        if not self.file.exists():
            raise DatabaseError("there is no such file", where=self.file, hint="has the job run?")
        with self._opened() as own:
            own.execute("BEGIN")
            last = "SELECT max(batch) FROM riverrun_progress WHERE checkpoint = ?"
            (batch,) = own.execute(last, (owner.checkpoint,)).fetchone()
            rows = own.execute(f"SELECT {_names(output.schema.names)} FROM {_table(output)}")
            yield Standing(-1 if batch is None else batch, text_tables(output, rows))

    @contextmanager
    def renewal(self, output: OutputSpec, owner: Owner) -> Iterator[Renewal]:
        def loaded(rows: pa.Table, evaluator: Evaluator) -> tuple[pa.Table, pa.Table | None]:
            load = _load(Changes(output, with_texts(rows), evaluator, cell))
            return load.put, load.gone

        with self._opened() as own:
            yield SqliteRenewal(own, output, owner, _table(output), loaded)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Writers wait for each other, so that nothing is read that changes before it is used."""
        with self._opened() as own:
            own.execute("PRAGMA journal_mode=WAL")
            own.execute("BEGIN IMMEDIATE")
            try:
                yield own
            except BaseException:
                if own.in_transaction:
                    own.execute("ROLLBACK")
                raise
            own.execute("COMMIT")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=PATIENCE, isolation_level=None)) as own:
                yield own
        except (OSError, sqlite3.Error) as error:
            raise DatabaseError("SQLite refuses", where=self.file, got=error) from error


def cell(type: str, expression: str) -> str:
    """How a value is given to SQLite. Times are ISO 8601 text already."""
    if nested(type):
        return f"to_json({expression})::VARCHAR"
    if type == "BOOLEAN":
        return f"{expression}::INTEGER"
    if type == "BLOB" or type.startswith("TIMESTAMP"):
        return expression
    return expression if column_type(type) in ("INTEGER", "REAL") else f"{expression}::VARCHAR"


def creation(output: OutputSpec) -> str:
    columns = [f"{quoted(name)} {type}" for name, type in _wanted(output)]
    if output.table:
        columns.append(f"UNIQUE ({_names(output.key)})")
    return f"CREATE TABLE {_table(output)} ({', '.join(columns)})"


def _wanted(output: OutputSpec) -> list[tuple[str, str]]:
    found = [(column.name, column_type(column.type) or "") for column in output.schema.columns]
    return [*found, (VERSION, "INTEGER NOT NULL")] if output.table else found


def _load(changes: Changes) -> Load:
    fresh, changed = changes.fresh(), changes.changed()
    put = pa.concat_tables([fresh, changed]) if changed else fresh
    return Load(changes.output, put, changes.gone())


def _write(connection: sqlite3.Connection, load: Load, tick: int) -> None:
    output, table = load.output, _table(load.output)
    names = load.put.column_names
    values = ", ".join("?" for _ in names)
    rows = _rows(load.put)
    if not output.table:
        insert = f"INSERT INTO {table} ({_names(names)}) VALUES ({values})"
        connection.executemany(insert, rows)
        return
    # `IS` finds nulls, and uses the index; ON CONFLICT takes each null for another one
    same = " AND ".join(f"{quoted(name)} IS ?" for name in output.key)
    key = [names.index(name) for name in output.key]
    changed = [place for place, name in enumerate(names) if name not in output.key]
    new = "".join(f"{quoted(names[place])} = ?, " for place in changed)
    connection.executemany(
        f"UPDATE {table} SET {new}{VERSION} = ? WHERE {same} AND ({VERSION} > ?) IS NOT TRUE",
        ((*_picked(row, changed), tick, *_picked(row, key), tick) for row in rows),
    )
    connection.executemany(
        f"INSERT INTO {table} ({_names(names)}, {VERSION}) SELECT {values}, ?"
        f" WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})",
        ((*row, tick, *_picked(row, key)) for row in rows),
    )
    if load.gone is not None:
        same = " AND ".join(f"{quoted(name)} IS ?" for name in load.gone.column_names)
        delete = f"DELETE FROM {table} WHERE {same} AND ({VERSION} > ?) IS NOT TRUE"
        connection.executemany(delete, ((*row, tick) for row in _rows(load.gone)))


def _rows(rows: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _picked(row: Row, places: Sequence[int]) -> Row:
    return tuple(row[place] for place in places)


def _latest_run(connection: sqlite3.Connection, application: str) -> int | None:
    query = "SELECT run FROM riverrun_runs WHERE application = ?"
    row = connection.execute(query, (application,)).fetchone()
    return row[0] if row else None


def _progress(connection: sqlite3.Connection, part: Part) -> Progress | None:
    row = connection.execute(
        "SELECT batch, rows, checksum, run FROM riverrun_progress"
        " WHERE checkpoint = ? AND task = ?",
        (part.checkpoint, part.task),
    ).fetchone()
    return Progress(*row) if row else None


def _note(connection: sqlite3.Connection, part: Part, now: Progress) -> None:
    place = (part.application, part.checkpoint, part.task)
    connection.execute(
        "REPLACE INTO riverrun_progress (application, checkpoint, task, run, batch, rows, checksum)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*place, now.run, now.batch, now.rows, now.checksum),
    )


def _clashes(connection: sqlite3.Connection, output: OutputSpec) -> Iterator[Clash]:
    there = {name.lower(): facts for name, *facts in _columns(connection, output)}
    if not there:
        return
    alter = f"ALTER TABLE {_table(output)}"
    for name, wanted in _wanted(output):
        facts = there.pop(name.lower(), None)
        type = wanted.split()[0]
        if facts is None:
            default = " DEFAULT 0" if name == VERSION else ""
            mend = f"{alter} ADD COLUMN {quoted(name)} {wanted}{default};"
            yield Clash(f"no column {name!r}", mend)
        elif facts[3]:
            yield Clash(f"the column {name!r} is computed by the database")
        elif not fits(type, facts[0]):
            yield Clash(f"the column {name!r} is {facts[0]}, not {type}")
    for name, (_, required, default, computed) in there.items():
        if required and default is None and not computed:
            yield Clash(f"the column {name!r} must not be null, and has no default")
    if output.table and {name.lower() for name in output.key} not in _keys(connection, output):
        unique = f"CREATE UNIQUE INDEX {quoted(f'{_bare(output)}_key')} ON {_table(output)}"
        mend = f"{unique} ({_names(output.key)});"
        yield Clash(f"the key ({', '.join(output.key)}) is not unique", mend)


def _columns(connection: sqlite3.Connection, output: OutputSpec) -> list[Row]:
    """Name, declared type, whether null is refused, default, whether it is computed."""
    query = 'SELECT name, type, "notnull", dflt_value, hidden > 1 FROM pragma_table_xinfo(?)'
    return connection.execute(query, (_bare(output),)).fetchall()


def _keys(connection: sqlite3.Connection, output: OutputSpec) -> list[set[str]]:
    query = 'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial'
    indexes = [row[0] for row in connection.execute(query, (_bare(output),))]
    columns = "SELECT lower(name) FROM pragma_index_info(?)"
    keys = [{row[0] for row in connection.execute(columns, (index,))} for index in indexes]
    own = "SELECT lower(name) FROM pragma_table_info(?) WHERE pk"
    return [*keys, {row[0] for row in connection.execute(own, (_bare(output),))}]


def _bare(output: OutputSpec) -> str:
    assert isinstance(output.sink, Sqlite)
    return output.sink.table


def _table(output: OutputSpec) -> str:
    return quoted(_bare(output))


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def column_type(type: str) -> str | None:
    """The type of a column that holds this; None if there is none."""
    if type in INTEGERS:
        return "INTEGER"
    if type in ("FLOAT", "DOUBLE"):
        return "REAL"
    if type in ("BOOLEAN", "DATE", "BLOB"):
        return type
    if type.startswith("TIMESTAMP"):
        return "TIMESTAMP"
    return "TEXT" if nested(type) or type in TEXTS or re.match("ENUM|DECIMAL", type) else None


def schema_type(found: str) -> str:
    """What a column of this declared type is read as."""
    if found in ("BOOLEAN", "DATE", "TIMESTAMP"):
        return found
    return BACK.get(affinity(found), "VARCHAR")  # any other: text


def affinity(declared: str) -> str:
    """The kind of value that SQLite prefers in a column, by its own rules."""
    name = declared.upper()
    for words, kind in (
        (("INT",), "INTEGER"),
        (("CHAR", "CLOB", "TEXT"), "TEXT"),
        (("BLOB",), "BLOB"),
        (("REAL", "FLOA", "DOUB"), "REAL"),
    ):
        if any(word in name for word in words):
            return kind
    return "NUMERIC" if name else "BLOB"


def fits(wanted: str, found: str) -> bool:
    """Whether a column holds every value as it is written, without SQLite's changing it."""
    kinds = {
        "INTEGER": ("INTEGER", "NUMERIC", "BLOB"),
        "BOOLEAN": ("INTEGER", "NUMERIC", "BLOB"),
        "REAL": ("REAL", "BLOB"),
        "TEXT": ("TEXT", "BLOB"),
        "TIMESTAMP": ("TEXT", "NUMERIC", "BLOB"),
        "DATE": ("TEXT", "NUMERIC", "BLOB"),
        "BLOB": ("TEXT", "NUMERIC", "BLOB"),
    }
    return affinity(found) in kinds[wanted]
