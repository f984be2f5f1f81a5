"""Where a database is: its address without secrets, and how connections to it are made."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from riverrun.errors import ConfigError, DatabaseError

SESSION = (
    "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=3 "
    "-c bytea_output=hex -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
"""How values are written: the log and snapshots have the same."""
PATIENCE = 5
SHOWN = ("host", "hostaddr", "port", "dbname", "user")


class Unreachable(DatabaseError):
    """It may come back."""


def parts_of(database: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(database))
    except psycopg.ProgrammingError as error:
        # not its text: it may hold the password
        raise ConfigError(
            "the address of the database cannot be read",
            hint="write it as postgresql://user:password@host:5432/database",
        ) from error


def shown(database: str) -> str:
    """The address without password and options."""
    parts = {name: str(value) for name, value in parts_of(database).items() if name in SHOWN}
    user = f"{parts['user']}@" if "user" in parts else ""
    port = f":{parts['port']}" if "port" in parts else ""
    host = parts.get("host") or parts.get("hostaddr") or "localhost"
    return f"postgresql://{user}{host}{port}/{parts.get('dbname', '')}"


def name_of(database: str) -> str:
    """What a capture is called, unless the program says: as its database."""
    parts = parts_of(database)
    found = str(parts.get("dbname") or parts.get("user") or "postgres").lower()
    return re.sub(r"[^a-z0-9_]", "_", found)


def slot_of(name: str) -> str:
    """Of the slot, and of the publication."""
    return "riverrun_" + re.sub(r"[^a-z0-9_]", "_", name.lower())


def connected(database: str, *, replication: bool = False) -> psycopg.Connection[Any]:
    """A connection that commits by itself, with a session that writes values as we read them."""
    given = parts_of(database)
    own: dict[str, Any] = {
        "options": f"{given.get('options', '')} {SESSION}".strip(),
        "connect_timeout": given.get("connect_timeout", PATIENCE),
        "application_name": "riverrun capture",
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    if replication:
        own["replication"] = "database"
    conninfo = make_conninfo(database, **own)
    try:
        return psycopg.connect(conninfo, autocommit=True, client_encoding="utf8")
    except psycopg.OperationalError as error:
        raise Unreachable(
            "the database cannot be reached",
            where=shown(database),
            got=without_secrets(str(error), database),
            hint="is it running, and is its address right? `riverrun up --postgres` starts a local"
            " one",
        ) from None


def without_secrets(words: str, database: str) -> str:
    password = parts_of(database).get("password")
    first = next(iter(words.strip().splitlines()), "")
    return first.replace(str(password), "…") if password else first
