"""Readers of views: rows by key, pages, queries, changes, and tokens of what was written."""

from __future__ import annotations

from riverrun.config import Settings
from riverrun.errors import ConfigError
from riverrun.sinks.viewing.sink import FILE
from riverrun.sinks.viewing.store import store_at
from riverrun.views.reading import Reader
from riverrun.views.tokens import Token

__all__ = ["Reader", "Token", "reader"]


def reader(settings: Settings, postgres: str | None = None, queries: str | None = None) -> Reader:
    """Of the views of a home. `postgres` is the address of the server, if they are there, and
    `queries` the one for other people's SQL."""
    if settings.views == "postgres" and postgres is None:
        raise ConfigError("views are in PostgreSQL, whose address is not known")
    return Reader(store_at(settings.views, postgres, settings.home / FILE), queries)
