"""The one writer of a query: tasks deliver what their pages gave; the driver notes how it went."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from riverrun.delivery.alerts import LateShares
from riverrun.delivery.encode import Line, lines, ordered
from riverrun.delivery.kafka import KafkaSink
from riverrun.delivery.outbox import Outbox, Status
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.sql import Evaluator
from riverrun.program import OutputSpec, Program, Screen
from riverrun.spark.zygote import settle

SHOWN = 1000
"""Rows per task and batch that a screen is given."""


@dataclass
class Delivered(WriterCommitMessage):
    """What one task tells the driver."""

    status: Status
    shown: list[Line] = field(default_factory=list)


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(
        self, program: Program, client: dict[str, str] | None, status: Path, collect: Path | None
    ) -> None:
        self.program, self.client, self.status_folder, self.collect = (
            program,
            client,
            status,
            collect,
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        outbox = Outbox(self.program, _evaluator())
        for batch in iterator:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                outbox.add(Chunk(*row))
        delivered = Delivered(outbox.status)
        collected: list[Line] = []
        for output, rows in outbox.outputs():
            outbox.status.written[output.name] = rows.num_rows
            if self.collect is not None:
                collected += lines(output, rows, _evaluator())
            else:
                self._deliver(output, rows, delivered)
        if self.collect is not None:
            _keep(self.collect, collected)
        elif self.client is not None:
            _kafka_sink(json.dumps(self.client)).flush()
        return delivered

    def _deliver(self, output: OutputSpec, rows: pa.Table, delivered: Delivered) -> None:
        if isinstance(output.sink, Screen):
            found = lines(output, rows.slice(0, SHOWN), _evaluator())
            delivered.shown += ordered(found)
        else:
            assert self.client is not None
            _kafka_sink(json.dumps(self.client)).send(output, rows, _evaluator())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        total = Status()
        shown: list[Line] = []
        for message in messages:
            if isinstance(message, Delivered):
                total.add(message.status)
                shown += message.shown
        note_status(self.status_folder, self.program, (batchId, total, shown))


def _keep(folder: Path, found: list[Line]) -> None:
    """One file per batch and task; a task run again replaces its own."""
    context = TaskContext.get()
    assert context is not None
    batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
    file = folder / f"{batch:06d}-{context.partitionId()}.json"
    file.with_suffix(".tmp").write_text(json.dumps(found))
    os.replace(file.with_suffix(".tmp"), file)


def note_status(folder: Path, program: Program, batch: tuple[int, Status, list[Line]]) -> None:
    """Counts go up from batch to batch; what is shown is of this batch."""
    number, status, shown = batch
    before = last_status(folder) or {}
    total = Status(
        events=before.get("events", 0), dead=before.get("dead", 0), late=before.get("late", {}),
        rows=before.get("rows", {}), written=before.get("written", {}),
    )  # fmt: skip
    total.add(status)
    shares = LateShares(before.get("recent", {}), before.get("alerts", []))
    shares.add(program.late_alerts, status)
    noted = {**asdict(total), **asdict(shares), "batch": number, "shown": shown}
    temporary = folder / "status.tmp"
    temporary.write_text(json.dumps(noted))
    os.replace(temporary, folder / "status.json")


def last_status(folder: Path) -> dict[str, Any] | None:
    """What the last committed batch of this run said; None before the first."""
    try:
        found: dict[str, Any] = json.loads((folder / "status.json").read_text())
    except FileNotFoundError:
        return None
    return found


@cache
def _evaluator() -> Evaluator:
    evaluator = Evaluator()
    settle()
    return evaluator


@cache
def _kafka_sink(client: str) -> KafkaSink:
    return KafkaSink(json.loads(client))
