"""Chunks that leave the last exchange, as rows of the outputs they belong to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from riverrun.columns import PLACE
from riverrun.edges import ANSWER, DEAD, STATUS, Edge
from riverrun.kernels.chunks import Chunk, unpack_all
from riverrun.kernels.letters import (
    LETTER,
    Failure,
    Fetch,
    Place,
    RecordPlace,
    completed,
    judge,
    letters_table,
)
from riverrun.kernels.messages import ASIDE, Status, status_of
from riverrun.kernels.program import Program
from riverrun.kernels.routing import Router
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import OutputSpec, Rows
from riverrun.partitions import real


@dataclass
class Outbox:
    """Collects a task's chunks, then gives each output its rows at once."""

    program: Program
    evaluator: Evaluator
    originals: Fetch
    """Reads the records of dead letters again."""
    refused: Callable[[OutputSpec, pa.Table], Mapping[int, str]] = lambda output, rows: {}
    """Rows of a stream that its destination would not take: see `Destination`."""
    status: Status = field(default_factory=Status)
    answers: list[bytes] = field(default_factory=list)
    """What pages answer to questions: see `kernels.questions.Part`."""
    by_edge: dict[Edge, list[Chunk]] = field(default_factory=lambda: defaultdict(list))

    def add(self, chunk: Chunk) -> None:
        if chunk.edge == STATUS:
            self.status.add(status_of(chunk))
        elif chunk.edge == ANSWER:
            self.answers.append(chunk.data)
        else:
            self.by_edge[chunk.edge].append(chunk)

    def outputs(self) -> Iterator[Rows]:
        """Every output with its rows, in a fixed order; dead letters are the last."""
        failed: list[Failure] = []
        router = Router(self.program, self.evaluator)
        for edge in sorted(self.by_edge.keys() - {DEAD}):
            rows = unpack_all(self.by_edge[edge]).to_arrow()
            if edge.kind == "out":
                yield from self._taken(edge, rows, failed)
                continue
            out = [b for b in self.program.branches_of(edge) if b.target.kind == "out"]
            routed = router.along(out, rows)
            failed += routed.failures
            for target, made in routed.made:
                yield from self._taken(target, made, failed)
        if letters := self._letters(failed):
            without = {real(source.topic) for source in self.program.personal}
            table = completed(pa.concat_tables(letters), self.originals, without)
            if self.program.followed:
                self.status.add(Status(aside=_named(table.slice(0, ASIDE))))
            yield self.program.output_at(DEAD), table

    def _taken(self, edge: Edge, rows: pa.Table, failed: list[Failure]) -> Iterator[Rows]:
        """An output's rows, without those that its destination would refuse: they have failed."""
        output = self.program.output_at(edge)
        wrong = {} if output.table else self.refused(output, rows)
        if wrong:
            on_error = next(b.on_error for b in self.program.branches if b.target == edge)
            places = rows.select(PLACE).take(list(wrong)).to_pylist()
            failed += [
                Failure(Place(*place.values()), output.name, cause, on_error)
                for place, cause in zip(places, wrong.values(), strict=True)
            ]
            rows = rows.filter(pa.array([n not in wrong for n in range(rows.num_rows)]))
        if rows.num_rows:
            yield output, rows

    def _letters(self, failed: list[Failure]) -> list[pa.Table]:
        """What was set aside before, and what failed on its way into outputs."""
        verdict = judge(failed, self.program.topics)
        self.status.add(Status(**verdict.counts))
        made = letters_table(verdict, self.program.topics)
        known = self.by_edge.get(DEAD, [])
        found = unpack_all(known).to_arrow().cast(LETTER) if known else made.slice(0, 0)
        return [each for each in (found, made) if each.num_rows]


def _named(letters: pa.Table) -> dict[str, str]:
    """Records that were set aside, with the step that did so, and why."""
    found = letters.select(["topic", "partition", "offset", "step", "cause"]).to_pylist()
    return {
        f"{RecordPlace(topic, partition, offset)} {step}": (
            f"set aside by {step}: {cause.splitlines()[0]}"
        )
        for topic, partition, offset, step, cause in (each.values() for each in found)
        if topic is not None
    }
