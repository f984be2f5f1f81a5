"""What is known of time after a batch, kept once for all pages of an exchange.

Every page would compute the same, so the first one writes it down, under the number that the batch
was logged with. A batch that is run again starts from what the batch before it has left, and leaves
the same.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from riverrun import private
from riverrun.clock import Clock, Pace, PartitionTimes, Punctuation, clock, release
from riverrun.durations import BEGINNING
from riverrun.far import AnyPath
from riverrun.kernels.page_files import not_whole
from riverrun.kernels.program import PlacedStep
from riverrun.kernels.questions import Question, question_of

FOLDER = "times"
"""In that of Spark's query, so that whoever copies the one has the other."""
RETAINED = 100
"""Batches of which it is kept: as many as pages are kept of, so that each can be copied."""


@dataclass(frozen=True)
class Known:
    times: PartitionTimes = field(default_factory=PartitionTimes)
    clocks: Mapping[str, int] = field(default_factory=dict)
    """Where the clock of each step stands."""
    releases: Mapping[str, int] = field(default_factory=dict)
    """How far the tables of joins are known whose rows wait for them."""

    def renamed(self, names: Mapping[str, str]) -> Known:
        """Steps go on under new names; those that are known by them have done so before."""
        new = {old: to for old, to in names.items() if old in self.clocks and to not in self.clocks}
        if not new:
            return self
        by_step = ({new.get(n, n): at for n, at in d.items()} for d in (self.clocks, self.releases))
        return Known(self.times, *by_step)

    def encoded(self) -> str:
        by_step = {"clocks": dict(self.clocks), "releases": dict(self.releases)}
        return json.dumps({"times": self.times.encoded(), **by_step})

    @classmethod
    def decoded(cls, text: str) -> Known:
        facts = json.loads(text)
        return cls(PartitionTimes.decoded(facts["times"]), facts["clocks"], facts["releases"])


class KnownPlace(ABC):
    """Where it is kept."""

    @abstractmethod
    def before(self, batch: int) -> Known | None:
        """What the batch before left; None if there was none."""

    @abstractmethod
    def keep(self, batch: int, known: Known, page: int) -> None:
        """What a batch leaves, as a page has it."""


@dataclass
class KnownInMemory(KnownPlace):
    """For pages whose state is in memory."""

    batches: dict[int, Known] = field(default_factory=dict)

    def before(self, batch: int) -> Known | None:
        last = max((number for number in self.batches if number < batch), default=None)
        return None if last is None else self.batches[last]

    def keep(self, batch: int, known: Known, page: int) -> None:
        self.batches = {n: each for n, each in self.batches.items() if n == batch - 1}
        self.batches[batch] = known


_last: dict[str, tuple[int, Known]] = {}
"""What this process has computed itself it need not read."""


@dataclass(frozen=True)
class KnownInFolder(KnownPlace):
    """For Spark: a folder that every worker sees, with a file for each batch."""

    folder: AnyPath
    scope: str
    """No other run, and no other exchange of it, has the same."""

    def before(self, batch: int) -> Known | None:
        number, known = _last.get(self.scope, (None, None))
        if number == batch - 1:
            return known
        with suppress(FileNotFoundError):
            return Known.decoded(self._file(batch - 1).read_text())
        return None

    def keep(self, batch: int, known: Known, page: int) -> None:
        _last[self.scope] = (batch, known)
        if page == 0:
            private.folder(self.folder.parent)
            private.folder(self.folder)
            private.replace(self._file(batch), known.encoded())
            self._file(batch - RETAINED).unlink(missing_ok=True)

    def require(self, batch: int) -> None:
        if not self._file(batch).exists():
            raise not_whole(self.folder, f"nothing of batch {batch}")

    def there(self) -> set[int]:
        """Batches of which it is known."""
        found = self.folder.iterdir() if self.folder.exists() else ()
        return {int(each.name[:-5]) for each in found if each.name[:-5].isdigit()}

    def _file(self, batch: int) -> AnyPath:
        return self.folder / f"{batch}.json"

    def __str__(self) -> str:
        return str(self.folder)


def place(query: AnyPath, level: int, run: str = "") -> KnownInFolder:
    """Where it is kept for an exchange of a query."""
    return KnownInFolder(query / FOLDER / str(level), f"{run}/{level}")


def places(query: AnyPath) -> list[KnownInFolder]:
    """Of all exchanges of a query, for whoever reads them."""
    folder = query / FOLDER
    levels = sorted(each.name for each in folder.iterdir()) if folder.exists() else []
    return [KnownInFolder(folder / level, "") for level in levels]


class Moment:
    """What a batch says of time, and what is known with it."""

    def __init__(
        self, said: Punctuation, before: Known, steps: list[PlacedStep], paces: Mapping[str, Pace]
    ) -> None:
        self.said, self.before, self.paces = said, before, paces
        self.seen = before.times.copied()
        self.seen.note(said)
        self.clocks = {step.name: self._clock(step) for step in steps}
        self.releases = {
            step.name: self._release(step)
            for step in steps
            if any(way.awaited for way in step.does.inputs)
        }
        """How far the inputs are known that rows of others wait for."""

    def _clock(self, step: PlacedStep) -> Clock:
        before = self.before.clocks.get(step.name, BEGINNING)
        found = clock(self.seen, self.said, step.paces, before)
        at_least = (self.said.closing or {}).get(step.name, BEGINNING)
        return found._replace(time=max(found.time, at_least))

    def _release(self, step: PlacedStep) -> int:
        before = self.before.releases.get(step.name, BEGINNING)
        return release(self.seen, self.said, (step.paces, step.awaited), before)

    @cached_property
    def questions(self) -> list[Question]:
        found = map(question_of, self.said.commands)
        return [each for each in found if each is not None]

    @cached_property
    def after(self) -> Known:
        times = self.seen.copied()
        times.forget(self.said, self.paces)
        return Known(times, {name: at.time for name, at in self.clocks.items()}, self.releases)
