"""Applications that run or have run here: found by their checkpoints, told to stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from riverrun.config import Settings
from riverrun.config_tables import NAME
from riverrun.delivery.status import last_status
from riverrun.errors import InputError
from riverrun.runtime import aside, checkpoint, runs
from riverrun.runtime.checkpoint import Wish

LOOK_AGAIN = 0.1

State = Literal["starting", "running", "held", "stopped", "finished", "failed", "died"]
"""`held` is by a backup or a restore; one that `died` was killed, with the machine or alone."""


@dataclass(frozen=True)
class Application:
    """One application, after its last batch."""

    name: str
    state: State
    error: str | None
    """Why it failed."""
    pid: int | None
    """Of the process that runs it, or holds it."""
    host: str | None
    master: str | None
    started_at: float | None
    ended_at: float | None
    batch: int | None
    events: int | None
    log: str | None
    paused: tuple[str, ...] = ()
    """Topics that are not read until they are resumed."""
    aside: tuple[str, ...] = ()
    """Records that ended runs, and are read no more."""

    @property
    def running(self) -> bool:
        return self.state in ("starting", "running")


def applications(settings: Settings) -> Iterator[Application]:
    for name in names(settings):
        yield application(settings, name)


def application(settings: Settings, name: str) -> Application:
    return with_status(settings, name)[0]


def with_status(settings: Settings, name: str) -> tuple[Application, dict[str, Any]]:
    """Also all that its last batch said; nothing before the first, or if its driver is in a
    cluster: that one notes what counts."""
    folder = settings.checkpoint_of(name)
    if not checkpoint.known(folder):
        raise InputError(
            f"nothing is known of the application {name!r}",
            where=settings.checkpoint_root,
            hint=f"those that have run here: {', '.join(names(settings)) or 'none'}",
        )
    pid, run = checkpoint.holder(folder), runs.last(folder)
    elsewhere = {fact: run[fact] for fact in ("batch", "events") if fact in run}
    status = {} if elsewhere else last_status(settings.run_of(name) / "status") or {}
    counts = elsewhere or status
    found = Application(
        name, _state(pid, run), run.get("error"), pid, run.get("host"), run.get("master"),
        run.get("started_at"), run.get("ended_at"), counts.get("batch"), counts.get("events"),
        run.get("log"), tuple(status.get("paused", ())),
        tuple(str(each.place) for each in aside.read(folder)),
    )  # fmt: skip
    return found, status


def names(settings: Settings) -> list[str]:
    """Of those that run or have run here."""
    root = settings.checkpoint_root
    if not root.is_dir():
        return []
    found = (each for each in root.iterdir() if NAME.fullmatch(each.name))
    return sorted(each.name for each in found if checkpoint.known(each))


def _state(pid: int | None, run: dict[str, Any]) -> State:
    if pid is None:
        end: State = run.get("end", "died" if run else "stopped")
        return end
    if run.get("pid") != pid:
        return "held"
    return "running" if "started_at" in run else "starting"


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
