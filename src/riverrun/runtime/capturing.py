"""The captured tables of a program: their captures run, and their snapshots are complete."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from riverrun.capture.capturer import Capturer, CaptureState, TableState
from riverrun.capture.declared import Captured
from riverrun.capture.known import capturer_of
from riverrun.config import Settings
from riverrun.embedded import postgres
from riverrun.errors import JobError, RiverrunError

Tell = Callable[[str], None]
LOOK, SAY, WATCH = 0.2, 2.0, 2.0
"""Seconds between two looks at a snapshot, two lines that tell of it, two looks while it runs."""


def capturers(captures: Sequence[Captured], settings: Settings) -> dict[str, Capturer]:
    """What captures the tables, by name."""
    return {
        each.name: capturer_of(settings, each.name, each.database, by=each.by) for each in captures
    }


def ensure(captures: Sequence[Captured], settings: Settings, tell: Tell) -> None:
    """Returns once the topics of all captured tables hold all their rows."""
    found = capturers(captures, settings)
    if not found:
        return
    if any(each.database is None for each in captures) and settings.postgres is None:
        postgres.ensure(settings)
    for name, each in found.items():
        tables = [captured.table for captured in captures if captured.name == name]
        tell(f"capturing {', '.join(tables)} ({name})")
        each.ensure(tables)
        _await(each, tables, tell)


def _await(capturer: Capturer, tables: Sequence[str], tell: Tell) -> None:
    said_at = time.monotonic()
    while True:
        state = capturer.state()
        mine = [each for each in state.tables if each.table in tables]
        if len(mine) == len(tables) and all(each.loaded for each in mine):
            return
        _refuse(state, mine)
        if time.monotonic() - said_at > SAY:
            said_at = time.monotonic()
            tell(progress_text(state, mine))
        time.sleep(LOOK)


@contextmanager
def watched(captures: Sequence[Captured], settings: Settings, tell: Tell) -> Iterator[None]:
    """While the program runs: a capture that died is started again, one that fails is told of."""
    over = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(capturers(captures, settings), over, tell), daemon=True
    )
    if captures:
        thread.start()
    try:
        yield
    finally:
        over.set()


def _watch(found: dict[str, Capturer], over: threading.Event, tell: Tell) -> None:
    told: dict[str, str | None] = {}
    while not over.wait(WATCH):
        for name, capturer in found.items():
            with suppress(RiverrunError, OSError):
                if capturer.died():
                    tell(f"the capture {name} has died, and is started again")
                    capturer.ensure([])
                state = capturer.state()
                error = state.error if state.doing == "failed" else None
                if error != told.get(name):
                    told[name] = error
                    tell(f"the capture {name} {f'has failed: {error}' if error else 'goes on'}")


def _refuse(state: CaptureState, tables: Sequence[TableState]) -> None:
    if state.doing in ("failed", "stopped"):
        raise JobError(
            f"the capture {state.name!r} is not able to go on",
            got=state.error or "its process has ended",
            hint=f"`riverrun capture status {state.name}` tells more",
        )
    for table in tables:
        if table.error is not None:
            raise JobError("a table cannot be captured", where=table.table, got=table.error)
    if state.doing == "paused":
        raise JobError(
            f"the capture {state.name!r} is paused, and its snapshot not complete",
            hint=f"riverrun capture resume {state.name}",
        )


def progress_text(state: CaptureState, tables: Sequence[TableState]) -> str:
    if state.doing == "starting":
        return f"{state.name}: {state.error or 'waiting for the snapshot to begin'}"
    return ", ".join(map(_rows_text, tables))


def _rows_text(table: TableState) -> str:
    of = f" of about {table.rows_expected:,}" if table.rows_expected else ""
    return f"{table.table}: {table.rows:,} rows{of}"
