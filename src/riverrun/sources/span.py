"""A part of what topics hold: where reading begins and ends, by partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from riverrun.archive.held import Held
from riverrun.partitions import Partition, as_texts, from_texts
from riverrun.sources.admission import Ends


@dataclass(frozen=True)
class Span:
    begins: Ends = field(default_factory=dict)
    """Where partitions begin that do not begin where the program says."""
    ends: Ends = field(default_factory=dict)
    """Where partitions end that are not read to their end."""
    archived: Mapping[Partition, Held] = field(default_factory=dict)
    """What is read from the archive, by partitions of topics themselves."""

    def limited(self, ends: Ends) -> Ends:
        return {each: min(end, self.ends.get(each, end)) for each, end in ends.items()}

    def records(self) -> int:
        """How many offsets it has."""
        return sum(max(end - self.begins[each], 0) for each, end in self.ends.items())

    def read(self, standing: Ends) -> int:
        """How many of them are read where reading stands there."""
        return sum(
            min(max(place - self.begins[each], 0), max(self.ends[each] - self.begins[each], 0))
            for each, place in standing.items()
            if each in self.ends
        )

    def in_archive(self, partition: Partition, offset: int) -> bool:
        """Whether the archive is read there, whatever the topic has left."""
        held = self.archived.get(partition.real)
        return held is not None and offset < held.topic

    def from_archive(self) -> int:
        """How many of its offsets are read there."""
        known = {p: self.archived[p.real].topic for p in self.begins if p.real in self.archived}
        return sum(max(min(topic, self.ends[p]) - self.begins[p], 0) for p, topic in known.items())

    def logged(self) -> dict[str, Any]:
        archived = {each: held.logged() for each, held in self.archived.items()}
        return {
            "begins": as_texts(self.begins), "ends": as_texts(self.ends),
            "archived": as_texts(archived),
        }  # fmt: skip

    @classmethod
    def of(cls, logged: dict[str, Any]) -> Span:
        archived = {each: Held.of(held) for each, held in from_texts(logged["archived"]).items()}
        return cls(from_texts(logged["begins"]), from_texts(logged["ends"]), archived)


EVERYTHING = Span()
