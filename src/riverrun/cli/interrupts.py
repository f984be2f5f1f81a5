"""Ctrl-C for commands that only look: it is heard in a thread of its own.

Python raises KeyboardInterrupt between two instructions of the main thread. One that waits inside a
library does not get there, and a callback of a library may swallow it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds that the block has to end after Ctrl-C; then the process ends without it."""

LOOK = 0.05


@contextmanager
def heard() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, in place of KeyboardInterrupt. Nothing may be left to clean up."""
    asked, over = threading.Event(), threading.Event()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
        yield asked
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    thread = threading.Thread(target=_listen, args=(asked, over), daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _listen(asked: threading.Event, over: threading.Event) -> None:
    """Inherits that the signal is blocked, which is what lets it wait for it."""
    while signal.sigtimedwait({signal.SIGINT}, LOOK) is None:
        if over.is_set():
            return
    asked.set()
    if not over.wait(PATIENCE):
        sys.stderr.write("\n")
        os._exit(0)
