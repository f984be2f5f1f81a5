"""`riverrun run --restart`: a program that ends by mistake is run again, after a while.

The program runs in a process of its own, so that whatever kills it leaves this one. What no new
start can mend, such as a mistake in the program, ends both. Where two runs end in the same batch,
what ends it is looked for, also in a process of its own.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from riverrun.cli import log
from riverrun.config import Poison
from riverrun.errors import (
    AlreadyRunning,
    CheckpointError,
    ConfigError,
    InputError,
    JobError,
    ProgramError,
    TopicError,
)
from riverrun.far import AnyPath, FarPath

FIRST, LONGEST = 1.0, 60.0
"""Seconds until it is started again: twice as many each time."""
SETTLED = 600.0
"""Seconds after which a run counts as a good one, and the next wait is the first again."""
MISTAKES = (ProgramError, ConfigError, InputError, TopicError, AlreadyRunning, CheckpointError)
STOPPED = (0, 130)


@dataclass
class Supervisor:
    """Runs a command, and again."""

    command: list[str]
    folder: AnyPath
    """The application's checkpoint: how a run has ended is noted there."""
    poison: Poison = "stop"
    wait: float = FIRST
    over: threading.Event = field(default_factory=threading.Event)
    child: subprocess.Popen[bytes] | None = None
    batch: int | None = None
    """That which the last run has ended in."""

    def run(self) -> int:
        """The exit code of the last run."""
        with self._signals():
            while True:
                began_at = time.monotonic()
                code = self._started(self.command)
                if (ended := self._ended(code)) is not None:
                    return ended
                if time.monotonic() - began_at > SETTLED:
                    self.wait = FIRST
                if self._stuck(code) and (ended := self._searched()) is not None:
                    return ended
                log.say("warning", f"{_how(code)}: started again in {self.wait:.0f} s")
                if self._waited():
                    return 130
                self.command = [each for each in self.command if each != "--fresh"]

    def _started(self, command: list[str]) -> int:
        self.child = subprocess.Popen(command)
        return self.child.wait()

    def _waited(self) -> bool:
        """Whether it was asked to end meanwhile."""
        over = self.over.wait(self.wait)
        self.wait = min(2 * self.wait, LONGEST)
        return over

    def _ended(self, code: int) -> int | None:
        """The exit code, if it is not to be started again."""
        why = self._why_not_again(code)
        if why is None:
            return None
        if code not in STOPPED and not self.over.is_set():
            log.say("warning", f"not started again: {why}")
        return code if code >= 0 else 128 - code

    def _why_not_again(self, code: int) -> str | None:
        if self.over.is_set() or code in STOPPED:
            return "it was stopped, or has finished"
        if code < 0:
            return None
        known = self._error()
        if known is None:
            return "it has not come to running at all"
        if known in {each.code for each in MISTAKES}:
            return f"{known} is a mistake that no new start mends"
        return None

    def _error(self) -> str | None:
        """The code of the error that the run has noted, if any; None if it has noted nothing."""
        from riverrun.runtime import runs  # noqa: PLC0415 - slow to import

        assert self.child is not None
        found = runs.last(self.folder)
        if found.get("pid") != self.child.pid:
            return None
        known = re.search(r"\[(RR\d+)\]", found.get("error") or "")
        return known[1] if known else ""

    def _stuck(self, code: int) -> bool:
        """Whether two runs have ended in the same batch, and by nothing that passes by itself."""
        from riverrun.runtime.batches import Batches  # noqa: PLC0415 - slow to import

        if isinstance(self.folder, FarPath):  # trials are made in a copy, by hard links
            return False
        batches = Batches(self.folder)
        begun = batches.begun()
        by_itself = code >= 0 and self._error() not in ("", JobError.code)
        batch = None if by_itself or begun == batches.committed() else begun
        stuck = batch is not None and batch == self.batch
        self.batch = None if stuck else batch
        return stuck

    def _searched(self) -> int | None:
        """Looks for what ends the batch; the exit code, if it is not to be started again."""
        from riverrun.runtime.bisecting import book  # noqa: PLC0415 - slow to import

        log.say("warning", "two runs have ended in the same batch: what ends it is looked for")
        while True:
            code = self._started([*self.command, "--search", self.poison])
            found = book(self.folder)
            if found is not None and found.ending == "stop":
                return code
            if found is not None and found.ending is not None:
                done = "set aside" if found.ending == "aside" else "nothing is set aside"
                log.say("warning", f"{done}: {found.text}")
                self.wait = FIRST if found.ending == "aside" else self.wait
                return None
            if (ended := self._ended(code)) is not None:
                return ended
            log.say("warning", f"{_how(code)}, in a trial: the search goes on")
            if self._waited():
                return 130

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """A wish to end is the child's, too; Ctrl-C of a terminal it has heard itself."""
        before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

        def asked(number: int, _: Any) -> None:
            self.over.set()
            if number == signal.SIGTERM and self.child is not None and self.child.poll() is None:
                self.child.terminate()

        for each in before:
            signal.signal(each, asked)
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def _how(code: int) -> str:
    if code < 0:
        return f"the run was killed by {signal.Signals(-code).name}"
    return f"the run has failed, with exit code {code}"


def supervised(folder: AnyPath, poison: Poison) -> int:
    """The command that was given, without its --restart; `folder` is its checkpoint."""
    given = [each for each in sys.argv[1:] if each != "--restart"]
    return Supervisor([sys.executable, "-m", "riverrun.cli", *given], folder, poison).run()
