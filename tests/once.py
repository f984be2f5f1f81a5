"""`riverrun run PROGRAM --once` in this process, on the Spark that tests share.

A run in a process of its own starts Python, a JVM and what Spark needs first: three times the work
of a small run itself. What is to be killed, or starts and stops Spark itself, needs one: `Run`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun.spark import session as spark
from riverrun.spark.session import Spark


@dataclass(frozen=True)
class Finished:
    """How a run ended, and what it printed."""

    code: int
    out: str
    err: str

    def statuses(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def error(self) -> str:
        return self.err


class Shared(Spark):
    """It goes on when a run ends."""

    def stop(self) -> None:
        pass


NUMBERS = itertools.count()
UNPACED = "1 hour"
"""A busy machine would get more and smaller batches, which are more work."""


@dataclass(frozen=True)
class Once:
    spark: Spark
    riverrun: Callable[..., Any]
    monkeypatch: Any

    def __call__(
        self, program: Path, *options: str, code: int = 0, command: str = "run"
    ) -> Finished:
        given = ("--once", "--json", "--batch-time", UNPACED, *options)
        return self.command(command, str(program), *given, code=code)

    def command(self, *words: str, code: int = 0) -> Finished:
        """One that starts Spark."""
        # with another environment Spark takes other workers, so none knows of an earlier run
        self.spark.session.sparkContext.environment["RUN"] = str(next(NUMBERS))
        self.monkeypatch.setattr(spark, "start", self._start)
        ended = self.riverrun(*words)
        assert ended.code == code, ended.err
        return Finished(ended.code, ended.out, ended.err)

    def _start(self, name: str, *, folder: Path, **_: object) -> Spark:
        return Shared(self.spark.session, folder, None, self.spark.parallel)
