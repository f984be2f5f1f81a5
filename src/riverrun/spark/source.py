"""The one source of a query: plans ranges on the driver, reads and evaluates them in tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from riverrun.clock import Now, Punctuation
from riverrun.control import QUESTION, waited_for
from riverrun.delivery.status import last_status
from riverrun.partitions import as_texts
from riverrun.sources.pacing import Pacer
from riverrun.sources.planning import Offset, Planner, tasks, within
from riverrun.sources.source import Circumstances
from riverrun.spark import drain
from riverrun.spark.job import Job, job_of
from riverrun.spark.reading import Task, read, read_by_writer
from riverrun.spark.rows import CHUNK_SCHEMA, as_batches
from riverrun.spark.writer import StreamSink


class RiverrunSource(DataSource):
    """Named `riverrun` in readStream and writeStream; its one option is the job."""

    @classmethod
    def name(cls) -> str:
        return "riverrun"

    def schema(self) -> str:
        return CHUNK_SCHEMA

    def streamReader(self, schema: StructType) -> ChunkReader:
        return ChunkReader(self.options["job"])

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        return StreamSink(self.options["job"])


class ChunkReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, encoded: str) -> None:
        self.encoded = encoded
        self._planner: Planner | None = None
        self.forgotten = 0
        """How far the control log was read for who is to be forgotten."""

    @property
    def job(self) -> Job:
        return job_of(self.encoded)

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            self._planner = self._new_planner(self.job)
        return self._planner

    def _new_planner(self, job: Job) -> Planner:
        pacer = Pacer(job.max_events, job.batch_seconds)
        told = partial(last_status, job.status)
        about = Circumstances(
            job.program, pacer, told, job.status,
            close=job.close, span=job.span, version=job.version,
        )  # fmt: skip
        return job.source.planner(about)

    def initialOffset(self) -> dict[str, Any]:
        return self.planner.first().logged()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.stop_at_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if drain.asked(self.job.status):
            return start
        begin = Offset.of(start)
        self._forget(begin)
        end = self.planner.next(begin)
        return (end if end == begin else replace(end, parallel=self.job.parallel)).logged()

    def _forget(self, committed: Offset) -> None:
        """All batches up to here are committed: what they were asked to forget is forgotten."""
        if self.job.program.personal and committed.control > self.forgotten:
            name = self.job.program.name
            commands = self.job.source.commands(name, self.forgotten, committed.control)
            self.job.program.forget(commands)
            self.forgotten = committed.control

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        target = Offset.of(end)
        dealt = tasks(Offset.of(start), target)
        if self.job.only is not None:
            dealt = [within(ranges, self.job.only) for ranges in dealt]
        said = target.punctuation()
        said.behind = self.job.program.with_keepers(said.behind)
        said.over = self.job.program.with_keepers(said.over)
        name, before = self.job.program.name, Offset.of(start).control
        commands = self.job.source.commands(name, before, target.control)
        said.commands = waited_for(commands, target.tick)
        if any(each.kind == QUESTION for each in said.commands):
            # Spark counts from zero
            said.point = {"batch": target.batch - 1, "ends": as_texts(target.ends)}
        marks = [said, *(Punctuation() for _ in dealt[1:])]
        first = target.batch == 1
        stands = as_texts(target.ends) if first else {}
        now = Now(target.tick, self.job.source.wall, target.clocks, first, stands)
        return [Task(ranges, mark, now) for ranges, mark in zip(dealt, marks, strict=True)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        if read_by_writer(self.job):
            yield from as_batches([partition.chunk()], self.job)
            return
        for chunks in read(self.encoded, partition):
            yield from as_batches(chunks, self.job)
