"""What the batches of a run have told, as the driver keeps it in a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from riverrun import exact, private
from riverrun.delivery.alerts import LateShares
from riverrun.delivery.encode import Line
from riverrun.kernels.messages import Status

STATUS = "status.json"
"""The file of a job's status folder."""

KEPT = 3
"""Batches whose own counts are kept: when one is looked at, others may be done already."""


def note_status(
    folder: Path, late_alerts: Mapping[str, float], batch: tuple[int, Status, list[Line]]
) -> None:
    """Counts go up from batch to batch; what is shown is of this batch."""
    number, status, shown = batch
    before = last_status(folder) or {}
    total = Status(
        events=before.get("events", 0), dead=before.get("dead", 0), late=before.get("late", {}),
        rows=before.get("rows", {}), written=before.get("written", {}),
        dropped=before.get("dropped", 0), causes=before.get("causes", {}),
    )  # fmt: skip
    total.add(status)
    shares = LateShares(before.get("recent", {}), before.get("alerts", []))
    shares.add(late_alerts, status)
    own = {**dict(list(before.get("own", {}).items())[1 - KEPT :]), str(number): _counts(status)}
    waiting = sum(status.waiting.values())
    noted = {
        **asdict(total), **asdict(shares), "batch": number, "own": own, "shown": shown,
        "most_waiting": max(waiting, before.get("most_waiting", 0)),
    }  # fmt: skip
    private.replace(folder / STATUS, exact.dumps(noted))


def _counts(status: Status) -> dict[str, Any]:
    """What is of one batch alone, and when it was committed."""
    return {
        "at": time.time(),
        "tick": status.tick,
        "events": status.events,
        "written": sum(status.written.values()),
        "late": sum(status.late.values()),
        "dead": status.dead,
        "dropped": status.dropped,
        "highs": status.highs,
    }


def last_status(folder: Path) -> dict[str, Any] | None:
    """What the last committed batch of this run said; None before the first."""
    try:
        found: dict[str, Any] = exact.loads((folder / STATUS).read_text())
    except FileNotFoundError:
        return None
    return found
