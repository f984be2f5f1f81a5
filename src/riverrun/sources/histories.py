"""Topics that are read once: all that there was when something new was to be made of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from riverrun.partitions import Partition
from riverrun.sources.admission import Ends


@dataclass(frozen=True)
class Histories:
    versions: Mapping[str, str]
    """By topic, of what is made of it."""
    fresh: frozenset[str]
    """Topics of which nothing of this version is made yet."""

    @classmethod
    def after(
        cls, before: Mapping[str, str], now: Mapping[str, str], anew: Collection[str]
    ) -> Histories:
        """`anew` are those that are asked to be made once more."""
        fresh = (topic for topic in now if before.get(topic) != now[topic] or topic in anew)
        return cls(dict(now), frozenset(fresh))

    def begin(self, begin: Ends, starts: Callable[[Collection[Partition]], Ends]) -> Ends:
        """Where partitions are read from."""
        mine = [each for each in begin if each.topic in self.fresh]
        return {**begin, **starts(mine)} if mine else begin

    def targets(self, before: Ends) -> Ends:
        """Those that hold on: what is made anew is read up to the end that it has now. A target of
        the last time may be one of some partitions only."""
        return {each: end for each, end in before.items() if each.topic not in self.fresh}

    def held(self, paused: Collection[str]) -> set[str]:
        """Paused topics that are not read. A history is: nothing is decided without it."""
        return set(paused) - self.versions.keys()

    def ends(self, begin: Ends, ends: Ends, targets: Ends) -> Ends:
        """How far may be read: what comes later is known already to whoever wrote it."""

        def end(partition: Partition) -> int:
            if partition.topic not in self.versions or partition.topic in self.fresh:
                return ends[partition]
            return min(targets.get(partition, begin[partition]), ends[partition])

        return {partition: end(partition) for partition in ends}
