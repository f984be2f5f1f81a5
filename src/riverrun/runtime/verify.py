"""Whether an output is what the log says: made again from the log, and compared at one batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from riverrun.errors import InputError
from riverrun.kafka.topics import KafkaTopics
from riverrun.runtime.comparison import Comparison, Difference, KeyRange
from riverrun.runtime.history import History, history, records_of
from riverrun.runtime.replay import Replay
from riverrun.runtime.target import Target

Progress = Callable[[int, int], None]
"""How many records are done, of how many."""


@dataclass(frozen=True)
class Verdict:
    """How an output differs from what the log says, at the end of a batch."""

    output: str
    batch: int
    records: int
    """Of the log, that were read for it."""
    wanted: int
    found: int
    missing: int
    extra: int
    other: int
    ranges: list[KeyRange]
    differences: list[Difference]
    doubts: list[str]
    seconds: float

    @property
    def same(self) -> bool:
        return not (self.missing or self.extra or self.other)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "same": self.same}


def verify(target: Target, *, limit: int, anyway: bool, progress: Progress) -> Verdict:
    began_at = time.monotonic()
    with target.scratch() as folder:
        replay = Replay(
            target.program, target.output, target.source, folder / "state",
            aside=target.aside, parts=target.batches.parts(),
        )  # fmt: skip
        comparison = Comparison(target.output, replay.reader.evaluator, folder)
        try:
            with target.standing() as (number, standing):
                for rows in standing.rows:
                    comparison.find(rows)
            past = past_of(target, replay, number, anyway=anyway)
            for rows in replayed(replay, past, progress):
                comparison.want(rows)
            comparison.compare()
            return Verdict(
                target.output.name, number, past.records, **comparison.counts(),
                ranges=comparison.ranges(), differences=list(comparison.differences(limit)),
                doubts=past.doubts, seconds=time.monotonic() - began_at,
            )  # fmt: skip
        finally:
            comparison.close()


def past_of(target: Target, replay: Replay, number: int, *, anyway: bool) -> History:
    """What is to be run again; an error if it does not tell what the output should be."""
    topics = KafkaTopics(target.source.client)
    past = history(replay.program, target.batches, number, topics)
    if past.doubts and not anyway:
        raise InputError(
            "what the output should be cannot be told from the log any more",
            where=target.output.sink.text,
            got="; ".join(past.doubts),
            hint="--anyway goes by what is left",
        )
    return past


def replayed(replay: Replay, past: History, progress: Progress) -> Iterator[pa.Table]:
    done = 0
    for cut in past.cuts:
        if (rows := replay.batch(*cut)) is not None:
            yield rows
        done += records_of(cut)
        progress(done, past.records)
