"""Rows of databases whose key is the subject: they go, as its rows in topics do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from riverrun.config import Settings
from riverrun.embedded import postgres
from riverrun.forgetting import cipher
from riverrun.kernels.subjects import Subject
from riverrun.runtime.forgetting.places import Application
from riverrun.schema import quoted
from riverrun.sinks.viewing.sink import FILE
from riverrun.sinks.viewing.store import Execute, PostgresStore, SqliteStore, Store


def delete_rows(known: Application, who: Subject, number: bytes) -> list[str]:
    """Deletes the subject's rows; the tables that were looked at. `number` stands for it where the
    key of a table is sealed."""
    readable = known.subject_columns(who.kind)
    sealed = known.subject_columns(who.kind, sealed=True)
    begins, done = cipher.beginning(number), []
    for each in known.shape["forgetting"]["rows"]:
        key = f"CAST({quoted(each['key'])} AS TEXT)"
        if each["key"] in readable:
            condition = f"{key} = ?", who.name
        elif each["key"] in sealed:
            condition = f"substr({key}, 1, {len(begins)}) = ?", begins
        else:
            continue
        if _deleted(known.settings, each, condition):
            done.append(each["text"])
    return done


def _deleted(settings: Settings, row: dict[str, Any], condition: tuple[str, str]) -> bool:
    """Whether there was a table to delete from."""
    store = _store(settings, row)
    if store is None:
        return False
    table = ".".join(map(quoted, row["table"].split(".")))
    table = store.table(row["table"]) if row["kind"] == "view" else table
    with store.transaction() as execute:
        there = _there(store, row, execute)
        if there:
            execute(f"DELETE FROM {table} WHERE {condition[0]}", condition[1])
    return there


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
