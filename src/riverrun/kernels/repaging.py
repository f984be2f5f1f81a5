"""State of a number of pages, laid out for another number: each row goes where its key is then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from riverrun.errors import CheckpointError
from riverrun.kernels.chunks import by_page, pack, unpack
from riverrun.kernels.pages import Head
from riverrun.kernels.state import Names, Segment


class List(NamedTuple):
    """Where a step keeps rows in a page: it may have several lists."""

    step: str
    name: str


@dataclass
class Part:
    """What a new page gets of a list: by age, and from which pages."""

    ages: defaultdict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    origins: set[int] = field(default_factory=set)


@dataclass
class Repaging:
    """The state of one exchange. All of it is in memory, compressed."""

    before: int
    now: int
    heads: dict[int, Head]
    parts: defaultdict[int, defaultdict[List, Part]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Part))
    )

    def add(self, place: List, page: int, age: int, rows: pl.DataFrame) -> None:
        """Rows of a segment; the newest of a list has the lowest age."""
        require_by_key(place.step, page, self.before, rows)
        for number, mine in by_page(rows, self.now):
            part = self.parts[number][place]
            part.ages[age].append(pack(mine, compression="lz4"))
            part.origins.add(page)

    def page(self, number: int, names: Names) -> tuple[Head, dict[str, bytes]]:
        """The head and the segments of a new page, which get their names. Keys of different pages
        are not the same: what is of one age may be one segment, whatever pages it is from."""
        steps = {step for each in self.heads.values() for step in each.open}
        head = Head(
            open=dict.fromkeys(sorted(steps), False), ticks=self._latest("ticks", self.heads)
        )
        found: dict[str, bytes] = {}
        for place, part in self.parts[number].items():
            ids, rows, size = [], 0, 0
            for frame in _segments(part):
                data = pack(frame, compression="lz4")
                segment = Segment(names.of(data), frame)
                found[segment.id] = data
                ids.append(segment.id)
                rows, size = rows + frame.height, size + segment.size
            head.segments.setdefault(place.step, {})[place.name] = ids
            head.sizes.setdefault(place.step, {})[place.name] = (rows, size)
            origins = [self.heads[page] for page in part.origins]
            opened = any(each.open.get(place.step, False) for each in origins)
            head.open[place.step] = head.open.get(place.step, False) or opened
            ends = self._latest("ends", part.origins)
            if place.step in ends:
                head.ends[place.step] = max(ends[place.step], head.ends.get(place.step, 0))
        return head, found

    def _latest(self, kind: str, pages: Collection[int]) -> dict[str, int]:
        latest: dict[str, int] = {}
        for page in pages:
            for step, at in getattr(self.heads[page], kind).items():
                latest[step] = max(at, latest.get(step, at))
        return latest


def require_by_key(step: str, page: int, pages: int, rows: pl.DataFrame) -> None:
    """Some steps keep in every page what is of no key: it cannot go where a key goes."""
    known = rows["__hash"].to_numpy() if "__hash" in rows.columns else None
    if known is None or (known % np.uint64(pages) != page).any():
        raise CheckpointError(
            f"the rows of the step {step!r} do not go by its key",
            where=f"page {page} of {pages}",
            hint="its number of pages stays: start over with --fresh to change it",
        )


def _segments(part: Part) -> Iterator[pl.DataFrame]:
    """The oldest first. Rows that were kept when there were other columns stay for themselves."""
    for age in sorted(part.ages, reverse=True):
        alike: dict[str, list[pl.DataFrame]] = {}
        for data in part.ages[age]:
            rows = unpack(data)
            alike.setdefault(str(rows.schema), []).append(rows)
        for same in alike.values():
            yield pl.concat(same).sort("__slot", "__hash", maintain_order=True)
