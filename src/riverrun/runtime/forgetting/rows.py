"""Rows of databases whose key is the subject: they go, as its rows in topics do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from riverrun.config import Settings
from riverrun.embedded import postgres
from riverrun.runtime.forgetting.places import Application
from riverrun.schema import quoted
from riverrun.sinks.viewing.sink import FILE
from riverrun.sinks.viewing.store import Execute, PostgresStore, SqliteStore, Store


def delete_rows(known: Application, kind: str, name: str) -> list[str]:
    """Deletes the subject's rows; the tables that were looked at."""
    columns, done = known.subject_columns(kind), []
    for each in known.shape["forgetting"]["rows"]:
        if each["key"] in columns and (store := _store(known.settings, each)) is not None:
            table = ".".join(map(quoted, each["table"].split(".")))
            table = store.table(each["table"]) if each["kind"] == "view" else table
            with store.transaction() as execute:
                if _there(store, each, execute):
                    same = f"CAST({quoted(each['key'])} AS TEXT) = ?"
                    execute(f"DELETE FROM {table} WHERE {same}", name)
                    done.append(each["text"])
    return done


def _store(settings: Settings, row: dict[str, Any]) -> Store | None:
    """Where a table is; None if there is nothing yet."""
    in_file = row["kind"] == "sqlite" or (row["kind"] == "view" and settings.views == "sqlite")
    if not in_file:
        return PostgresStore(settings.postgres or postgres.ensure(settings))
    file = Path(row["file"]) if row["kind"] == "sqlite" else settings.home / FILE
    return SqliteStore(file) if file.exists() else None


def _there(store: Store, row: dict[str, Any], execute: Execute) -> bool:
    if isinstance(store, SqliteStore):
        query = "SELECT 1 FROM sqlite_master WHERE name = ?"
        return bool(execute(query, row["table"]))
    table = store.table(row["table"]) if row["kind"] == "view" else row["table"]
    return execute("SELECT to_regclass(?) IS NOT NULL", table) == [(True,)]
