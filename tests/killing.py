"""Code that is killed at any of its calls that touch a disk or send something."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from typing import Any

TOUCHING = {os.fsync, os.mkdir, os.replace, os.rmdir, os.unlink, fcntl.flock}
NAMED = {
    "add_document", "commit", "create_write_transaction", "merge_execute", "sendall",
    "wait_merging_threads",
}  # fmt: skip
"""Commits of Delta tables and search indexes, and what a socket sends."""


class Killed(BaseException):
    """Not an error that anybody handles."""


def _touches(called: Any) -> bool:
    return called in TOUCHING or called.__name__ in NAMED


def killed_at(call: int | None, work: Callable[[], Any]) -> bool:
    """Runs the work up to the n-th such call, before or after it; whether it was killed."""
    left = call

    def watch(frame: Any, event: str, arg: Any) -> None:
        nonlocal left
        if left is not None and event in ("c_call", "c_return") and _touches(arg):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise Killed

    if left is not None:
        sys.setprofile(watch)
    try:
        work()
    except Killed:
        return True
    finally:
        sys.setprofile(None)
    return False
