"""A server of caches: how it is reached, and where things are in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import valkey
from valkey.exceptions import (
    AuthenticationError,
    ConnectionError,
    ReadOnlyError,
    TimeoutError,
    ValkeyError,
    WatchError,
)

from riverrun.errors import DatabaseError


class Held(ValkeyError):
    """Somebody keeps writers from a cache for a moment."""


LOST = (Held, ConnectionError, ReadOnlyError, TimeoutError, WatchError)
"""The server is away, starts, or gives its place to another; or another attempt was quicker."""
CLIENT = {"socket_timeout": 30}
OVER_TCP = {"socket_connect_timeout": 10, "socket_keepalive": True}


def connect(url: str) -> Any:
    """A client; it connects when it is first used. Its own types are those of an asynchronous one,
    too."""
    given = CLIENT if urlsplit(url).scheme == "unix" else {**CLIENT, **OVER_TCP}
    return valkey.Valkey.from_url(url, **given)


def address(url: str) -> str:
    """Without the password."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    return f"{parts.hostname}:{parts.port or 6379}{parts.path}"


@contextmanager
def explained(where: str) -> Iterator[None]:
    try:
        yield
    except ValkeyError as error:
        unreached = isinstance(error, LOST) and not isinstance(error, AuthenticationError)
        raise DatabaseError(
            "the cache's server cannot be reached" if unreached else "the cache's server refuses",
            where=where,
            got=" ".join(str(error).split()).rpartition("caused error: ")[2],  # no rows
            hint="see `valkey` in riverrun.toml, or RIVERRUN_VALKEY" if unreached else None,
        ) from error


def info(client: Any, section: str) -> dict[str, Any]:
    return dict(client.info(section))


def run_key(application: str) -> str:
    return f"riverrun:run:{application}"


def progress_key(checkpoint: str, task: int, cache: str) -> str:
    return f"riverrun:progress:{checkpoint}:{task}:{cache}"


def lost_key(checkpoint: str) -> str:
    """Says that the server has lost batches, until somebody starts over."""
    return f"riverrun:lost:{checkpoint}"


def hold_key(cache: str) -> str:
    """While it is there, writers of the cache wait."""
    return f"riverrun:hold:{cache}"


def layout_key(cache: str) -> str:
    return f"riverrun:cache:{cache}"
