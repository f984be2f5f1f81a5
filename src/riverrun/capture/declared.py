"""A captured table as a program declares it: where it is, its columns, its key.

What is not given is read from the database when the program is built. Nothing is started for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType

from riverrun.arguments import names
from riverrun.capture.capturer import By
from riverrun.config import Settings, load
from riverrun.config_tables import NAME
from riverrun.embedded import postgres
from riverrun.errors import ConfigError, DatabaseError, Location, ProgramError
from riverrun.schema import Schema, parse

TABLE = re.compile(r"[^.\"\x00-\x1f/]+(\.[^.\"\x00-\x1f/]+)?")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,240}")
GIVEN = 'app.capture(…, schema="id bigint, name string", key="id") needs no database'


_known: ContextVar[Mapping[str, str]] = ContextVar("columns", default=MappingProxyType({}))


@contextmanager
def with_columns(known: Mapping[str, str]) -> Iterator[None]:
    """Inside, tables have these columns, by topic, where a program leaves them to the database."""
    before = _known.set(known)
    try:
        yield
    finally:
        _known.reset(before)


@dataclass(frozen=True)
class Captured:
    """A table that a program captures."""

    name: str
    """Of the capture."""
    table: str
    """With its schema."""
    database: str | None = field(repr=False)
    """None for that of the settings, or the embedded one."""
    columns: Schema
    key: tuple[str, ...]
    by: By = "riverrun"

    @property
    def topic(self) -> str:
        return f"{self.name}.{self.table}"

    @property
    def transactions(self) -> str:
        """The topic that tells where transactions begin and end."""
        return f"{self.name}.transaction"


def declared(
    table: str,
    *,
    database: str | None,
    name: str | None,
    by: By | None,
    schema: str | None,
    key: str | Sequence[str] | None,
    at: Location,
) -> Captured:
    if not TABLE.fullmatch(table):
        hint = 'app.capture("users"), or app.capture("shop.users") with its schema'
        raise ProgramError("this is no name of a table", where=at, got=repr(table), hint=hint)
    settings = load()
    address = settings.postgres if database is None else _checked(database, at)
    place = _place(address)
    called = place.name if name is None else name
    full = place.named(table)
    who = by or ("connect" if place.foreign else settings.capture)
    if who == "riverrun" and place.foreign:
        hint = 'by="connect": Debezium on Kafka Connect captures it'
        raise ProgramError("riverrun itself captures PostgreSQL only", where=at, hint=hint)
    if not NAME.fullmatch(called) or not TOPIC.fullmatch(f"{called}.{full}"):
        raise ProgramError(
            "a topic cannot have this name",
            where=at,
            got=f"{called}.{full}",
            hint="letters, digits, _ . and - are possible in names of captures and tables",
        )
    keys = None if key is None else names("key", key, 'key="id"')
    if keys is not None and not keys:
        raise ProgramError("a table needs a key", where=at, hint='key="id"')
    if schema is not None and keys is not None:
        return Captured(called, full, database, parse(schema, at), keys, who)
    columns, own = _looked_up(full, address, settings, at)
    columns = _known.get().get(f"{called}.{full}", columns)
    if keys is not None and set(keys) != set(own):
        raise ProgramError(
            f"{full} has another key",
            where=at,
            got=f"({', '.join(keys)}), the database has ({', '.join(own)})",
            hint="leave key out, or change the table's primary key",
        )
    return Captured(called, full, database, parse(schema or columns, at), keys or own, who)


@dataclass(frozen=True)
class _Place:
    """What follows from the address of a database."""

    name: str
    """Of its capture, unless the program gives one."""
    schema: str
    """Of tables that are named without."""
    foreign: bool = False
    """Whether it is none of PostgreSQL."""

    def named(self, table: str) -> str:
        return table if "." in table else f"{self.schema}.{table}"


def _place(address: str | None) -> _Place:
    # only programs that capture wait for the client
    from riverrun.capture.address import name_of  # noqa: PLC0415
    from riverrun.capture.places import address_of, kind_of  # noqa: PLC0415

    if address is None:
        return _Place("postgres", "public")
    if kind_of(address) == "postgresql":
        return _Place(name_of(address), "public")
    database = address_of(address).database
    return _Place(re.sub(r"[^a-z0-9_]", "_", database.lower()), database, foreign=True)


def _checked(database: str, at: Location) -> str:
    from riverrun.capture.places import address_of  # noqa: PLC0415 - as above

    if not database:
        hint = 'database="postgresql://user@host:5432/shop"'
        raise ProgramError("the address of the database is empty", where=at, hint=hint)
    try:
        address_of(database)
    except ConfigError as error:
        raise ProgramError(error.fact, where=at, hint=error.hint) from None
    return database


def _looked_up(
    table: str, address: str | None, settings: Settings, at: Location
) -> tuple[str, tuple[str, ...]]:
    """Columns with their types, and the key."""
    import psycopg  # noqa: PLC0415 - only programs that capture wait for the client

    from riverrun.capture.address import connected  # noqa: PLC0415
    from riverrun.capture.catalog import facts  # noqa: PLC0415
    from riverrun.capture.mariadb import columns_of  # noqa: PLC0415
    from riverrun.capture.places import kind_of  # noqa: PLC0415

    if address is None:
        server = postgres.status(settings)
        if server is None:
            raise ProgramError(
                f"the columns of {table} are not known: PostgreSQL is not running",
                where=at,
                hint=f"`riverrun up --postgres` starts it; {GIVEN}",
            )
        address = server.url
    try:
        if kind_of(address) != "postgresql":
            return columns_of(address, table)
        with connected(address) as connection:
            found = facts(connection, table)
    except DatabaseError as error:
        hint = f"{error.hint}; {GIVEN}"
        raise ProgramError(error.fact, where=at, got=error.got, hint=hint) from error
    except psycopg.Error as error:
        line = str(error).strip().splitlines()[0]
        raise ProgramError(f"the columns of {table} cannot be read", where=at, got=line) from error
    return found.typed().ddl(), found.key
