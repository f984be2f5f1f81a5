"""What a source is: it plans batches, gives the records of ranges in lots, and finds originals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun.control import Command
from riverrun.kernels.letters import Original, RecordPlace
from riverrun.kernels.lots import Lot
from riverrun.kernels.program import Program
from riverrun.partitions import Range
from riverrun.sources.pacing import Pacer
from riverrun.sources.planning import Planner
from riverrun.sources.span import EVERYTHING, Span
from riverrun.versions import Version


@dataclass(frozen=True)
class Circumstances:
    """What a planner is told of the job that it plans for."""

    program: Program
    pacer: Pacer
    last_status: Callable[[], dict[str, Any] | None]
    """What the last committed batch of this run said; None before the first."""
    folder: Path
    """Of the driver, for what is noted of the job."""
    close: bool = False
    """Whether windows are to close when all there is was read."""
    span: Span = EVERYTHING
    """What is to be read of topics, if not all from where the program says."""
    version: Version | None = None
    """Which version of an application it is; None where there is but one."""


class Source(ABC):
    """Where the records of a program's topics are. It travels to tasks, so it holds no connection;
    what it opens there is kept for the process."""

    wall: bool
    """Whether batches run at times of the day; else their ticks count from zero."""

    @abstractmethod
    def planner(self, job: Circumstances) -> Planner:
        """On the driver, once per run."""

    @abstractmethod
    def lots(self, ranges: Sequence[Range], with_headers: frozenset[str]) -> Iterator[Lot]:
        """In a task: the records of the ranges, in lots. `with_headers` names topics.

        What is in a lot follows from the ranges alone. Records that are gone are `RecordsGone`.
        """

    @abstractmethod
    def commands(self, application: str, start: int, end: int) -> list[Command]:
        """A range of the application's control log."""

    @abstractmethod
    def answer(self, application: str, answers: list[Command]) -> None:
        """Adds what steps reply to commands, to the same log. A batch that is run again replies
        again: who reads it goes by the first reply."""

    @abstractmethod
    def reply(self, application: str, parts: list[bytes]) -> None:
        """In a task: gives those who ask what pages answer, as bytes. It may come again, and may
        be lost: who asks waits for a while. It must not fail."""

    @abstractmethod
    def originals(self, places: list[RecordPlace]) -> Mapping[RecordPlace, Original]:
        """Records with all that was written; those that are gone are left out."""
