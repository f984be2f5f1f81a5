"""Chunks that leave the last exchange, as rows of the outputs they belong to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from riverrun.kernels.chunks import Chunk, unpack_all
from riverrun.kernels.isolation import evaluated
from riverrun.kernels.letters import (
    LETTER,
    Failure,
    Fetch,
    completed,
    judge,
    letters_table,
)
from riverrun.kernels.pages import STATUS
from riverrun.kernels.sql import Evaluator
from riverrun.program import DEAD, OutputSpec, Program


@dataclass
class Status:
    """What a batch tells of itself: the clocks after it, whether windows are open, and counts."""

    clocks: dict[str, int] = field(default_factory=dict)
    open: bool = False
    events: int = 0
    dead: int = 0
    dropped: int = 0
    """Rows that failed, and that the program does not want to see again."""
    causes: dict[str, int] = field(default_factory=dict)
    """How often rows failed, by step and cause."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows that entered each step."""
    late: dict[str, int] = field(default_factory=dict)
    """Rows of each step that were late."""
    written: dict[str, int] = field(default_factory=dict)
    tick: int = 0
    holders: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Who holds the clock of each step back (`held_by`), and who is `idle`."""

    def add(self, other: Status) -> None:
        self.clocks.update(other.clocks)
        self.holders.update(other.holders)
        self.open = self.open or other.open
        self.tick = max(self.tick, other.tick)
        self.events += other.events
        self.dead += other.dead
        self.dropped += other.dropped
        for mine, theirs in (
            (self.rows, other.rows),
            (self.late, other.late),
            (self.written, other.written),
            (self.causes, other.causes),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count


@dataclass
class Outbox:
    """Collects a task's chunks, then gives each output its rows at once."""

    program: Program
    evaluator: Evaluator
    originals: Fetch
    """Reads the records of dead letters again."""
    status: Status = field(default_factory=Status)
    by_edge: dict[str, list[Chunk]] = field(default_factory=lambda: defaultdict(list))

    def add(self, chunk: Chunk) -> None:
        if chunk.edge == STATUS:
            self.status.add(Status(**json.loads(chunk.data)))
        else:
            self.by_edge[chunk.edge].append(chunk)

    def outputs(self) -> Iterator[tuple[OutputSpec, pa.Table]]:
        """Every output with its rows, in a fixed order; dead letters are the last."""
        failed: list[Failure] = []
        for edge in sorted(self.by_edge):
            if edge == DEAD:
                continue
            rows = unpack_all(self.by_edge[edge]).to_arrow()
            if edge.startswith("out:"):
                yield self.program.output_at(edge), rows
            for branch in self.program.branches_of(edge):
                if branch.target.startswith("step:"):
                    continue
                made = rows
                if branch.query is not None:
                    made, failures = evaluated(self.evaluator, branch, branch.query, rows)
                    failed += failures
                if made.num_rows:
                    yield self.program.output_at(branch.target), made
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
