"""A program run again in this process, without Spark: of the logged input, for one output.

Readers, kernels and encoders are those of the job. State is kept in files, and read through the
same cache, so that a large table does not need as much memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from riverrun.clock import Now, Punctuation
from riverrun.delivery.outbox import Outbox
from riverrun.edges import DEAD, Edge
from riverrun.errors import InputError
from riverrun.kernels.chunks import Chunk, task_of
from riverrun.kernels.letters import Original, RecordPlace
from riverrun.kernels.lots import NOTHING, LotReader
from riverrun.kernels.messages import Status
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.program import Program
from riverrun.kernels.state import SegmentCache
from riverrun.outputs import OutputSpec
from riverrun.sources.planning import Offset, first_clocks, tasks
from riverrun.sources.reading import read_ranges
from riverrun.sources.source import Source

CACHE = 1 << 28
"""Bytes of state in memory."""


@dataclass(frozen=True)
class FolderStore:
    """A page's segments as files."""

    folder: Path

    def get(self, segment: str) -> bytes:
        return (self.folder / segment).read_bytes()

    def put(self, segment: str, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / segment).write_bytes(data)

    def remove(self, segment: str) -> None:
        (self.folder / segment).unlink()


class Replay:
    """The part of a program that one output is made by, with its state."""

    def __init__(
        self,
        program: Program,
        output: OutputSpec,
        source: Source,
        folder: Path,
        *,
        aside: Mapping[RecordPlace, str] = NOTHING,
        parts: int = 1,
    ) -> None:
        """`parts`: as many tasks have visited pages. Sums of floating point depend on it, where
        steps follow one another."""
        self.parts = parts
        self.program, self.output, self.source = part_for(program, output), output, source
        self.topics = topics_of(self.program)
        self.folder = folder
        self.reader = LotReader(self.program, aside)
        self.kernels = [
            PageKernel(self.program, level, SegmentCache(CACHE), "replay")
            for level in range(self.program.levels)
        ]
        self.heads: dict[tuple[int, int], bytes] = {}
        self.clocks: dict[str, int] | None = first_clocks(self.program)
        self.status = Status()
        """What the last batch told."""

    def batch(self, start: Offset, end: Offset) -> pa.Table | None:
        """What the output is told in the batch between two offsets; None if that is nothing."""
        outbox = Outbox(self.program, self.reader.evaluator, _no_originals)
        for chunk in self._computed(self._read(start, end)):
            if chunk.edge != DEAD:
                outbox.add(chunk)
        self.status, self.clocks = outbox.status, dict(outbox.status.clocks)
        found = [rows for output, rows in outbox.outputs() if output == self.output]
        # a union comes by several ways
        return pa.concat_tables(found, promote_options="permissive") if found else None

    def _read(self, start: Offset, end: Offset) -> list[Chunk]:
        said = end.punctuation()
        said.commands = self.source.commands(self.program.name, start.control, end.control)
        dealt = tasks(start, end)
        marks = [said, *(Punctuation() for _ in dealt[1:])]
        # after a restart they are not logged: what may be late is known here all the same
        clocks = self.clocks if end.clocks is None else end.clocks
        now = Now(end.tick, self.source.wall, clocks)
        return [
            chunk
            for ranges, mark in zip(dealt, marks, strict=True)
            for chunks in read_ranges(
                self.source,
                self.reader,
                [each for each in ranges if each.partition.topic in self.topics],
                now,
                mark,
            )
            for chunk in chunks
        ]

    def _computed(self, chunks: list[Chunk]) -> list[Chunk]:
        for level in range(len(self.kernels)):
            by_page: dict[int, list[Chunk]] = {}
            for chunk in chunks:
                by_page.setdefault(chunk.page, []).append(chunk)
            left: dict[int, list[Chunk]] = {}
            for page in range(self.program.pages):
                task = task_of(page, self.program.pages, self.parts)
                left.setdefault(task, []).extend(self._visit(level, page, by_page.get(page, [])))
            forward = self.reader.forward if level + 1 < len(self.kernels) else iter
            chunks = [chunk for each in left.values() for chunk in forward(each)]
        return chunks

    def _visit(self, level: int, page: int, chunks: list[Chunk]) -> list[Chunk]:
        store = FolderStore(self.folder / f"{level}-{page}")
        head = self.heads.get((level, page))
        new_head, out = self.kernels[level].visit(page, head, store, chunks)
        self.heads[level, page] = new_head or head or b""
        return out


def part_for(program: Program, output: OutputSpec) -> Program:
    """The program with nothing but the ways that lead to the output.

    Topics keep their places: positions hold their numbers.
    """
    steps = {step.name: step for step in program.steps}
    edges, left = set[Edge](), {output.edge}
    while left:
        edge = left.pop()
        edges.add(edge)
        if edge.kind in ("changes", "stream", "late"):
            left |= {*steps[edge.name].input_edges} - edges
        left |= {each.origin for each in program.branches if each.target == edge} - edges
    if through := [edge.name for edge in edges if edge.kind == "from spark"]:
        raise InputError(
            f"the output {output.name!r} is made by a .spark(…) step",
            got=through[0],
            hint="only Spark can compute it: there is nothing to compare it with here",
        )
    return replace(
        program,
        branches=tuple(each for each in program.branches if each.target in edges),
        steps=tuple(each for each in program.steps if edges & set(each.input_edges)),
        spark_steps=(),
    )


def topics_of(part: Program) -> frozenset[str]:
    """What is read for the output."""
    read: Iterator[Edge] = (branch.origin for branch in part.branches)
    return frozenset(edge.name for edge in read if edge.kind == "source")


def _no_originals(places: list[RecordPlace]) -> Mapping[RecordPlace, Original]:
    return {}
