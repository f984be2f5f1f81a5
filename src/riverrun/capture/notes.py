"""What Debezium tells of its snapshots, in a topic of its own: begun, so many rows, complete."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from riverrun.errors import NoTopic
from riverrun.kafka.browse import Browser

GOOD = ("SUCCEEDED", "EMPTY")
FIRST = "Initial Snapshot"
CHUNK = 8192
"""Rows of a further snapshot that are read, and told of, at once."""


@dataclass(frozen=True)
class Snapshot:
    """How far the last snapshot of a table is."""

    complete: bool = False
    rows: int | None = None
    """None while nobody has counted them."""
    expected: int | None = None
    error: str | None = None


def read(client: Mapping[str, str], topic: str) -> dict[str, Snapshot]:
    """By table. Nothing if Debezium has told nothing yet."""
    try:
        with Browser(client, topic) as browser:
            values = [m.value() for m in browser.read(browser.earliest)]
    except NoTopic:
        return {}
    return told(json.loads(value) for value in values if value is not None)


def told(notes: Iterable[Mapping[str, Any]]) -> dict[str, Snapshot]:
    """What follows from all notes, in their order."""
    found: dict[str, Snapshot] = {}
    first: set[str] = set()
    """Tables of the first snapshot, which is one for all: complete when all are."""
    for note in notes:
        kind, more = note["type"], note.get("additional_data") or {}
        table = more.get("scanned_collection") or more.get("current_collection_in_progress")
        if kind == "STARTED" and note["aggregate_type"] == FIRST:
            first = set()
            found = {}
        elif kind == "COMPLETED" and note["aggregate_type"] == FIRST:
            found |= {name: replace(found[name], complete=True) for name in first}
        elif kind == "IN_PROGRESS" and table:
            found[table] = _going_on(found.get(table, Snapshot()), more)
        elif kind == "TABLE_SCAN_COMPLETED" and table:
            found[table] = _scanned(found.get(table, Snapshot()), more)
            if note["aggregate_type"] == FIRST and found[table].complete:
                first.add(table)
                found[table] = replace(found[table], complete=False)
    return found


def _going_on(before: Snapshot, more: Mapping[str, Any]) -> Snapshot:
    """A further snapshot of a table that is complete does not make it incomplete."""
    if "total_rows" not in more:
        return replace(before, error=None)
    expected, chunks = int(more["total_rows"]), int(more.get("chunk_index") or 0)
    return Snapshot(before.complete, min(chunks * CHUNK, expected), expected)


def _scanned(before: Snapshot, more: Mapping[str, Any]) -> Snapshot:
    rows, status = int(more.get("total_rows_scanned") or 0), str(more.get("status"))
    if status in GOOD:
        return Snapshot(True, rows, rows)
    return Snapshot(before.complete, rows, error=f"the snapshot has ended: {status.lower()}")
