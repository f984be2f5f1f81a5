"""The exchange: Spark brings a page's chunks together and keeps its state; the kernel computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from riverrun.edges import Edge
from riverrun.errors import CheckpointError
from riverrun.kernels import known
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.kept import KeptInFolder
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.questions import Answering
from riverrun.kernels.state import SegmentCache
from riverrun.spark.source import Job, job_of
from riverrun.spark.zygote import settle

SENT = Row("page", "edge", "seq", "data")

_caches: dict[str, SegmentCache] = {}
_answering = Answering()
"""What questions take of a batch is counted for all pages in this process."""


def _cache(job: Job) -> SegmentCache:
    """One for all pages and levels of a query in this process."""
    if job.query_id not in _caches:
        _caches[job.query_id] = SegmentCache(job.state_memory)
        settle()
    return _caches[job.query_id]


class SegmentStore:
    """A page's segments in Spark's state store."""

    def __init__(self, segments: Any) -> None:
        self.segments = segments

    def get(self, segment: str) -> bytes:
        found = self.segments.getValue((segment,))
        if found is None:
            raise CheckpointError(
                "the state in the checkpoint is not whole",
                got=f"rows {segment} are missing",
                hint="restore a backup, or start over with `riverrun run … --fresh`",
            )
        return bytes(found[0])

    def put(self, segment: str, data: bytes) -> None:
        self.segments.updateValue((segment,), (data,))

    def remove(self, segment: str) -> None:
        self.segments.removeKey((segment,))


def page_state(handle: StatefulProcessorHandle) -> tuple[Any, Any]:
    """What Spark keeps of a page: its head, and its segments by id."""
    head = handle.getValueState("head", "data binary")
    return head, handle.getMapState("segments", "id string", "data binary")


class PageProcessor(StatefulProcessor):
    """Visits the pages of a partition, one at a time."""

    def __init__(self, encoded: str, level: int) -> None:
        self.encoded, self.level = encoded, level

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.head, segments = page_state(handle)
        self.store = SegmentStore(segments)
        job = job_of(self.encoded)
        kept = KeptInFolder(job.kept) if job.kept else None
        self.kernel = PageKernel(
            job.program,
            self.level,
            _cache(job),
            job.query_id,
            known=known.place(job.checkpoint, self.level, job.query_id),
            kept=kept,
            answering=_answering,
        )

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        page = int(key[0])
        chunks = [Chunk(page, Edge.parse(row.edge), row.seq, row.data) for row in rows]
        stored = self.head.get()
        head, out = self.kernel.visit(
            page, bytes(stored[0]) if stored else None, self.store, chunks
        )
        if head is not None:
            self.head.update((head,))
        for chunk in out:
            yield SENT(chunk.page, str(chunk.edge), chunk.seq, chunk.data)

    def close(self) -> None:
        pass
