"""Chunks that leave the last exchange, as rows of the outputs they belong to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from riverrun.edges import DEAD, STATUS, Edge
from riverrun.kernels.chunks import Chunk, unpack_all
from riverrun.kernels.letters import (
    LETTER,
    Failure,
    Fetch,
    completed,
    judge,
    letters_table,
)
from riverrun.kernels.messages import Status, status_of
from riverrun.kernels.program import Program
from riverrun.kernels.routing import Router
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import OutputSpec


@dataclass
class Outbox:
    """Collects a task's chunks, then gives each output its rows at once."""

    program: Program
    evaluator: Evaluator
    originals: Fetch
    """Reads the records of dead letters again."""
    status: Status = field(default_factory=Status)
    by_edge: dict[Edge, list[Chunk]] = field(default_factory=lambda: defaultdict(list))

    def add(self, chunk: Chunk) -> None:
        if chunk.edge == STATUS:
            self.status.add(status_of(chunk))
        else:
            self.by_edge[chunk.edge].append(chunk)

    def outputs(self) -> Iterator[tuple[OutputSpec, pa.Table]]:
        """Every output with its rows, in a fixed order; dead letters are the last."""
        failed: list[Failure] = []
        router = Router(self.program, self.evaluator)
        for edge in sorted(self.by_edge.keys() - {DEAD}):
            rows = unpack_all(self.by_edge[edge]).to_arrow()
            if edge.kind == "out":
                yield self.program.output_at(edge), rows
                continue
            out = [b for b in self.program.branches_of(edge) if b.target.kind == "out"]
            routed = router.along(out, rows)
            failed += routed.failures
            for target, made in routed.made:
                if made.num_rows:
                    yield self.program.output_at(target), made
        if letters := self._letters(failed):
            table = completed(pa.concat_tables(letters), self.originals)
            yield self.program.output_at(DEAD), table

    def _letters(self, failed: list[Failure]) -> list[pa.Table]:
        """What was set aside before, and what failed on its way into outputs."""
        verdict = judge(failed, self.program.topics)
        self.status.add(Status(**verdict.counts))
        made = letters_table(verdict, self.program.topics)
        known = self.by_edge.get(DEAD, [])
        found = unpack_all(known).to_arrow().cast(LETTER) if known else made.slice(0, 0)
        return [each for each in (found, made) if each.num_rows]
