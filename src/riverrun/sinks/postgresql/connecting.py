"""Connections to PostgreSQL, and what may be told of its address."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from riverrun.errors import DatabaseError

CLIENT = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "riverrun",
    "client_encoding": "UTF8",
}
"""A server that is gone without a word is noticed within half a minute."""

LOST = (psycopg.OperationalError, psycopg.InterfaceError)


def connect(url: str) -> psycopg.Connection:
    given = conninfo_to_dict(url)
    own = {name: value for name, value in CLIENT.items() if name not in given}
    full = make_conninfo(url, **own)
    # poolers know nothing of prepared statements
    return psycopg.connect(full, autocommit=True, prepare_threshold=None)


def address(url: str, said: str = "`postgres` in riverrun.toml, or RIVERRUN_POSTGRES") -> str:
    """Without the password. What is wrong with one is not shown: it may be the password."""
    given: dict[str, Any] | None = None
    with suppress(psycopg.Error):
        given = conninfo_to_dict(url)
    if given is None or not re.fullmatch(r"[\d,]*", str(given.get("port", ""))):
        raise DatabaseError(
            "the address of PostgreSQL cannot be read",
            where=said,
            hint='write it as "postgresql://user:password@host:5432/database", and in the password'
            " @ as %40, : as %3A, / as %2F",
        )
    host, port = given.get("host", "localhost"), given.get("port", 5432)
    return f"{host}:{port}/{given.get('dbname', given.get('user', ''))}"
