"""Who runs an application whose checkpoint is far: whoever renews a claim there.

Locks and conditional writes are not what all far file systems have in common; that a file is seen
once it is written is. So everyone has a file of its own: nobody overwrites another's. It is written
only if there is no other, and withdrawn if there is another one then: of two who begin at the same
time at least one sees the other. A claim that has not changed for as long as `LAPSE` is dead. No
two clocks are compared: that time is watched by who wants to begin.

A holder that could not renew its claim stops long before others take it for dead. If it is stopped
itself meanwhile (a machine that sleeps), it may write once more when it wakes: that is fenced where
results go, by the number of the run.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from riverrun.errors import AlreadyRunning, CheckpointAway
from riverrun.far import FarPath

FOLDER = "claims"
RENEW, GIVE_UP, LAPSE = 5.0, 30.0, 60.0
"""Seconds: how often a claim is renewed, without which its holder stops, and others may begin."""
LOOK = 0.5

Hold = Callable[[], None]
"""An error once the checkpoint may be another's."""
Facts = dict[str, Any]


@dataclass
class Claim:
    file: FarPath
    count: int = 0
    renewed_at: float = 0.0
    lost: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    def renew(self) -> None:
        began_at = _now()
        self.count += 1
        facts = {"pid": os.getpid(), "host": socket.gethostname(), "where": _here()}
        self.file.write_text(json.dumps({**facts, "count": self.count, "at": time.time()}))
        self.renewed_at = began_at

    def keep(self) -> None:
        """In a thread of its own. What has lapsed is not renewed: it may be another's."""
        while not self.over.wait(RENEW):
            if _now() - self.renewed_at > GIVE_UP:
                self.lost = True
                return
            with suppress(OSError):
                self.renew()

    def require(self) -> None:
        if self.lost:
            raise CheckpointAway(
                "the checkpoint may be another run's by now",
                where=self.file.parent.parent,
                got=f"its claim could not be renewed for {GIVE_UP:.0f} s",
                hint="start it again when the file system answers; `riverrun run --restart` does",
            )


@contextmanager
def held(folder: FarPath, name: str) -> Iterator[Hold]:
    """Nobody else may run the application meanwhile. After a kill the claim lapses; at once if that
    was on this machine."""
    _wait_for_none(folder, name)
    claim = Claim(folder / FOLDER / uuid.uuid4().hex)
    claim.renew()
    thread = threading.Thread(target=claim.keep, daemon=True)
    try:
        for each, facts in _claims(folder).items():
            if each != claim.file.name:
                raise _running(folder, name, facts)
        thread.start()
        yield claim.require
    finally:
        claim.over.set()
        if thread.is_alive():
            thread.join()
        with suppress(OSError):  # it lapses
            claim.file.unlink(missing_ok=True)


def holder(folder: FarPath) -> int | None:
    """The process that runs the application, by this machine's clock and that of the holder."""
    for facts in _claims(folder).values():
        if time.time() - facts["at"] < LAPSE and not _died_here(facts):
            return int(facts["pid"])
    return None


def _wait_for_none(folder: FarPath, name: str) -> None:
    """Until each claim that is there has ended, or lapsed; an error as soon as one is renewed."""
    seen, give_up_at = _claims(folder), _now() + LAPSE
    while seen:
        now = _claims(folder)
        for each, before in list(seen.items()):
            facts = now.get(each)
            if facts is not None and facts["count"] != before["count"]:
                raise _running(folder, name, facts)
            if facts is None or _died_here(facts) or _now() > give_up_at:
                (folder / FOLDER / each).unlink(missing_ok=True)
                del seen[each]
        if seen:
            time.sleep(LOOK)


def _claims(folder: FarPath) -> dict[str, Facts]:
    found: dict[str, Facts] = {}
    with suppress(FileNotFoundError):
        for file in (folder / FOLDER).iterdir():
            with suppress(FileNotFoundError):  # ended meanwhile
                if not file.name.startswith("."):
                    found[file.name] = json.loads(file.read_text())
    return found


def _running(folder: FarPath, name: str, facts: Facts) -> AlreadyRunning:
    return AlreadyRunning(
        f"the application {name!r} is running already",
        where=folder,
        got=f"process {facts['pid']} on {facts['host']}",
        hint=f"stop it with `riverrun stop {name}`, or give this program another name",
    )


def _died_here(facts: Facts) -> bool:
    return bool(facts["where"] == _here()) and not psutil.pid_exists(facts["pid"])


def _here() -> str:
    """This boot of this machine, and this space of process numbers: a container has its own."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"


def _now() -> float:
    """A clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
