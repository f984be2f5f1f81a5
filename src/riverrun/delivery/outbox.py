"""Chunks that leave the last exchange, as rows of the outputs they belong to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from riverrun.kernels.chunks import Chunk, unpack_all
from riverrun.kernels.pages import STATUS
from riverrun.kernels.sql import Evaluator
from riverrun.program import OutputSpec, Program


@dataclass
class Status:
    """What a batch tells of itself: the clocks after it, whether windows are open, and counts."""

    clocks: dict[str, int] = field(default_factory=dict)
    open: bool = False
    events: int = 0
    dead: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    """Rows that entered each step."""
    late: dict[str, int] = field(default_factory=dict)
    """Rows of each step that were late."""
    written: dict[str, int] = field(default_factory=dict)
    tick: int = 0
    watermarks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Who holds the clock of each step back (`held_by`), and who is `idle`."""

    def add(self, other: Status) -> None:
        self.clocks.update(other.clocks)
        self.watermarks.update(other.watermarks)
        self.open = self.open or other.open
        self.tick = max(self.tick, other.tick)
        self.events += other.events
        self.dead += other.dead
        for mine, theirs in (
            (self.rows, other.rows),
            (self.late, other.late),
            (self.written, other.written),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count


@dataclass
class Outbox:
    """Collects a task's chunks, then gives each output its rows at once."""

    program: Program
    evaluator: Evaluator
    status: Status = field(default_factory=Status)
    by_edge: dict[str, list[Chunk]] = field(default_factory=lambda: defaultdict(list))

    def add(self, chunk: Chunk) -> None:
        if chunk.edge == STATUS:
            self.status.add(Status(**json.loads(chunk.data)))
        else:
            self.by_edge[chunk.edge].append(chunk)

    def outputs(self) -> Iterator[tuple[OutputSpec, pa.Table]]:
        """Every output with its rows, in a fixed order."""
        for edge in sorted(self.by_edge):
            rows = unpack_all(self.by_edge[edge]).to_arrow()
            if edge.startswith("out:"):
                yield self.program.output_at(edge), rows
            for branch in self.program.branches_of(edge):
                if branch.target.startswith("step:"):
                    continue
                query = branch.query
                made = rows if query is None else self.evaluator.checked(query, rows, branch)
                if made.num_rows:
                    yield self.program.output_at(branch.target), made
