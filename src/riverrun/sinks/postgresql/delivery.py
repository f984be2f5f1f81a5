"""Delivery to PostgreSQL, exactly once: a part and the note of it are one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import psycopg

from riverrun.errors import DatabaseError
from riverrun.outputs import (
    Destination,
    Evaluator,
    OutputSpec,
    Owner,
    Part,
    Renewal,
    Rows,
    Standing,
)
from riverrun.schema import quoted
from riverrun.sinks.database import PROGRESS, RUNS, VERSION, retried, text_tables
from riverrun.sinks.postgresql import tables
from riverrun.sinks.postgresql.connecting import LOST, address, connect
from riverrun.sinks.postgresql.load import Load, Loader, Piece, progress
from riverrun.sinks.postgresql.renewal import PostgresRenewal
from riverrun.sinks.postgresql.statements import copy, last_batch, names, same_keys, staged
from riverrun.sinks.postgresql.tables import table_name
from riverrun.sinks.progress import Compared, Progress, compared, done, refuse_if_fenced, taken_over

SESSION = (
    "SELECT set_config('TimeZone', 'UTC', true), set_config('application_name', %s, true),"
    " set_config('idle_in_transaction_session_timeout', '60s', true),"
    " set_config('lock_timeout', '10s', true)"
)
"""For one transaction, so that poolers may stand between."""
END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user"
    " AND pid <> pg_backend_pid() AND starts_with(application_name, %s)"
)
"""A writer that hangs in the middle of its transaction, and still holds what it has locked."""


class PostgresDatabase(Destination):
    def __init__(self, url: str) -> None:
        self.url, self.where = url, address(url)
        self.connection: psycopg.Connection | None = None
        self.known: set[str] = set()
        """Outputs whose rows were there before they were first told of, as after `--fresh`."""

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        with self._explained(), connect(self.url) as connection, connection.transaction():
            # two programs that start together must not make the same table
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('riverrun'))")
            tables.prepare(connection, outputs, self.where)
            connection.execute(PROGRESS)
            connection.execute(RUNS)

    def take_over(self, application: str, run: int) -> None:
        """Waits for a part that an earlier run is just writing; one that hangs is ended."""
        with self._explained(), connect(self.url) as connection:
            try:
                latest = _announced(connection, application, run)
            except psycopg.errors.LockNotAvailable:
                connection.execute(END_OTHERS, (_session(application),))
                latest = _announced(connection, application, run)
        if latest is not None and latest > run:
            raise taken_over(application, run, latest)

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        with self._explained(), ThreadPoolExecutor(1) as background:
            loader = Loader(part, found, evaluator, background)
            retried(lambda: self._attempt(part, loader), lost=LOST, where=self.where)

    def compare(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        self.deliver(compared(part), found, evaluator)

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        """Tasks do it all."""

    @contextmanager
    def standing(self, output: OutputSpec, owner: Owner) -> Iterator[Standing]:
        """All of one snapshot, which holds up no writer."""
        with self._explained(), connect(self.url) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.execute("SELECT set_config('TimeZone', 'UTC', true)")
            batch = last_batch(connection, owner)
            with connection.cursor(name="riverrun_standing") as rows:
                rows.execute(f"SELECT {_as_texts(output)} FROM {table_name(output)}")
                yield Standing(batch, text_tables(output, rows))
            connection.execute("ROLLBACK")

    @contextmanager
    def renewal(self, output: OutputSpec, owner: Owner) -> Iterator[Renewal]:
        """In a temporary table: it goes with the session."""
        with self._explained(), connect(self.url) as connection:
            # a run that takes over ends it like any writer that hangs
            session = f"{_session(owner.application)}rebuild"
            connection.execute("SELECT set_config('application_name', %s, false)", (session,))
            yield PostgresRenewal(connection, output, owner)

    def _attempt(self, part: Part, loader: Loader) -> None:
        session = _session(part.application, part.task)
        if self.connection is None:
            self.connection = connect(self.url)
        try:
            with self.connection.transaction():
                self.connection.execute(SESSION, (session,))
                refuse_if_fenced(part, _latest_run(self.connection, part.application))
                exact = (tables.exact(self.connection, each) for each in loader.outputs)
                loads = loader.loads(tuple(exact))
                if not isinstance(part, Compared) and _claim(self.connection, part):
                    for each in loads:
                        self._write(self.connection, each, part.tick)
                    _note(self.connection, part, progress(part, loads))
                else:
                    done(part, _noted(self.connection, part), progress(part, loads))
        except psycopg.errors.LockNotAvailable:
            # an earlier attempt at the same part hangs: its process may be asleep
            self.connection.execute(END_OTHERS, (session,))
            self.close()
            raise
        except BaseException:
            self.close()
            raise

    def _write(self, connection: psycopg.Connection, load: Load, tick: int) -> None:
        """Changes first: they are looked for among the fewer rows that were there before."""
        output = load.output
        if load.changed.rows:
            _merge(connection, output, load.changed, meanwhile=load.go_on)
        if load.fresh.rows:
            if not output.table:
                copy(connection, table_name(output), names(output.schema.names), load.fresh)
            elif not self._add(connection, output, load.fresh):
                _merge(connection, output, load.fresh, meanwhile=load.go_on)
        if load.gone.rows:
            _delete(connection, output, load.gone, tick)

    def _add(self, connection: psycopg.Connection, output: OutputSpec, fresh: Piece) -> bool:
        """Puts rows there that should be new, which takes half the time; False if one is not."""
        if output.name in self.known:
            return False
        try:
            with connection.transaction():
                columns = names((*output.schema.names, VERSION))
                copy(connection, table_name(output), columns, fresh)
        except psycopg.errors.UniqueViolation:
            self.known.add(output.name)
            return False
        return True

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            unreached = isinstance(error, LOST) and error.sqlstate is None
            raise DatabaseError(
                "PostgreSQL cannot be reached" if unreached else "PostgreSQL refuses",
                where=self.where,
                got=_one_line(error),
                hint="see `postgres` in riverrun.toml, or RIVERRUN_POSTGRES" if unreached else None,
            ) from error


def _session(application: str, task: int | None = None) -> str:
    """The name of sessions, by which those of the same task are found."""
    short = sha256(application.encode()).hexdigest()[:16]
    return f"riverrun-{short}-" if task is None else f"riverrun-{short}-{task}/"


def _announced(connection: psycopg.Connection, application: str, run: int) -> int | None:
    """Notes the run; the latest one."""
    with connection.transaction():
        connection.execute(SESSION, (f"{_session(application)}run",))
        connection.execute(
            "INSERT INTO riverrun_runs AS own VALUES (%s, %s) ON CONFLICT (application)"
            " DO UPDATE SET run = excluded.run WHERE own.run < excluded.run",
            (application, run),
        )
        return _latest_run(connection, application)


def _latest_run(connection: psycopg.Connection, application: str) -> int | None:
    """Held until the transaction ends: a later run waits for it."""
    row = connection.execute(
        "SELECT run FROM riverrun_runs WHERE application = %s FOR SHARE", (application,)
    ).fetchone()
    return row[0] if row else None


def _claim(connection: psycopg.Connection, part: Part) -> bool:
    """Takes the part to deliver it; False if it was before. Another attempt at it is waited for."""
    claimed = connection.execute(
        "INSERT INTO riverrun_progress AS own"
        " (application, checkpoint, task, run, batch, rows, checksum)"
        " VALUES (%s, %s, %s, %s, %s, 0, 0) ON CONFLICT (checkpoint, task) DO UPDATE SET"
        " application = excluded.application, run = excluded.run, batch = excluded.batch"
        " WHERE own.batch < excluded.batch",
        (part.application, part.checkpoint, part.task, part.run, part.batch),
    )
    return claimed.rowcount > 0


def _note(connection: psycopg.Connection, part: Part, now: Progress) -> None:
    """What a claimed part held."""
    connection.execute(
        "UPDATE riverrun_progress SET rows = %s, checksum = %s WHERE checkpoint = %s AND task = %s",
        (now.rows, now.checksum, part.checkpoint, part.task),
    )


def _noted(connection: psycopg.Connection, part: Part) -> Progress | None:
    row = connection.execute(
        "SELECT batch, rows, checksum, run FROM riverrun_progress"
        " WHERE checkpoint = %s AND task = %s",
        (part.checkpoint, part.task),
    ).fetchone()
    return Progress(*row) if row else None


def _as_texts(output: OutputSpec) -> str:
    """Columns as DuckDB reads them."""
    return ", ".join(
        quoted(column.name) if column.type == "BLOB" else f"{quoted(column.name)}::text"
        for column in output.schema.columns
    )


def _merge(
    connection: psycopg.Connection,
    output: OutputSpec,
    piece: Piece,
    *,
    meanwhile: Callable[[], object],
) -> None:
    """Changes rows that are there, then adds the others: quicker than ON CONFLICT for all."""
    target, written = table_name(output), (*output.schema.names, VERSION)
    columns, key = names(written), [quoted(name) for name in output.key]
    same = " AND ".join(f"own.{name} = new.{name}" for name in key)
    changed = [quoted(name) for name in written if name not in output.key]
    with staged(connection, output, columns) as beside:
        copy(connection, beside, columns, piece)
        meanwhile()
        found = connection.execute(
            f"UPDATE {target} AS own SET {', '.join(f'{name} = new.{name}' for name in changed)}"
            f" FROM {beside} AS new WHERE {same} AND (own.{VERSION} > new.{VERSION}) IS NOT TRUE"
        ).rowcount
        if found < piece.rows:
            connection.execute(
                f"INSERT INTO {target} AS own ({columns}) SELECT {columns} FROM {beside} AS new"
                f" WHERE NOT EXISTS (SELECT FROM {target} AS own WHERE {same})"
                f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET"
                f" {', '.join(f'{name} = excluded.{name}' for name in changed)}"
                f" WHERE (own.{VERSION} > excluded.{VERSION}) IS NOT TRUE"
            )


def _delete(connection: psycopg.Connection, output: OutputSpec, gone: Piece, tick: int) -> None:
    key = [quoted(name) for name in output.schema.names if name in output.key]
    with staged(connection, output, ", ".join(key)) as beside:
        copy(connection, beside, ", ".join(key), gone)
        for condition in same_keys(key, "gone", nulls=gone.nulls):
            connection.execute(
                f"DELETE FROM {table_name(output)} AS own USING {beside} AS gone"
                f" WHERE {condition} AND (own.{VERSION} > {tick}) IS NOT TRUE"
            )


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
