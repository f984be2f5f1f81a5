"""What Spark tells of batches: what the first one waits for, and how long each took."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from riverrun.kernels.messages import Times

PARTS = {
    "planning": ("latestOffset", "getOffset"),
    "logging": ("walCommit",),
    "preparing": ("getBatch", "queryPlanning"),
    "running": ("addBatch",),
    "committing": ("commitOffsets",),
}
"""Our words for the parts of a batch, and Spark's, in the order in which they happen."""

RAN, WHOLE = "addBatch", "triggerExecution"

LOOKED_IN_VAIN = ("Waiting for data to arrive", "Waiting for next trigger")
"""Spark's words once it has looked for data; before it has, there is none to its knowledge, too."""


def of_the_first_batch(query: StreamingQuery) -> str | None:
    """What keeps the first batch; None while Spark has not looked what there is to read."""
    status = query.status
    if status["isDataAvailable"]:
        return "the first batch takes its time: workers start, and load their code"
    return "there is nothing to read yet" if status["message"] in LOOKED_IN_VAIN else None


def measured(query: StreamingQuery, after: int) -> list[Times]:
    """The batches since `after` that are done and told of, the oldest first."""
    last: Mapping[str, Any] | None = query.lastProgress
    if last is None or last["batchId"] <= after:
        return []
    if last["batchId"] == after + 1 and _ran(last):
        return [_times(last)]
    found = [each for each in query.recentProgress if each["batchId"] > after and _ran(each)]
    return [_times(each) for each in found]


def _ran(progress: Mapping[str, Any]) -> bool:
    """Spark also tells from time to time that there was nothing to do."""
    return RAN in progress["durationMs"]


def _times(progress: Mapping[str, Any]) -> Times:
    took = {name: each / 1000 for name, each in progress["durationMs"].items()}
    parts = {
        part: sum(took[name] for name in names if name in took) for part, names in PARTS.items()
    }
    return Times(
        progress["batchId"],
        datetime.fromisoformat(progress["timestamp"]).timestamp(),
        took[WHOLE],
        parts,
        tuple(each["memoryUsedBytes"] for each in progress["stateOperators"]),
    )
