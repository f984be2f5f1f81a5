"""What a task reads of a batch: in a reader before an exchange, else where it is written."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from riverrun.clock import Now, Punctuation
from riverrun.edges import Edge
from riverrun.kernels.chunks import Chunk
from riverrun.partitions import Range
from riverrun.sources.reading import read_ranges
from riverrun.spark.job import Job, job_of, lot_reader

UNREAD = Edge("unread")
"""A task that is read by who writes what comes of it."""


@dataclass
class Task(InputPartition):
    """Ranges that one task reads, and what the batch says of time."""

    ranges: list[Range]
    punctuation: Punctuation
    now: Now

    def chunk(self) -> Chunk:
        return Chunk(0, UNREAD, 0, pickle.dumps(self))


def read_by_writer(job: Job) -> bool:
    """Whether rows go from where they are read to where they are written without an exchange: then
    one process does both, and no row goes through the JVM."""
    return not job.program.levels and not job.program.spark_steps


def read(encoded: str, task: Task) -> Iterator[list[Chunk]]:
    """The chunks of each lot."""
    reader = lot_reader(encoded)
    return read_ranges(job_of(encoded).source, reader, task.ranges, task.now, task.punctuation)


def read_here(encoded: str, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """What comes of tasks that were sent as they are; other chunks stay as they are."""
    for chunk in chunks:
        if chunk.edge == UNREAD:
            task: Task = pickle.loads(chunk.data)
            yield from (each for lot in read(encoded, task) for each in lot)
        else:
            yield chunk
