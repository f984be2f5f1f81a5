"""Parts of batches as destinations are given them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from riverrun.kernels.sql import Evaluator
from riverrun.outputs import OutputSpec, Part, Rows
from riverrun.schema import parse
from riverrun.sinks.kafka.sink import Topic

START = datetime(2026, 1, 1)
EVALUATOR = Evaluator()


def part(application: str, batch: int = 0, **facts: Any) -> Part:
    common: dict[str, Any] = {"checkpoint": "c1", "run": 1, "task": 0, "tick": batch}
    return Part(application=application, batch=batch, **(common | facts))


def stream(topic: str, *numbers: int) -> Rows:
    output = OutputSpec(topic, Topic(topic), parse("user string, n bigint"), ("user",), table=False)
    rows = {
        "user": [f"u{n}" for n in numbers],
        "n": list(numbers),
        "__at": pa.array([START + timedelta(seconds=n) for n in numbers], pa.timestamp("us")),
        "__pos": list(numbers),
        "__sub": [0] * len(numbers),
    }
    return output, pa.table(rows)


def table(topic: str, *changes: tuple[int, str, int]) -> Rows:
    """Changes of a table: +1 or -1, the key, the value."""
    output = OutputSpec(topic, Topic(topic), parse("user string, n bigint"), ("user",), table=True)
    ops, users, numbers = zip(*changes, strict=True)
    rows = {"user": users, "n": numbers, "__op": ops, "__revision": [0] * len(ops)}
    return output, pa.table(rows)
