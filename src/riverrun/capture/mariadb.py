"""MariaDB and MySQL: a connection, and what they know of their tables."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import pymysql

from riverrun.capture.places import Address, address_of
from riverrun.errors import DatabaseError
from riverrun.schema import quoted

PATIENCE = 5
NEEDED = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL"}
_TABLE = (
    "SELECT table_rows FROM information_schema.tables"
    " WHERE table_schema = %s AND table_name = %s AND table_type = 'BASE TABLE'"
)
_COLUMNS = (
    "SELECT column_name, data_type, column_type, numeric_precision, numeric_scale, column_key"
    " FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
    " ORDER BY ordinal_position"
)
WORDS = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "mediumint": "integer",
    "int": "integer",
    "bigint": "bigint",
    "year": "integer",
    "float": "double",
    "double": "double",
    "date": "date",
    "time": "time",
    "datetime": "timestamp",
    "timestamp": "timestamp",
    "json": "json",
}
"""What records hold columns as; any other is text, bytes in base64."""
WIDER = {"smallint": "integer", "int": "bigint"}


class Table(NamedTuple):
    """One that can be captured."""

    name: str
    """With its database."""
    rows: int | None
    """An estimate."""
    columns: tuple[tuple[str, str], ...]
    """Names, and riverrun's types."""
    key: tuple[str, ...]


class MariaDb:
    """A connection to a server. Use it in a `with` block."""

    def __init__(self, database: str) -> None:
        self.address = address_of(database)
        at = self.address
        try:
            self.connection = pymysql.connect(
                host=at.host, port=at.port, user=at.user, password=at.password,
                database=at.database, connect_timeout=PATIENCE, autocommit=True,
            )  # fmt: skip
        except pymysql.MySQLError as error:
            raise _refused(at, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def ask(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(query, parameters or None)
                return list(cursor.fetchall())
        except pymysql.MySQLError as error:
            raise _refused(self.address, error) from None

    def check(self) -> None:
        for name, needed in NEEDED.items():
            [(found,)] = self.ask(f"SELECT @@GLOBAL.{name}")
            shown = {"1": "ON", "0": "OFF"}.get(str(found), str(found))  # any other: is a word
            if shown != needed:
                raise DatabaseError(
                    "the database does not log what is needed to follow its changes",
                    where=self.address,
                    got=f"{name} is {shown}",
                    hint=f"set {name} to {needed} and restart the server",
                )

    def table(self, table: str) -> Table:
        """A table that can be captured; the error says what to do with one that cannot."""
        named = table if "." in table else f"{self.address.database}.{table}"
        parts = named.split(".", 1)
        found = self.ask(_TABLE, *parts)
        if not found:
            raise DatabaseError(f"there is no table {named}", where=self.address)
        columns = self.ask(_COLUMNS, *parts)
        key = tuple(name for name, *_, kind in columns if kind == "PRI")
        if not key:
            raise DatabaseError(
                f"{named} has no key: its rows cannot be told apart",
                where=self.address,
                hint=f"ALTER TABLE {named} ADD PRIMARY KEY (…)",
            )
        rows = None if found[0][0] is None else int(found[0][0])
        return Table(named, rows, tuple((name, type_of(*t)) for name, *t, _ in columns), key)


def columns_of(database: str, table: str) -> tuple[str, tuple[str, ...]]:
    """Columns with riverrun's types, and the key."""
    with MariaDb(database) as server:
        found = server.table(table)
    return ", ".join(f"{quoted(name)} {type}" for name, type in found.columns), found.key


def type_of(word: str, whole: str, precision: int | None, scale: int | None) -> str:
    """Of a column that the server describes so."""
    if word == "decimal":
        return f"decimal({min(precision or 10, 38)},{scale or 0})"
    if word == "bit":
        return "boolean" if precision == 1 else "string"
    if "unsigned" in whole and word in WIDER:
        return WIDER[word]
    return WORDS.get(word, "string")  # any other: is text


def _refused(at: Address, error: pymysql.MySQLError) -> DatabaseError:
    words = str(error.args[-1]) if error.args else str(error)
    return DatabaseError(
        "the database cannot be reached, or refuses",
        where=at,
        got=words.replace(at.password, "…") if at.password else words,
        hint="is it running, and are its address and the password right?",
    )
