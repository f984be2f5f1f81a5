"""Where the server finds what it serves: the database of views, the broker."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg

from riverrun import views
from riverrun.config import Settings
from riverrun.embedded import postgres
from riverrun.sinks.viewing.store import SCHEMA
from riverrun.views import Reader

ROLE = "riverrun_reader"
"""Of the embedded PostgreSQL: it reads views, and nothing else."""


def reader_of(settings: Settings) -> Reader:
    """Of the views of the settings; PostgreSQL is started if it is ours."""
    if settings.views == "sqlite":
        return views.reader(settings)
    url = postgres.ensure(settings)
    queries = settings.views_reader or (url if settings.postgres else _reading_only(url))
    return views.reader(settings, url, queries)


def _reading_only(url: str) -> str:
    """The address for a role that may read views: ours trusts whoever is on this machine."""
    with psycopg.connect(url, autocommit=True) as own:
        if not own.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
            own.execute(f"CREATE ROLE {ROLE} LOGIN")
        own.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        own.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {ROLE}")
        own.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {ROLE}")
        own.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {SCHEMA} GRANT SELECT ON TABLES TO {ROLE}")
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{ROLE}@{host}").geturl()
