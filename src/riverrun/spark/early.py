"""The process of the zygote, begun before it is known what for.

What it imports takes as long as what the program needs, and can be imported meanwhile. This module
imports next to nothing, so that it is begun at once.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import NamedTuple

WORKERS = {
    "OPENBLAS_NUM_THREADS": "1",
    # what a lot takes is given back to all threads, and to the system; else each keeps its most
    "MALLOC_ARENA_MAX": "2",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""The environment of Python workers, as libraries read it when they are loaded."""


class Begun(NamedTuple):
    process: subprocess.Popen[bytes]
    control: socket.socket
    """It waits here for what it serves and where it logs, and ends when this is closed."""


_waiting: list[Begun] = []
_serving: list[Begun] = []
"""For as long as this process lives."""


def begin() -> None:
    if not _waiting:
        _waiting.append(_begun())


def serve(listener: socket.socket, log: int) -> None:
    """Has it serve, as nice as this thread is."""
    begin()
    begun = _waiting.pop()
    os.setpriority(os.PRIO_PROCESS, begun.process.pid, os.getpriority(os.PRIO_PROCESS, 0))
    socket.send_fds(begun.control, [b"\0"], [listener.fileno(), log])
    _serving.append(begun)


def _begun() -> Begun:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "riverrun.spark.zygote"],
            env={**os.environ, "POLARS_MAX_THREADS": "1", **WORKERS},
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us to handle
        )
    return Begun(process, ours)
