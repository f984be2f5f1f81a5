"""`riverrun run --restart`: a program that ends by mistake is run again, after a while.

The program runs in a process of its own, so that whatever kills it leaves this one. What no new
start can mend, such as a mistake in the program, ends both.
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
from pathlib import Path
from typing import Any

from riverrun.cli import log
from riverrun.errors import (
    AlreadyRunning,
    CheckpointError,
    ConfigError,
    InputError,
    ProgramError,
    TopicError,
)

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
    folder: Path
    """The application's checkpoint: how a run has ended is noted there."""
    wait: float = FIRST
    over: threading.Event = field(default_factory=threading.Event)
    child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """The exit code of the last run."""
        with self._signals():
            while True:
                began_at = time.monotonic()
                self.child = subprocess.Popen(self.command)
                code = self.child.wait()
                why = self._why_not_again(code)
                if why is not None:
                    if code not in STOPPED and not self.over.is_set():
                        log.say("warning", f"not started again: {why}")
                    return code if code >= 0 else 128 - code
                if time.monotonic() - began_at > SETTLED:
                    self.wait = FIRST
                log.say("warning", f"{_ended(code)}: started again in {self.wait:.0f} s")
                if self.over.wait(self.wait):
                    return 130
                self.wait = min(2 * self.wait, LONGEST)
                self.command = [each for each in self.command if each != "--fresh"]

    def _why_not_again(self, code: int) -> str | None:
        if self.over.is_set() or code in STOPPED:
            return "it was stopped, or has finished"
        if code < 0:
            return None
        from riverrun.runtime import runs  # noqa: PLC0415 - slow to import

        assert self.child is not None
        found = runs.last(self.folder)
        if found.get("pid") != self.child.pid:
            return "it has not come to running at all"
        known = re.search(r"\[(RR\d+)\]", found.get("error") or "")
        if known is not None and known[1] in {each.code for each in MISTAKES}:
            return f"{known[1]} is a mistake that no new start mends"
        return None

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


def _ended(code: int) -> str:
    if code < 0:
        return f"the run was killed by {signal.Signals(-code).name}"
    return f"the run has failed, with exit code {code}"


def supervised(folder: Path) -> int:
    """The command that was given, without its --restart; `folder` is its checkpoint."""
    given = [each for each in sys.argv[1:] if each != "--restart"]
    return Supervisor([sys.executable, "-m", "riverrun.cli", *given], folder).run()
