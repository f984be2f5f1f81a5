"""What delivers: a destination takes a task's part of a batch, and it takes effect once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from riverrun.kernels.program import OutputSpec
from riverrun.kernels.sql import Evaluator

Rows = tuple[OutputSpec, pa.Table]


@dataclass(frozen=True)
class Part:
    """What one write task holds of one batch: the same, byte by byte, when it is run again."""

    application: str
    checkpoint: str
    """The id of the checkpoint: progress is kept under it, never under a name."""
    run: int
    """Later runs of an application have higher numbers, whatever their checkpoint."""
    batch: int
    task: int
    tick: int
    """The batch's logged time in microseconds: never lower than that of the batch before."""
    keep_written: bool = False
    """Whether results that were written before stay, though they are other ones now."""


class Destination:
    """One place that takes some of a program's outputs: a Kafka cluster, a database, a folder."""

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        """On the driver, before Spark starts: makes what is missing; what does not fit is an
        error, before anything is written."""

    def take_over(self, application: str, run: int) -> None:
        """On the driver, before the first batch: earlier runs may write no more."""

    def begin(self, part: Part) -> None:
        """In a task, before its rows are computed: a chance to get ready meanwhile."""

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> Any:
        """In a task: every output of this destination that the part has rows for.

        It is called again for the same part after any failure, maybe in another process, maybe
        while the first call still runs. The receipt that it returns is given to `finish`.
        """
        raise NotImplementedError

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        """On the driver, when all tasks have delivered, and before Spark commits the batch. It is
        called again for the same batch when the driver dies in between."""
