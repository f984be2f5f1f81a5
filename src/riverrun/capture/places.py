"""Addresses of databases of every kind that can be captured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from riverrun.capture.address import parts_of
from riverrun.errors import ConfigError

Kind = Literal["postgresql", "mariadb", "mysql"]


@dataclass(frozen=True)
class Address:
    """Where a database is. The password is shown nowhere."""

    kind: Kind
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.kind}://{self.user}@{self.host}:{self.port}/{self.database}"


def kind_of(database: str) -> Kind:
    """By the first word of its address."""
    match database.partition("://")[0]:
        case "mariadb":
            return "mariadb"
        case "mysql":
            return "mysql"
        case _:  # any other: libpq says whether it is one of its own
            return "postgresql"


def address_of(database: str) -> Address:
    kind = kind_of(database)
    if kind == "postgresql":
        parts = {name: str(value) for name, value in parts_of(database).items()}
        user = parts.get("user", "postgres")
        return Address(
            kind,
            parts.get("host") or parts.get("hostaddr") or "localhost",
            int(parts.get("port", 5432)),
            user,
            parts.get("password", ""),
            parts.get("dbname", user),
            tuple((name, value) for name, value in parts.items() if name.startswith("ssl")),
        )
    found, name = urlsplit(database), unquote(urlsplit(database).path.strip("/"))
    if not found.hostname or not name:
        raise ConfigError(
            "the address of the database cannot be read",
            hint=f"write it as {kind}://user:password@host:3306/database",
        )
    user, password = unquote(found.username or "root"), unquote(found.password or "")
    options = tuple(parse_qsl(found.query))
    return Address(kind, found.hostname, found.port or 3306, user, password, name, options)
