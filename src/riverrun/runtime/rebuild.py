"""A table made anew from the log beside the one that stands, and put in its place at one batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from riverrun.errors import InputError
from riverrun.outputs import Renewal, Swapped
from riverrun.runtime.replay import Replay
from riverrun.runtime.target import PATIENCE, Target
from riverrun.runtime.verify import Progress, past_of, replayed

NEAR = 10
"""Batches that may be run again while writers wait."""


@dataclass(frozen=True)
class Rebuilt:
    """What was put in place, and what stood there otherwise."""

    output: str
    batch: int
    records: int
    """Of the log, up to the batch that was the last one when it began."""
    swapped: Swapped
    doubts: list[str]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def rebuild(
    target: Target, *, anyway: bool, progress: Progress, tell: Callable[[str], None]
) -> Rebuilt:
    began_at = time.monotonic()
    if not target.output.table:
        raise _no_place(target, "rows of a stream are told apart by nothing")
    target.destination.prepare([target.output])
    found = target.destination.renewal(target.output, target.owner)
    if found is None:
        raise _no_place(target, "nothing can be made beside it")
    with target.scratch() as folder, found as fresh:
        replay = Replay(
            target.program, target.output, target.source, folder / "state",
            aside=target.aside, parts=target.batches.parts(),
        )  # fmt: skip
        number = target.batches.committed()
        target.batches.look()
        past = past_of(target, replay, number, anyway=anyway)

        def seen(done: int, total: int) -> None:
            target.batches.look()  # Spark forgets batches that are still to be run again
            progress(done, total)

        for rows in replayed(replay, past, seen):
            fresh.change(rows, replay.reader.evaluator)
        tell("waiting for a moment between two batches")
        batch, swapped = _Swap(target, replay, fresh, number).made()
        spent = time.monotonic() - began_at
        return Rebuilt(target.output.name, batch, past.records, swapped, past.doubts, spent)


class _Swap:
    """Goes after the job until both are at the same batch."""

    def __init__(self, target: Target, replay: Replay, fresh: Renewal, at: int) -> None:
        self.target, self.replay, self.fresh, self.at = target, replay, fresh, at

    def made(self) -> tuple[int, Swapped]:
        give_up_at = time.monotonic() + PATIENCE
        while True:
            self._go_on(self.target.batches.committed())
            with self.fresh.held() as written:
                swapped = self._swapped(written)
            if swapped is not None:
                return self.at, swapped
            self.target.wait(give_up_at)

    def _swapped(self, written: int | None) -> Swapped | None:
        """None if the job is in the middle of a batch, or too far ahead."""
        self.target.require_same_checkpoint()
        committed = self.target.batches.committed()
        number = self.target.between(committed, written, whole=self.fresh.whole)
        if number is None or number - self.at > NEAR:
            return None
        self._go_on(number)
        return self.fresh.swap(self.target.batches.at(number).tick)

    def _go_on(self, number: int) -> None:
        batches = self.target.batches
        batches.look()
        while self.at < number:
            start, end = batches.at(self.at), batches.at(self.at + 1)
            if (rows := self.replay.batch(start, end)) is not None:
                self.fresh.change(rows, self.replay.reader.evaluator)
            self.at += 1


def _no_place(target: Target, why: str) -> InputError:
    return InputError(
        "this output cannot be made anew beside itself",
        where=target.output.sink.text,
        got=why,
        hint="give the program another sink, or start over with --fresh",
    )
