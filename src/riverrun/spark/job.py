"""What a query's tasks are told, wherever they run."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from riverrun.far import AnyPath
from riverrun.kernels.letters import RecordPlace
from riverrun.kernels.lots import LotReader
from riverrun.kernels.program import Program
from riverrun.outputs import Identity, Places
from riverrun.partitions import Range
from riverrun.sources.source import Source
from riverrun.sources.span import EVERYTHING, Span
from riverrun.spark.portable import portable
from riverrun.spark.zygote import settle
from riverrun.versions import Version


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
    """Tasks that read."""
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
    parts: int = 0
    """Tasks that visit pages, as Spark's log has it; 0 before the first batch: then as many as
    Spark's session says."""
    checkpoint: AnyPath = Path()
    """That of the query, which all workers see; it is known as the query starts."""

    def encoded(self) -> str:
        return base64.b64encode(portable(self, self.program)).decode()


@cache
def job_of(encoded: str) -> Job:
    job: Job = pickle.loads(base64.b64decode(encoded))
    return job


@cache
def lot_reader(encoded: str) -> LotReader:
    job = job_of(encoded)
    reader = LotReader(job.program, job.aside)
    settle()
    return reader
