"""Measures one streaming query: time per batch as Spark tells it, CPU of all its processes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql.streaming import StreamingQuery

from riverrun.spark.progress import reports


def tree_cpu(others: Iterable[int] = ()) -> dict[str, float]:
    """CPU seconds of this process, the others, and everything below them: of JVMs, and the rest,
    which is Python."""
    found = {"JVM": 0.0, "Python": 0.0}
    for root in (os.getpid(), *others):
        for process in [psutil.Process(root), *psutil.Process(root).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                found["JVM" if process.name() == "java" else "Python"] += times.user + times.system
    return found


class Meter:
    """Watches a query to its end, or until the file `stop` appears, and writes what it saw."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.out, self.stop = Path(plan["result"]), Path(plan["result"] + ".stop")
        self.processes: list[int] = plan.get("processes", [])
        self.last_batch = -1

    def watch(self, query: StreamingQuery) -> None:
        batches: dict[int, dict[str, Any]] = {}
        while True:
            active = query.isActive
            for found in reports(query, self.last_batch):
                self.last_batch = found["batchId"]
                cpu = tree_cpu(self.processes)
                spent = {"cpu": sum(cpu.values()), "cpu_of": cpu}
                batches[self.last_batch] = {**_facts(found), **spent}
                self._note(batches)
            if not active:
                break
            if self.stop.exists():
                query.stop()
                break
            time.sleep(0.05)
        query.awaitTermination()

    def _note(self, batches: dict[int, dict[str, Any]]) -> None:
        temporary = self.out.with_suffix(".tmp")
        temporary.write_text(json.dumps([batches[number] for number in sorted(batches)]))
        os.replace(temporary, self.out)


def _facts(progress: Mapping[str, Any]) -> dict[str, Any]:
    sources = progress["sources"]
    return {
        "batch": progress["batchId"],
        "seconds": progress["durationMs"]["triggerExecution"] / 1000,
        "events": sum(_read(each["endOffset"]) - _read(each["startOffset"]) for each in sources),
        "at": time.time(),
        "parts": progress["durationMs"],
    }


def _read(offset: Any) -> int:
    """Records up to an offset, as riverrun's source or Spark's Kafka source logs it."""
    found = json.loads(offset) if isinstance(offset, str) else offset
    if not found:
        return 0
    if "ends" in found:
        return sum(found["ends"].values())
    return sum(place for topic in found.values() for place in topic.values())
