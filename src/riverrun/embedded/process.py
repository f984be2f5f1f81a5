"""Processes that outlive the command that starts them, and are known by their command line.

A process id alone proves nothing: the process may be gone and its id given to another program. So
each server carries a path of its own folder (its mark) among its arguments.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psutil

from riverrun import private

AGAIN = timedelta(seconds=1)


def spawn(argv: Sequence[str], *, output: Path, environ: Mapping[str, str] | None = None) -> int:
    """Start a process in a session of its own, its output in a file; returns its id."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.posix_spawn(
        argv[0],
        list(argv),
        dict(os.environ if environ is None else environ),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(output), flags, private.FILE),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def marked(pid: int, mark: str) -> psutil.Process | None:
    """The live process of this id, if the mark is among its arguments."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE and mark in process.cmdline():
            return process
    return None


def alive(pid: int) -> bool:
    """Whether a process that we have started still runs (one that ended is a zombie until read)."""
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def search(mark: str) -> psutil.Process | None:
    """A live process with the mark, when its id is not known any more."""
    return next((p for pid in psutil.pids() if (p := marked(pid, mark))), None)


def stop(
    process: psutil.Process,
    *,
    by: signal.Signals = signal.SIGTERM,
    patience: timedelta = timedelta(minutes=1),
) -> bool:
    """Ask a process to end; end it when it does not, and return False."""
    with suppress(psutil.NoSuchProcess):
        for _ in range(math.ceil(patience / AGAIN)):
            process.send_signal(by)  # again, as one that is just starting does not hear it
            with suppress(psutil.TimeoutExpired):
                process.wait(AGAIN.total_seconds())
                return True
        process.kill()
        process.wait()
        return False
    return True
