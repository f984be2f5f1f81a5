"""A program seen from outside: rows that others can see, CPU and memory of all its processes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from riverrun.errors import JobError
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition

EVERY = 0.1
QUIET = 3.0
"""Seconds without another row, after which no more are to come."""


@dataclass(frozen=True)
class Sample:
    at: float
    """Seconds since the start."""
    rows: int
    cpu: float


@dataclass(frozen=True)
class Seen:
    """What a run was like, from its first row to its last."""

    first: Sample
    last: Sample
    megabytes: int
    """Of memory, at most: what its processes share is counted once."""

    @property
    def steady(self) -> tuple[float, float]:
        """Rows a second and CPU seconds per row after the first ones, which warm up. A program
        that shows all at once is judged from its start."""
        begun = self.first if self.last.rows > 2 * self.first.rows else Sample(0, 0, 0)
        rows = self.last.rows - begun.rows
        return rows / (self.last.at - begun.at), (self.last.cpu - begun.cpu) / rows


class Watch:
    """Samples of a process and of the topic that it writes."""

    def __init__(
        self, process: subprocess.Popen[bytes], client: dict[str, str], written: list[Partition]
    ) -> None:
        self.process, self.written = process, written
        self.topics = KafkaTopics(client, patience=60)
        self.begun = time.monotonic()
        self.spent: dict[int, float] = {}
        """CPU of each process that was ever seen: those that have ended count, too."""
        self.peak = 0

    def until(self, rows: int, *, patience: float, nudge: Callable[[], None]) -> Seen:
        """To the last row, at least `rows` of them. `nudge` is called each second in which none
        comes after the first: some tell what they have only when another event comes."""
        first, last, measured, nudged = Sample(0, 0, 0), Sample(0, 0, 0), 0.0, 0.0
        while True:
            now = self._sample()
            if now.rows > last.rows:
                first, last = first if first.rows else now, now
            elif last.rows >= rows and now.at - last.at > QUIET:
                return Seen(first, last, self.peak)
            if first.rows and last.rows < rows and now.at - max(last.at, nudged) > 1:
                nudged = now.at
                nudge()
            if now.at - measured > 1:
                measured, self.peak = now.at, max(self.peak, self.megabytes())
            if self.process.poll() is not None:
                raise JobError(f"it ended by itself, after {last.rows:,} of {rows:,} rows")
            if now.at - last.at > patience:
                raise JobError(f"{last.rows:,} of {rows:,} rows in {last.at:.0f} s, then no more")
            time.sleep(EVERY)

    def first_row(self, patience: float = 120) -> float:
        """Seconds from the start to the first row."""
        while not (now := self._sample()).rows:
            if self.process.poll() is not None or now.at > patience:
                raise JobError(f"no row after {now.at:.0f} s")
            time.sleep(0.02)
        return now.at

    def megabytes(self) -> int:
        """Of memory, now: what its processes share is counted once."""
        return round(sum(map(_proportional, self._processes())) / 1e6)

    def _sample(self) -> Sample:
        for each in self._processes():
            with suppress(psutil.Error):
                times = each.cpu_times()
                self.spent[each.pid] = times.user + times.system
        # marks of transactions count as rows: a few in a thousand
        rows = sum(self.topics.ends(self.written).values())
        return Sample(time.monotonic() - self.begun, rows, sum(self.spent.values()))

    def _processes(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        return []


def _proportional(process: psutil.Process) -> float:
    """Bytes, of which shared ones count in part."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return 1024.0 * next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
