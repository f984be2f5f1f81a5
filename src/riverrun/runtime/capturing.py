"""The captured tables of a program: their captures run, and their snapshots are complete. Where a
row's value is lost between the database's log and the table, the table is read once more."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from riverrun import private
from riverrun.capture.capturer import Capturer, CaptureState, TableState
from riverrun.capture.declared import Captured
from riverrun.capture.known import capturer_of
from riverrun.config import Settings
from riverrun.delivery.status import last_status
from riverrun.embedded import postgres
from riverrun.errors import JobError, RiverrunError
from riverrun.operators.captured import LOST, VERSIONS

Tell = Callable[[str], None]
LOOK, SAY, WATCH = 0.2, 2.0, 2.0
"""Seconds between two looks at a snapshot, two lines that tell of it, two looks while it runs."""
AGAIN = "its rows are read once more"
READ_AGAIN = "read-again.json"
"""The file of a run's status folder that has, by topic, the lost rows that were read since."""


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


def read_again(
    captures: Sequence[Captured], settings: Settings, tell: Tell, *, because: str
) -> None:
    """Asks for all rows of tables once more: they come while changes flow."""
    for each in captures:
        tell(f"{each.table} has {because}: {AGAIN}")
        capturers([each], settings)[each.name].snapshot(each.table)


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


@dataclass
class LostRows:
    """Rows that are dead letters, since a value of theirs is not in the database's log and known
    to nobody. The database has it: their tables are read once more, and then have the row."""

    status: Path
    """The folder of what the batches of this run have told."""

    def tables(self, captures: Sequence[Captured]) -> list[Captured]:
        """Those with rows that were lost after they were read last."""
        now, read = self._counted(), self._read()
        return [c for c in captures if now.get(c.topic, 0) > read.get(c.topic, 0)]

    def are_read(self, captured: Captured) -> None:
        now = self._counted()[captured.topic]
        private.replace(self.status / READ_AGAIN, json.dumps({**self._read(), captured.topic: now}))

    def _counted(self) -> dict[str, int]:
        """By topic, for which the step is named."""
        causes = (last_status(self.status) or {}).get("causes", {})
        end = f": {LOST}"
        return {
            cause.removesuffix(end).removesuffix(VERSIONS): count
            for cause, count in causes.items()
            if cause.endswith(end)
        }

    def _read(self) -> dict[str, int]:
        with suppress(FileNotFoundError):
            found: dict[str, int] = json.loads((self.status / READ_AGAIN).read_text())
            return found
        return {}


@contextmanager
def watched(
    captures: Sequence[Captured], settings: Settings, tell: Tell, status: Path
) -> Iterator[None]:
    """While the program runs: a capture that died is started again, one that fails is told of, a
    table with lost rows is read once more."""
    over = threading.Event()
    watch = _Watch(captures, capturers(captures, settings), LostRows(status), tell)
    thread = threading.Thread(target=watch.until, args=(over,), daemon=True)
    if captures:
        thread.start()
    try:
        yield
    finally:
        over.set()


@dataclass
class _Watch:
    captures: Sequence[Captured]
    found: dict[str, Capturer]
    lost: LostRows
    tell: Tell
    told: dict[str, str | None] = field(default_factory=dict)

    def until(self, over: threading.Event) -> None:
        while not over.wait(WATCH):
            for name, capturer in self.found.items():
                with suppress(RiverrunError, OSError):
                    self._look(name, capturer)
            for each in self.lost.tables(self.captures):
                with suppress(RiverrunError, OSError):
                    self.found[each.name].snapshot(each.table)
                    self.lost.are_read(each)
                    self.tell(f"{each.table}: a large value is not in its log; {AGAIN}")

    def _look(self, name: str, capturer: Capturer) -> None:
        if capturer.died():
            self.tell(f"the capture {name} has died, and is started again")
            capturer.ensure([])
        state = capturer.state()
        error = state.error if state.doing == "failed" else None
        if error != self.told.get(name):
            self.told[name] = error
            self.tell(f"the capture {name} {f'has failed: {error}' if error else 'goes on'}")


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
