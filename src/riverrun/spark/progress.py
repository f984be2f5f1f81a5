"""What Spark tells of batches: what the first one waits for, and how long each took."""

from __future__ import annotations

import json
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
    return [_times(each) for each in reports(query, after)]


def reports(query: Any, after: int) -> list[Mapping[str, Any]]:
    """What Spark tells of them, each in one call: PySpark asks for every figure by itself."""
    last = query._jsq.lastProgress()
    if last is None or last.batchId() <= after:
        return []
    found = [json.loads(last.json())]
    if last.batchId() > after + 1 or not _ran(found[0]):
        found = [json.loads(each.json()) for each in query._jsq.recentProgress()]
    return [each for each in found if each["batchId"] > after and _ran(each)]


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
    )
