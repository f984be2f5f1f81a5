"""A cache in Valkey or Redis as a sink."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import urlsplit

from riverrun.arguments import checked
from riverrun.durations import Duration, duration_text, microseconds
from riverrun.errors import ConfigError, Location, ProgramError, caller
from riverrun.outputs import Delivery, Destination, Guarantee, Places, Sink
from riverrun.schema import UNREADABLE, Schema
from riverrun.versions import Version

Values = Literal["json", "hash"]
OWN = "riverrun"
"""The beginning of keys that hold progress."""
SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix")


@dataclass(frozen=True)
class Cache(Sink):
    """A table's rows by key; a stream's rows in a stream of the server."""

    cache: str
    url: str | None = field(repr=False)
    values: Values
    expire: int | None
    """Microseconds after which a row that is not written again is gone."""

    @property
    def name(self) -> str:
        return f"cache:{self.cache}"

    @property
    def text(self) -> str:
        gone = f", gone after {duration_text(self.expire)}" if self.expire else ""
        return f"cache {self.cache}{gone}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "exactly once"

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        for column in columns.visible.columns:
            if re.search(UNREADABLE, column.type):
                raise ProgramError(
                    f"a cache cannot hold the column {column.name!r}",
                    where=where,
                    got=column.type,
                    hint="leave it out, or cast it, e.g. with base64(…)",
                )
        if not table and (self.expire or self.values != "json"):
            option = "expire" if self.expire else "values"
            raise ProgramError(
                f"{option}=… is for tables, whose rows have keys",
                where=where,
                hint="rows of a stream are entries of a stream in the server, in JSON; "
                "a table is made with .group_by(…) or .to_table()",
            )

    def destination(self, places: Places) -> Destination:
        # only programs that run wait for the client
        from riverrun.sinks.valkey.delivery import CacheServer  # noqa: PLC0415

        return CacheServer(self.url or required(places.valkey))

    def place(self) -> Hashable:
        """All caches of a server are written in one transaction."""
        return (Cache, self.url)

    def beside(self, version: Version) -> Cache:
        return replace(self, cache=version.with_dashes(self.cache))

    def owns(self) -> str:
        return f"the cache {self.cache}"


@checked
def cache(
    name: str,
    *,
    url: str | None = None,
    expire: Duration | None = None,
    values: Values = "json",
) -> Cache:
    """A cache in Valkey or Redis: each row of a table under `NAME:KEY`, as JSON or as a hash.

    Rows of a stream are appended to the server's stream `NAME`. The server is the one of the
    settings, unless a `url` is given. With `expire` a row is gone so long after its last change.
    """
    at = caller()
    if not re.fullmatch(r"[^\W_][\w.-]{,99}", name) or name == OWN:
        raise ProgramError(
            "the name of a cache starts with a letter or digit and has letters, digits, _ . and -, "
            f"at most 100; {OWN!r} is taken",
            where=at,
            got=repr(name),
        )
    period = None if expire is None else microseconds(expire, at)
    if period is not None and period < 1000:
        raise ProgramError("a row is kept for a millisecond at least", where=at, got=expire)
    return Cache(name, url and _checked_url(url, at), values, period)


def _checked_url(url: str, at: Location) -> str:
    """What is wrong with one is not shown: it may be the password."""
    if not _readable(url):
        raise ProgramError(
            "the address of a cache cannot be read",
            where=at,
            hint='write it as "redis://:password@host:6379/0", rediss:// with TLS',
        )
    return url


def _readable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in SCHEMES and parts.port != 0
    except ValueError:  # of its port, or its brackets
        return False


def required(url: str | None) -> str:
    if url is None:
        raise ConfigError(
            "no Valkey or Redis is configured",
            hint='set `valkey = "redis://host:6379/0"` in riverrun.toml, or RIVERRUN_VALKEY, or '
            "give a url=…",
        )
    if not _readable(url):
        raise ConfigError(
            "the address of Valkey or Redis cannot be read",
            where="`valkey` in riverrun.toml, or RIVERRUN_VALKEY",
            hint='write it as "redis://:password@host:6379/0", rediss:// with TLS',
        )
    return url
