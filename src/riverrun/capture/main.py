"""The process of a capture: its folder is its only argument, and holds all that it needs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from riverrun.capture.engine import Engine, Over
from riverrun.capture.files import Files
from riverrun.capture.status import Status, Teller
from riverrun.embedded.lock import exclusive
from riverrun.errors import AlreadyRunning

LAST_WORD = 5.0
"""Seconds to give up what is half written, when it is told to end."""


def main() -> None:
    files = Files(Path(sys.argv[1]))
    wish = files.wish()
    if wish is None:
        sys.exit(f"nothing is asked of {files.folder}")
    stopping = threading.Event()

    def stop(*_: object) -> None:
        stopping.set()
        last = threading.Timer(LAST_WORD, os._exit, (1,))
        last.daemon = True
        last.start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with exclusive(files.folder / "running"):
        status = Status(wish.name)
        teller = Teller(status, files)
        teller.start()
        try:
            Engine(files, status, stopping).run()
        except Over:
            pass
        except AlreadyRunning as error:
            print(error, flush=True)
            status.error = error.text()
        status.doing = "stopped"
        teller.stop()
        files.tell(status.state())
    sys.stdout.flush()
    os._exit(0)
