"""Two versions at a point of the input: what the program of each makes of the log up to there.

What versions have written is of the batch that each has come to. Here both programs are run in this
process, over the same records, without Spark: nothing that runs is looked at, or waited for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from riverrun.app import App
from riverrun.archive.held import Archived
from riverrun.compiler.scratch import read_from_others, refuse_beside
from riverrun.config import Settings
from riverrun.edges import DEAD
from riverrun.embedded import kafka
from riverrun.errors import InputError
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.program import Program
from riverrun.kernels.sql import shared_evaluator
from riverrun.outputs import OutputSpec
from riverrun.partitions import as_texts
from riverrun.runtime.beside import doubts
from riverrun.runtime.compare import Compared, Side, Stood, compared, in_common
from riverrun.runtime.comparison import Comparison
from riverrun.runtime.history import LARGE
from riverrun.runtime.replay import Replay, topics_of
from riverrun.runtime.spans import Asked, span_of
from riverrun.sources.kafka import KafkaPlanner, KafkaSource
from riverrun.sources.pacing import Pacer
from riverrun.sources.source import Circumstances
from riverrun.sources.span import Span

Progress = Callable[[int, int], None]
"""How many records are done, of how many."""


@dataclass(frozen=True)
class Point:
    """Where versions are compared: how far each partition is read."""

    settings: Settings
    span: Span
    gaps: tuple[str, ...]
    """Why results may not be what the versions have written."""


def point_of(apps: Sequence[App], settings: Settings, asked: Asked) -> Point:
    sources = []
    for app in apps:
        refuse_beside(tuple(app.outputs))
        sources += read_from_others(tuple(app.outputs))
    client = kafka.client(settings)
    once = list({each.topic: each for each in sources}.values())
    span, lost = span_of(once, client, asked, settings.archive_root)
    found = [each for app in apps for each in doubts(app, once, client)]
    return Point(settings, span, tuple(dict.fromkeys([*lost, *found])))


def side_at(app: App, version: str) -> Side:
    """A version as its program is: nothing of it needs to have run."""
    program = app.program()
    return Side(version, program, {each.name: each for each in program.outputs})


def compare_at(
    name: str, first: Side, second: Side, point: Point, *, limit: int, progress: Progress
) -> Compared:
    """An InputError if an output cannot be made here, or has another key."""
    output, columns = in_common(name, first.outputs[name], second.outputs[name])
    if output.edge == DEAD:
        raise InputError("dead letters are not made again here")
    with (
        tempfile.TemporaryDirectory(prefix="riverrun-") as made,
        closing(Comparison(output, shared_evaluator(), Path(made))) as both,
    ):
        runs = [
            Making(side.program, side.outputs[name], point, Path(made) / f"{number}")
            for number, side in enumerate((first, second))
        ]
        total, done = sum(run.records for run in runs), 0
        for run, take in zip(runs, (both.want, both.take), strict=True):
            for rows, records in run.batches():
                if rows is not None:
                    take(rows)
                done += records
                progress(done, total)
        sides = zip((first, second), runs, strict=True)
        one, other = (Stood(side.version, name, None, 0, run.read()) for side, run in sides)
        return compared(name, one, other, both, columns, limit=limit)


class Making:
    """The part of a program that makes one output, over the log up to a point."""

    def __init__(
        self,
        program: Program,
        output: OutputSpec,
        point: Point,
        folder: Path,
        *,
        batch: int = LARGE,
    ) -> None:
        client, span = kafka.client(point.settings), point.span
        archived = Archived.of(point.settings.archive_root, span.archived)
        source = KafkaSource(client, point.settings.reader, archived)
        self.replay, self.span = Replay(program, output, source, folder), span
        if own := self.replay.topics & {*program.own_topics}:
            raise InputError(
                "what a program writes and reads again cannot be made again here",
                got=", ".join(sorted(own)),
                hint="without --at, what stands is compared",
            )
        self.ran = False
        about = Circumstances(program, Pacer(batch, None), self._status, folder, span=span)
        self.planner = KafkaPlanner(about, KafkaTopics(client))

    def _status(self) -> dict[str, Any] | None:
        return asdict(self.replay.status) if self.ran else None

    def batches(self) -> Iterator[tuple[pa.Table | None, int]]:
        """What each tells the output, and how many records it has read."""
        self.planner.stop_at_end()
        start = self.planner.first()
        while (end := self.planner.next(start)) != start:
            rows, self.ran = self.replay.batch(start, end), True
            yield rows, self.span.read(end.ends) - self.span.read(start.ends)
            start = end

    @property
    def records(self) -> int:
        mine = {topic.topic for topic in self.replay.program.sources}
        ends = {each: end for each, end in self.span.ends.items() if each.topic in mine}
        return self.span.read(ends)

    def read(self) -> dict[str, int]:
        topics = topics_of(self.replay.program)
        return as_texts({p: end for p, end in self.span.ends.items() if p.topic in topics})
