"""The exchange: Spark brings the chunks of pages together; the kernel computes, and what pages keep
is written beside Spark's logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyspark import TaskContext

from riverrun.clock import Punctuation
from riverrun.edges import MARK
from riverrun.kernels import known, page_files
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.kept import KeptInFolder
from riverrun.kernels.page_files import Heads, PageFiles, PartWriter
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.questions import Answering
from riverrun.kernels.state import SegmentCache
from riverrun.spark.job import Job, job_of
from riverrun.spark.zygote import settle

_answering = Answering()
"""What questions take of a batch is counted for all pages in this process."""


@dataclass
class Held:
    """What this process has at hand of an exchange."""

    files: PageFiles
    heads: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """By page, with the batch that left it."""


_caches: dict[str, SegmentCache] = {}
_held: dict[tuple[str, int], Held] = {}


def _cache(job: Job) -> SegmentCache:
    """One for all pages and levels of a query in this process."""
    if job.query_id not in _caches:
        _caches[job.query_id] = SegmentCache(job.state_memory)
        settle()
    return _caches[job.query_id]


@dataclass
class SegmentStore:
    """The segments of a page: those of before, and those that the batch adds."""

    files: PageFiles
    out: PartWriter
    page: int
    part: int

    def get(self, segment: str) -> bytes:
        return self.files.segment(self.page, segment, self.part)

    def put(self, segment: str, data: bytes) -> None:
        self.out.put(self.page, segment, data)

    def remove(self, segment: str) -> None:
        """The head no longer lists it; its file goes when nobody needs any of it."""


class Exchange:
    """One level of a program, in a task."""

    def __init__(self, encoded: str, level: int) -> None:
        self.job, self.level = job_of(encoded), level
        job, place = self.job, (self.job.query_id, level)
        if place not in _held:
            _held[place] = Held(page_files.place(job.checkpoint, level))
        self.held = _held[place]
        self.known = known.place(job.checkpoint, level, job.query_id)
        self.kernel = PageKernel(
            job.program,
            level,
            _cache(job),
            job.query_id,
            known=self.known,
            kept=KeptInFolder(job.kept) if job.kept else None,
            answering=_answering,
        )

    def computed(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """What leaves the pages whose chunks these are. State is written once all has been taken:
        before the task ends, and so before the batch is committed."""
        came: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            came.setdefault(chunk.page, []).append(chunk)
        if not came:
            return
        batch, part = _batch(next(iter(came.values()))), _part()
        before = self._before(batch, part, came.keys())
        heads = Heads()
        with self.held.files.writer(batch, part) as out:
            for page in sorted(came):
                store = SegmentStore(self.held.files, out, page, part)
                head, leaving = self.kernel.visit(page, before.get(page), store, came.pop(page))
                heads[page] = before[page] if head is None else head
                yield from leaving
            out.finish(heads)
        self.held.heads |= {page: (batch, head) for page, head in heads.items()}
        if part == 0 and batch % page_files.SWEEP == 0 and batch > page_files.RETAINED:
            self.held.files.sweep(batch - page_files.RETAINED, self.job.program.pages)

    def _before(self, batch: int, part: int, pages: Iterable[int]) -> Heads:
        """The heads that the batch before has left: of pages that this process has visited then,
        they are here."""
        held = {page: self.held.heads.get(page, (0, b"")) for page in pages}
        here = {page: head for page, (left, head) in held.items() if left == batch - 1 and head}
        missing = held.keys() - here
        if not missing:
            return here
        found = self.held.files.heads(batch - 1, missing, part)
        if self.known.before(batch) is not None and (lost := missing - found.keys()):
            raise page_files.not_whole(
                self.held.files.folder, f"nothing of page {min(lost)} after batch {batch - 1}"
            )
        return {page: found[page] for page in missing if page in found} | here


def _batch(chunks: list[Chunk]) -> int:
    """The number that the batch was logged with; every page is told."""
    return Punctuation.together(sorted(each.data for each in chunks if each.edge == MARK)).batch


def _part() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()
