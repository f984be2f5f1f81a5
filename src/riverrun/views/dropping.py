"""Views that are not wanted any longer."""

from __future__ import annotations

from riverrun.sinks.viewing.notes import CHANGES
from riverrun.views.reading import Reader


def drop(reader: Reader, name: str) -> None:
    """Its rows, its changes, and what is noted of it."""
    reader.view(name)
    with reader.store.transaction() as execute:
        execute(f"DROP TABLE {reader.store.table(name)}")
        execute(f"DELETE FROM {CHANGES} WHERE view = ?", name)
        execute("DELETE FROM riverrun_views WHERE name = ?", name)
