"""Applications that run or have run here: found by their checkpoints, told to stop."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun.config import Settings
from riverrun.errors import InputError
from riverrun.runtime import checkpoint
from riverrun.runtime.checkpoint import Wish
from riverrun.spark.writer import last_status

LOOK_AGAIN = 0.1


@dataclass(frozen=True)
class Application:
    """One application, after its last batch."""

    name: str
    running: bool
    pid: int | None
    """Of the process that runs it."""
    host: str | None
    master: str | None
    started_at: float | None
    batch: int | None
    events: int | None
    log: str | None
    paused: tuple[str, ...] = ()
    """Topics that are not read until they are resumed."""


def note(folder: Path, master: str, log: Path) -> None:
    """What others may want to know of the run that begins."""
    facts = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "master": master,
        "started_at": time.time(),
        "log": str(log),
    }
    (folder / "run.json").write_text(json.dumps(facts))


def applications(settings: Settings) -> Iterator[Application]:
    for lock in sorted(settings.checkpoint_root.glob("*/lock")):
        yield application(settings, lock.parent.name)


def application(settings: Settings, name: str) -> Application:
    folder = settings.checkpoint_of(name)
    if not (folder / "lock").exists():
        known = [lock.parent.name for lock in sorted(settings.checkpoint_root.glob("*/lock"))]
        raise InputError(
            f"nothing is known of the application {name!r}",
            where=settings.checkpoint_root,
            hint=f"those that have run here: {', '.join(known) or 'none'}",
        )
    pid = checkpoint.holder(folder)
    run = _facts(folder / "run.json")
    if run.get("pid") != pid:
        run = {}  # of an earlier run: this one has only begun
    status = last_status(settings.run_of(name) / "status") or {}
    return Application(
        name, pid is not None, pid, run.get("host"), run.get("master"), run.get("started_at"),
        status.get("batch"), status.get("events"), run.get("log"), tuple(status.get("paused", ())),
    )  # fmt: skip


def _facts(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def stop(settings: Settings, name: str, wish: Wish, *, patience: float) -> bool:
    """Tells it to stop, and waits until it has; False if it still runs after that many seconds."""
    folder = settings.checkpoint_of(name)
    checkpoint.ask_to_stop(folder, wish)
    give_up_at = time.monotonic() + patience
    while checkpoint.holder(folder) is not None:
        if time.monotonic() > give_up_at:
            return False
        time.sleep(LOOK_AGAIN)
    return True
