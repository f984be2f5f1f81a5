"""How long the batches of a run take: noted in a file after each, for whoever watches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from riverrun import private
from riverrun.kernels.messages import Times

TIMES = "times.json"
"""The file of a job's status folder that holds them."""

Batches = Callable[[int], list[Times]]
"""What is known of the batches after the one of this number."""
Heard = Callable[[Times, Mapping[str, Any]], None]
"""Whoever wants to know of each batch: its times, and its own counts."""


class Stopwatch:
    """Notes how long batches take, once Spark tells.

    It looks only while a batch is committed and not told of, so it costs a batch nothing; and
    nothing here may stop the job: what cannot be noted is left out.
    """

    def __init__(self, batches: Batches, file: Path, heard: Heard) -> None:
        self.batches, self.file, self.heard = batches, file, heard
        self.batch = -1
        self.count = 0
        self.seconds: Counter[str] = Counter()
        self.rate: float | None = None
        self.latency: dict[str, float] = {}

    def look(self, status: Mapping[str, Any] | None) -> None:
        """`status` is what the last committed batch said."""
        if status is None or status["batch"] <= self.batch:
            return
        for times in self.batches(self.batch):
            counts = status["own"].get(str(times.batch))
            if counts is None:  # told of before its status is, or after too many others
                return
            self._add(times, counts)
            self.heard(times, counts)

    def _add(self, times: Times, counts: Mapping[str, Any]) -> None:
        self.batch, self.count = times.batch, self.count + 1
        took = {**times.parts, "whole": times.whole}
        self.seconds.update(took)
        if counts["events"]:
            self.rate = counts["events"] / max(times.whole, 0.001)
        self.latency |= dict(_latencies(counts))
        noted = {
            "batch": times.batch,
            "began_at": times.began_at,
            "last": took,
            "events": counts["events"],
            "batches": self.count,
            "seconds": dict(self.seconds),
            "rate": self.rate,
            "latency": self.latency,
        }
        with suppress(OSError):
            private.replace(self.file, json.dumps(noted))


def _latencies(counts: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Seconds from the newest event of each partition until what came of it was committed."""
    for partition, high in counts["highs"].items():
        yield partition, counts["at"] - high / 1e6


def noted(folder: Path) -> dict[str, Any] | None:
    """What a run has noted after its last batch; None before the first."""
    try:
        found: dict[str, Any] = json.loads((folder / TIMES).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found
