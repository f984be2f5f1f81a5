"""A part of what topics hold: where reading begins and ends, by partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from riverrun.partitions import as_texts, from_texts
from riverrun.sources.admission import Ends


@dataclass(frozen=True)
class Span:
    begins: Ends = field(default_factory=dict)
    """Where partitions begin that do not begin where the program says."""
    ends: Ends = field(default_factory=dict)
    """Where partitions end that are not read to their end."""

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

    def logged(self) -> dict[str, Any]:
        return {"begins": as_texts(self.begins), "ends": as_texts(self.ends)}

    @classmethod
    def of(cls, logged: dict[str, Any]) -> Span:
        return cls(from_texts(logged["begins"]), from_texts(logged["ends"]))


EVERYTHING = Span()
