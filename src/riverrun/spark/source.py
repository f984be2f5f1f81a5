"""The one source of a query: plans ranges on the driver, reads and evaluates them in tasks."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
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
from riverrun.edges import Edge
from riverrun.far import AnyPath
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.functions import Function
from riverrun.kernels.letters import RecordPlace
from riverrun.kernels.lots import LotReader
from riverrun.kernels.program import Program
from riverrun.outputs import Identity, Places
from riverrun.partitions import Range, as_texts
from riverrun.sources.pacing import Pacer
from riverrun.sources.planning import Offset, Planner, tasks, within
from riverrun.sources.reading import read_ranges
from riverrun.sources.source import Circumstances, Source
from riverrun.sources.span import EVERYTHING, Span
from riverrun.spark import drain
from riverrun.spark.portable import portable
from riverrun.spark.writer import StreamSink
from riverrun.spark.zygote import settle
from riverrun.versions import Version

CHUNK_SCHEMA = "page int, edge string, seq long, data binary"
ARROW_SCHEMA = pa.schema(
    [("page", pa.int32()), ("edge", pa.string()), ("seq", pa.int64()), ("data", pa.binary())]
)


@dataclass(frozen=True)
class Job:
    """All that a query's tasks need to know, wherever they run."""

    program: Program
    source: Source
    """Where its topics are."""
    status: Path
    """A folder of the driver, for what batches tell of themselves."""
    collect: Path | None
    """Where to put all output, instead of its sinks."""
    parallel: int
    max_events: int
    batch_seconds: float | None
    """How long a batch should take; None: as long as it takes."""
    identity: Identity
    places: Places | None
    """What destinations need; None when all output is collected."""
    query_id: str = ""
    state_memory: int = 1 << 30
    """Bytes of state that a worker holds in memory."""
    close: bool = False
    """Whether windows are to close when all there is was read."""
    span: Span = EVERYTHING
    """What is to be read of topics, if not all from where the program says."""
    aside: Mapping[RecordPlace, str] = field(default_factory=dict)
    """Records that end a run, each with the cause: they are dead letters."""
    compared: bool = False
    """Whether nothing is delivered: what is there of the batch is compared."""
    only: tuple[Range, ...] | None = None
    """All that is read of a batch, where it is tried."""
    version: Version | None = None
    """Which version of an application it is; None where there is but one."""
    kept: AnyPath | None = None
    """A folder that all workers see, for what batches are told from outside; None where no batch
    is run again."""
    checkpoint: AnyPath = Path()
    """That of the query, which all workers see; it is known as the query starts."""

    def encoded(self) -> str:
        return base64.b64encode(portable(self, self.program)).decode()


@cache
def job_of(encoded: str) -> Job:
    job: Job = pickle.loads(base64.b64decode(encoded))
    return job


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
        job = job_of(self.options["job"])
        return StreamSink(
            job.program.for_writing,
            job.identity,
            places=job.places,
            status=job.status,
            collect=job.collect,
            functions=Functions(self.options["job"] if job.program.functions else None),
            originals=job.source.originals,
            answer=job.source.answer,
            reply=job.source.reply,
            late_alerts=job.program.late_alerts,
            compared=job.compared,
        )


@dataclass(frozen=True)
class Functions:
    """The functions of a job: its bytes hold the user's code, which Spark would not send along."""

    encoded: str | None

    def __call__(self) -> tuple[Function, ...]:
        return () if self.encoded is None else job_of(self.encoded).program.functions


@dataclass
class Task(InputPartition):
    """Ranges that one task reads, and what the batch says of time."""

    ranges: list[Range]
    punctuation: Punctuation
    now: Now


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
        reader, task = lot_reader(self.encoded), partition
        for chunks in read_ranges(self.job.source, reader, task.ranges, task.now, task.punctuation):
            yield from as_batches(chunks)


@cache
def lot_reader(encoded: str) -> LotReader:
    job = job_of(encoded)
    reader = LotReader(job.program, job.aside)
    settle()
    return reader


def as_batches(chunks: list[Chunk]) -> Iterator[pa.RecordBatch]:
    if chunks:
        columns = zip(*((c.page, str(c.edge), c.seq, c.data) for c in chunks), strict=True)
        arrays = [pa.array(column, f.type) for column, f in zip(columns, ARROW_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def as_chunks(batch: pa.RecordBatch) -> Iterator[Chunk]:
    for page, edge, seq, data in zip(*(c.to_pylist() for c in batch.columns), strict=True):
        yield Chunk(page, Edge.parse(edge), seq, data)
