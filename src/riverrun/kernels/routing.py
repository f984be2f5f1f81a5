"""Routing: rows of an edge go along its branches, in readers, pages and writers alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from riverrun.columns import ROW, ROWS
from riverrun.durations import END
from riverrun.edges import DEAD, Edge
from riverrun.formats.query import NONE, Values
from riverrun.kernels.chunks import Chunk, by_page, pack, with_hash
from riverrun.kernels.isolation import isolated
from riverrun.kernels.letters import Failure, judge, letters_table
from riverrun.kernels.messages import Status
from riverrun.kernels.program import Branch, PlacedStep, Program
from riverrun.kernels.sql import Evaluator

Clocks = Mapping[str, int] | None
"""What may be late, per step; None when it is not known."""


@dataclass
class Routed:
    """What became of the rows of an edge."""

    made: list[tuple[Edge, pa.Table]] = field(default_factory=list)
    """By the edge that they go to."""
    rows: dict[str, int] = field(default_factory=dict)
    """How many enter each step."""
    failures: list[Failure] = field(default_factory=list)


class Router:
    def __init__(self, program: Program, evaluator: Evaluator) -> None:
        self.program, self.evaluator = program, evaluator

    def along(self, branches: Iterable[Branch], rows: pa.Table, clocks: Clocks = None) -> Routed:
        """Takes rows along the branches."""
        routed = Routed()
        for branch in branches:
            made = self._evaluated(branch, rows, clocks, routed.failures)
            made, count = _counted(made)
            if branch.target in self.program.steps_at:
                step = self.program.steps_at[branch.target][0].name
                routed.rows[step] = routed.rows.get(step, 0) + count
            routed.made.append((branch.target, made))
        return routed

    def chunks(
        self, branches: Iterable[Branch], rows: pa.Table, seq: int, clocks: Clocks = None
    ) -> Iterator[Chunk]:
        """The same as chunks, with what is to be told of them and the letters of rows that fail."""
        routed = self.along(branches, rows, clocks)
        verdict = judge(routed.failures, self.program.topics)
        yield Status(rows=routed.rows, **verdict.counts).chunk()
        for edge, made in routed.made:
            yield from self.packed(edge, made, seq)
        if verdict.aside:
            yield from self.packed(DEAD, letters_table(verdict, self.program.topics), seq)

    def _evaluated(
        self, branch: Branch, rows: pa.Table, clocks: Clocks, failures: list[Failure]
    ) -> pa.Table:
        if branch.query is None:
            return rows
        query, values = self._query(branch, rows, clocks)
        if branch.form == "changes":
            # one that is left out would make the table wrong from then on
            return self.evaluator.checked(query, rows, branch.line, values=values)
        made, failed = isolated(
            self.evaluator,
            query,
            rows,
            line=branch.line,
            on_error=branch.on_error,
            values=values,
        )
        failures += failed
        if ROW in made.column_names and made[ROW].null_count == made.num_rows:
            return made.drop_columns([ROW])
        return made

    def _query(self, branch: Branch, rows: pa.Table, clocks: Clocks) -> tuple[str, Values]:
        """Rows are combined if none can be late: a window ends after each of its events."""
        if branch.target not in self.program.steps_at:
            return branch.when_closed(END)
        step = self.program.steps_at[branch.target][0]
        clock = END if clocks is None else clocks.get(step.name, END)
        if branch.combined is not None and rows.num_rows:
            earliest = pc.min(rows["__at"]).cast(pa.int64()).as_py()
            if earliest + branch.patience >= clock:
                return branch.combined, NONE
        return branch.when_closed(step.does.last_closed(clock))

    def frame(self, edge: Edge, rows: pa.Table) -> pl.DataFrame:
        """Rows as the step at the edge takes them."""
        step = self.program.steps_at[edge][0].does
        return with_hash(step.prepared(pl.DataFrame(pl.from_arrow(rows))), step.keys)

    def packed(self, edge: Edge, rows: pa.Table, seq: int) -> Iterator[Chunk]:
        """Rows as chunks, for the pages that they belong to."""
        if rows.num_rows == 0:
            return
        pages = self.program.pages
        if edge not in self.program.steps_at:
            # no key to follow: any page will do, as long as it is always the same
            yield Chunk(seq % pages, edge, seq, pack(pl.DataFrame(pl.from_arrow(rows))))
            return
        for page, part in self._by_page(*self.program.steps_at[edge], self.frame(edge, rows), seq):
            yield Chunk(page, edge, seq, part)

    def _by_page(
        self, step: PlacedStep, number: int, frame: pl.DataFrame, seq: int
    ) -> Iterator[tuple[int, bytes]]:
        way, pages = step.does.inputs[number], self.program.pages
        if way.everywhere:
            data = pack(frame)
            yield from ((page, data) for page in range(pages))
        elif way.stays:
            # what they meet is in every page: they are dealt evenly
            parts = frame.iter_slices(-(-frame.height // pages))
            yield from (((seq + n) % pages, pack(part)) for n, part in enumerate(parts))
        else:
            yield from ((page, pack(part)) for page, part in by_page(frame, pages))


def _counted(made: pa.Table) -> tuple[pa.Table, int]:
    """Parts without the count of their rows, and that count."""
    if ROWS not in made.column_names:
        return made, made.num_rows
    return made.drop_columns([ROWS]), pc.sum(made[ROWS]).as_py() or 0
