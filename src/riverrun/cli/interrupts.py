"""Ctrl-C for commands that only look: it is heard in a thread of its own.

Python raises KeyboardInterrupt between two instructions of the main thread. One that waits inside a
library does not get there, and a callback of a library may swallow it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds that the block has to end after Ctrl-C; then the process ends without it."""


@contextmanager
def heard() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, in place of KeyboardInterrupt. Nothing may be left to clean up."""
    asked, over = threading.Event(), threading.Event()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
        yield asked
        return
    # whichever thread the signal comes to, a library's too, writes its number here
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    told = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_listen, args=(ear, asked, over), daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        signal.set_wakeup_fd(told)
        signal.signal(signal.SIGINT, before)
        mouth.close()
        thread.join()
        ear.close()


def _listen(ear: socket.socket, asked: threading.Event, over: threading.Event) -> None:
    while number := ear.recv(1):
        if number[0] == signal.SIGINT:
            asked.set()
            if not over.wait(PATIENCE):
                sys.stderr.write("\n")
                os._exit(0)
