"""Priority: what is to give way to others when processors are short.

A nice value counts among the processes of a session only, where Linux groups them by sessions
(autogroup): the session is told, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def giving_way(nice: int, start: Callable[[], T]) -> T:
    """Calls `start`: processes that it starts are so much nicer than this one, which stays as it
    is. On Linux a nice value is that of a thread, and is inherited."""
    if nice == 0:
        return start()
    with ThreadPoolExecutor(1, initializer=os.nice, initargs=(nice,)) as nicer:
        return nicer.submit(start).result()


def tell_session(pid: int) -> None:
    """The session of a process is as nice as the process. Nothing, where sessions are not
    grouped."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, pid)))
