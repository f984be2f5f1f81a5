"""Spark's exceptions, translated in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from riverrun import errors
from riverrun.errors import JobError, RiverrunError

CODES = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RiverrunError)
}


FULL = "No space left on device"
ENDED = {
    "Python worker exited unexpectedly": (
        "a Python worker has ended: its code or somebody has killed it, or it took too much memory"
    ),
    "java.io.IOException: Stream closed": "the daemon of Python workers has ended",
    "\nSystemExit": "the program's code has called sys.exit()",
}
"""Signs of a process that has ended, and what to say."""
JVM_ENDED = "Spark's JVM has ended"


@contextmanager
def translated() -> Iterator[None]:
    """Raises riverrun's own error in place of the stack of Java and Python around it."""
    try:
        yield
    except PySparkException as error:
        raise from_text(str(error)) from error
    except (Py4JError, ConnectionError) as error:
        raise JobError(
            JVM_ENDED,
            got=f"{type(error).__name__}: {error}".splitlines()[0],
            hint="its log may say why; the next run goes on after the last batch",
        ) from error


def from_text(text: str) -> RiverrunError:
    """Finds the error that a reader, kernel or writer raised; else the last Python line."""
    raised = re.finditer(r"riverrun\.errors\.\w+: (.+) \[(RR\d+)\]((?:\n +\w+: .*)*)", text)
    own = next(reversed(list(raised)), None)  # the last one: others are its causes
    if own:
        details = dict(re.findall(r"\n +(where|got|hint): (.*)", own[3]))
        # any other: a code of an operator of one's own
        return CODES.get(own[2], JobError)(own[1], **details)
    python = re.findall(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt)): (.+)$", text, re.MULTILINE)
    for sign, what in ENDED.items():
        if sign in text:
            hint = "the next run repeats the batch; the whole story is in the log"
            return JobError("the job stopped", got=what, hint=hint)
    if FULL in text:
        return JobError("the disk is full", got=FULL, hint="make room, and run it again")
    first = text.strip().splitlines()[0].partition("terminated with exception: ")
    got = ": ".join(python[-1]) if python else (first[2] or first[0])[:500]
    return JobError("the job stopped", got=got, hint="the whole story is in the log")
