"""What `.lookup(…)` checks before anything runs, and the step that it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from riverrun.arguments import names
from riverrun.durations import Duration, microseconds
from riverrun.errors import DatabaseError, Location, ProgramError
from riverrun.kernels.letters import OnError
from riverrun.operators.joins.building import pairs_of
from riverrun.operators.joins.join import On
from riverrun.operators.lookups.database import Away, DatabaseTable, known_columns
from riverrun.operators.lookups.files import READERS, FileTable
from riverrun.operators.lookups.lookup import (
    Found,
    How,
    Lookup,
    WhenAway,
    unfit_key,
    unreached,
)
from riverrun.operators.lookups.sqlite import SqliteTable
from riverrun.plan.building import checked_policy, step_fields
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import changes, passed_on
from riverrun.schema import RESERVED, Column, Schema, nested, parse
from riverrun.sinks.database import check_table

PATIENCE: dict[WhenAway, str] = {
    "wait": "10 minutes",
    "set aside": "10 seconds",
    "null": "10 seconds",
}
ADDRESSES = (
    'write it as "postgresql://user@host:5432/database" or "sqlite:///file"; of a file, its name: '
    '"countries.csv"'
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a program says of a lookup."""

    table: str | None
    on: On
    columns: Sequence[str] | Mapping[str, str] | None
    schema: str | None
    how: How
    cache: Duration | None
    entries: int
    away: WhenAway
    patience: Duration | None
    prefix: str
    name: str | None
    on_error: OnError | None
    at: Location


def lookup(rows: Node, database: str, asked: Asked) -> Step:
    at = asked.at
    _check(rows, asked)
    pairs = pairs_of(asked.on, at)
    table = _table(database, asked)
    mine, theirs = (tuple(each) for each in zip(*pairs, strict=True))
    named = f"with_{table.table.replace('.', '_')}"
    fields = step_fields("lookup", rows, mine, asked.name, named=named, at=at)
    _refuse_nested(dict(zip(mine, fields["key_types"], strict=True)), at)
    types = _types(table, asked, tuple(zip(mine, fields["key_types"], theirs, strict=True)))
    found = _found(types, theirs, asked)
    patience = asked.patience if asked.patience is not None else PATIENCE[asked.away]
    does = Lookup(
        **fields,
        schema=_schema(rows, found, at),
        on_error=checked_policy(asked.on_error, rows, at),
        reads=table,
        on=theirs,
        entering=rows.schema.visible.names,
        found=found,
        how=asked.how,
        cache=None if asked.cache is None else _above_zero("cache", asked.cache, at),
        entries=asked.entries,
        away=asked.away,
        patience=_above_zero("patience", patience, at),
        key=passed_on(rows, rows.schema.visible),
    )
    return Step((rows,), does)


def _check(rows: Node, asked: Asked) -> None:
    at = asked.at
    if changes(rows):
        raise ProgramError(
            "rows of a table cannot be looked up",
            where=at,
            got="what is found may be another thing when a row is taken back",
            hint="look up the rows of the stream before the table is made of it",
        )
    if asked.entries < 1:
        raise ProgramError("a cache has room for one entry at least", where=at, got=asked.entries)
    if asked.how == "inner" and asked.away == "null":
        raise ProgramError(
            'away="null" is for how="left"',
            where=at,
            got="whether there is a row is not known while the database is away",
            hint='how="left", or away="wait" or "set aside"',
        )
    if not re.fullmatch(r"\w*", asked.prefix) or asked.prefix.startswith(RESERVED):
        raise ProgramError(
            "a prefix has letters, digits and _, and does not start with __",
            where=at,
            got=repr(asked.prefix),
        )


def _above_zero(option: str, given: Duration, at: Location) -> int:
    found = microseconds(given, at)
    if found <= 0:
        none = "; cache=None keeps nothing" if option == "cache" else ""
        raise ProgramError(f"{option} is a time above zero{none}", where=at, got=repr(given))
    return found


def _table(database: str, asked: Asked) -> DatabaseTable:
    """What is wrong with an address is not shown: it may hold a password."""
    scheme, sign, rest = database.partition("://")
    path = Path(database).expanduser().absolute()
    if not sign and (path.suffix.lower() in READERS or path.is_dir()):
        return FileTable(asked.table or path.stem, path)
    if not sign or scheme not in ("postgresql", "postgres", "sqlite"):
        raise ProgramError(
            "a lookup needs the address of a PostgreSQL or SQLite database, or a file",
            where=asked.at,
            got=f"{scheme}://…" if sign else "no address",
            hint=ADDRESSES,
        )
    if asked.table is None:
        raise ProgramError(
            "a lookup in a database needs a table", where=asked.at, hint='table="customers"'
        )
    for part in asked.table.split(".", 1) if scheme != "sqlite" else [asked.table]:
        check_table(part, asked.table)
    if scheme == "sqlite":
        if not rest.startswith("/") or len(rest) < 2:
            raise ProgramError(
                "the address of an SQLite file has three slashes", where=asked.at, hint=ADDRESSES
            )
        return SqliteTable(asked.table, Path(rest[1:]).expanduser().absolute())
    # only programs that use it wait for the client
    from riverrun.operators.lookups.postgresql import PostgresTable  # noqa: PLC0415

    made = PostgresTable(asked.table, database)
    assert made.where  # an address that cannot be read is an error now
    return made


def _refuse_nested(keys: Mapping[str, str], at: Location) -> None:
    for name, type in keys.items():
        if nested(type):
            raise ProgramError(
                f"{name!r}, which is {type}, cannot be looked for in a database",
                where=at,
                hint="databases have no common form of lists and structs: look for single values, "
                "made with .with_columns(…)",
            )


def _types(
    table: DatabaseTable, asked: Asked, keys: tuple[tuple[str, str, str], ...]
) -> dict[str, str]:
    """The columns that may be looked up with their types: as the program says, or the database."""
    if asked.schema is not None:
        given = parse(asked.schema, asked.at).with_plain_times
        return {column.name: column.type for column in given.columns}
    try:
        types = table.columns()
        known_columns(types, [theirs for _, _, theirs in keys], table)
        for mine, type, theirs in keys:
            if unfit := table.unfit_key(theirs, type):
                raise unfit_key((mine, type), theirs, unfit, asked.at)
    except Away as error:
        raise unreached(table, error, asked.at) from error
    except DatabaseError as error:
        got = error.got or error.where
        raise ProgramError(error.fact, where=asked.at, got=got, hint=error.hint) from error
    finally:
        table.close()
    return types


def _found(types: dict[str, str], on: tuple[str, ...], asked: Asked) -> tuple[Found, ...]:
    if asked.columns is None:
        named = {name: name for name in types if name not in on}
    elif isinstance(asked.columns, Mapping):
        named = dict(asked.columns)
    else:
        given = names("columns", asked.columns, 'columns=["name", "tier"]')
        named = {name: name for name in given}
    known = Schema(tuple(Column(name, type) for name, type in types.items()))
    for column in named:
        known.require(column, asked.at)
    if not named:
        raise ProgramError("a lookup needs a column to look up", where=asked.at)
    return tuple(
        Found(column, f"{asked.prefix}{name}", types[column]) for column, name in named.items()
    )


def _schema(rows: Node, found: tuple[Found, ...], at: Location) -> Schema:
    known = rows.schema.visible
    for each in found:
        if known.taken(each.name):
            raise ProgramError(
                f"the stream has a column {each.name!r}",
                where=at,
                hint='give what is looked up a prefix="…", or a name: columns={"column": "name"}',
            )
        if not re.fullmatch(r"\w+", each.name) or each.name.startswith(RESERVED):
            raise ProgramError(
                f"the name {each.name!r} cannot be that of a column",
                where=at,
                hint='columns={"column": "name"} gives it another',
            )
        known = Schema((*known.columns, Column(each.name, each.type)))
    return known
