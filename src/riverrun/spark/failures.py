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
WORKER_ENDED = "Python worker exited unexpectedly"
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
    if WORKER_ENDED in text:
        got = "a Python worker has ended: its code has killed it, or it took too much memory"
        return JobError("the job stopped", got=got, hint="the whole story is in the log")
    if FULL in text:
        return JobError("the disk is full", got=FULL, hint="make room, and run it again")
    first = text.strip().splitlines()[0].partition("terminated with exception: ")
    got = ": ".join(python[-1]) if python else (first[2] or first[0])[:500]
    return JobError("the job stopped", got=got, hint="the whole story is in the log")
