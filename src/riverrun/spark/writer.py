"""The one writer of a query: tasks deliver what their pages gave; the driver notes how it went."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from riverrun import exact
from riverrun.control import Command
from riverrun.delivery.encode import Line, lines, ordered
from riverrun.delivery.outbox import Outbox
from riverrun.delivery.status import note_status
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.functions import Function
from riverrun.kernels.messages import Status
from riverrun.kernels.program import Program
from riverrun.kernels.sql import Evaluator, shared_evaluator
from riverrun.outputs import (
    Done,
    OutputSpec,
    Part,
    Places,
    Rows,
    by_destination,
    destination_of,
    destinations,
)
from riverrun.partitions import Partition
from riverrun.spark.exchange import Exchange
from riverrun.spark.job import Job, job_of
from riverrun.spark.reading import read_here
from riverrun.spark.rows import chunks_of
from riverrun.spark.zygote import settle

SHOWN = 1000
"""Rows per task and batch that a screen is given."""


@dataclass
class Delivered(WriterCommitMessage):
    """What one task tells the driver."""

    status: Status
    shown: list[Line] = field(default_factory=list)
    receipts: list[Any] = field(default_factory=list)
    """One for each destination, in the order of the program's outputs; None if it got nothing."""


class StreamSink(DataSourceStreamArrowWriter):
    """Its tasks also visit the pages of the last exchange: what leaves them is written here. Where
    there is no exchange, they read what they write."""

    def __init__(self, encoded: str) -> None:
        self.encoded = encoded

    @property
    def job(self) -> Job:
        return job_of(self.encoded)

    @property
    def program(self) -> Program:
        return self.job.program

    @property
    def places(self) -> Places | None:
        return self.job.places

    @property
    def evaluator(self) -> Evaluator:
        return _evaluator(self.program.functions)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        job = self.job
        if job.places is not None and not job.compared:
            for destination in destinations(self.program.outputs, job.places):
                destination.begin(self._part(0))
        outbox = Outbox(self.program, self.evaluator, job.source.originals, self._refused)
        for chunk in self._leaving(chunks_of(iterator)):
            outbox.add(chunk)
        delivered = Delivered(outbox.status)
        found = list(outbox.outputs())
        for output, rows in found:
            outbox.status.written[output.name] = _there(output, rows)
        if job.compared:
            self._compare(found, delivered.status.tick)
        elif job.collect is not None:
            _keep(job.collect, [ln for o, r in found for ln in lines(o, r, self.evaluator)])
        else:
            self._deliver(found, delivered)
        if outbox.answers and not job.compared:
            # from here, so that the driver does not have to hold them all
            job.source.reply(self.program.name, outbox.answers)
        return delivered

    def _leaving(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        levels = self.program.levels
        if levels:
            return Exchange(self.encoded, levels - 1).computed(chunks)
        return read_here(self.encoded, chunks)

    def _refused(self, output: OutputSpec, rows: pa.Table) -> Mapping[int, str]:
        destination = destination_of(output.sink, self.places) if self.places else None
        return destination.refused(output, rows, self.evaluator) if destination else {}

    def _deliver(self, found: list[Rows], delivered: Delivered) -> None:
        assert self.places is not None
        part = self._part(delivered.status.tick)
        rows_of = by_destination(found, self.places)
        for destination in destinations(self.program.outputs, self.places):
            rows = rows_of.get(destination)
            receipt = destination.deliver(part, rows, self.evaluator) if rows else None
            delivered.receipts.append(receipt)
        for output, rows in found:
            if destination_of(output.sink, self.places) is None:
                first = lines(output, rows.slice(0, SHOWN), self.evaluator)
                delivered.shown += ordered(first)

    def _compare(self, found: list[Rows], tick: int) -> None:
        assert self.places is not None
        rows_of = by_destination(found, self.places)
        for destination in destinations(self.program.outputs, self.places):
            destination.compare(self._part(tick), rows_of.get(destination, []), self.evaluator)

    def _part(self, tick: int) -> Part:
        batch, task = _place()
        own = self.job.identity
        return Part(
            self.program.name, own.checkpoint, own.run, batch, task, tick, own.keep_written
        )  # fmt: skip

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self.job.compared:
            return
        told = [message for message in messages if isinstance(message, Delivered)]
        total = Status()
        for message in told:
            total.add(message.status)
        if self.places is not None:
            for number, each in enumerate(destinations(self.program.outputs, self.places)):
                each.finish(batchId, [message.receipts[number] for message in told])
        if self.places is not None and self.program.followed:
            self._note(batchId, total, self.places)
        if total.answers:
            self.job.source.answer(self.program.name, [Command(**each) for each in total.answers])
        shown = [line for message in told for line in message.shown]
        note_status(self.job.status, self.program.late_alerts, (batchId, total, shown))

    def _note(self, batch: int, total: Status, places: Places) -> None:
        """What readers of outputs ask: how far the batch read, and what became of it."""
        own = _own_ends(places, self.program.own_topics)
        done = Done(
            self.program.name, self.job.identity.checkpoint, batch, total.tick, total.ends, own,
            total.clocks, total.highs, total.closes, total.aside,
        )  # fmt: skip
        for destination, outputs in destinations(self.program.outputs, places).items():
            if any(output.sink.followed() for output in outputs):
                destination.note(done)


def _own_ends(places: Places, topics: tuple[str, ...]) -> dict[str, int]:
    """What a batch has written to topics that the program reads again, by partition."""
    if not topics:
        return {}
    cluster = KafkaTopics(dict(places.kafka))
    facts = cluster.facts(list(topics))
    partitions = [Partition(name, n) for name in topics for n in range(facts[name].partitions)]
    return {str(each): end for each, end in cluster.ends(partitions).items()}


def _there(output: OutputSpec, rows: pa.Table) -> int:
    """How many rows there are: those that are taken back are not."""
    if not output.table:
        return int(rows.num_rows)
    return int(pc.sum(pc.greater(rows["__op"], 0)).as_py() or 0)


def _place() -> tuple[int, int]:
    """The batch and the task that this process works at."""
    context = TaskContext.get()
    assert context is not None
    return int(context.getLocalProperty("streaming.sql.batchId") or 0), context.partitionId()


def _keep(folder: Path, found: list[Line]) -> None:
    """One file per batch and task; a task run again replaces its own."""
    batch, task = _place()
    file = folder / f"{batch:06d}-{task}.json"
    file.with_suffix(".tmp").write_text(exact.dumps(found))
    os.replace(file.with_suffix(".tmp"), file)


@cache
def _evaluator(functions: tuple[Function, ...]) -> Evaluator:
    evaluator = shared_evaluator(functions)
    settle()
    return evaluator
