"""How a query is told to plan no more: two files in its status folder, which both sides look at."""

from __future__ import annotations

from pathlib import Path

ASKED, DONE = "drain", "drained"


def ask(folder: Path) -> None:
    """The batch that runs is the last one."""
    (folder / ASKED).touch()


def asked(folder: Path) -> bool:
    """For the planner. Spark asks it for a batch only when the one before is committed."""
    if not (folder / ASKED).exists():
        return False
    (folder / DONE).touch()
    return True


def done(folder: Path) -> bool:
    """Every batch that was planned is committed."""
    return (folder / DONE).exists()
