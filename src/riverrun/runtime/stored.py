"""What a checkpoint holds of an application's state, which may go on meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from riverrun.far import AnyPath
from riverrun.kernels import page_files
from riverrun.kernels.pages import Head
from riverrun.runtime.batches import Batches

FOLDER = page_files.FOLDER


@dataclass(frozen=True)
class StoredState:
    query: AnyPath
    batch: int
    """The number that it was logged with."""

    @classmethod
    def of(cls, checkpoint: AnyPath) -> StoredState:
        """After the last batch that is done."""
        batches = Batches(checkpoint)
        batches.look()
        last = batches.committed()
        return cls(checkpoint / "query", batches.at(last).batch if last >= 0 else 0)

    def exchanges(self) -> list[int]:
        return sorted(page_files.places(self.query))

    def heads(self, exchange: int) -> dict[int, Head]:
        """By page."""
        found = page_files.place(self.query, exchange).heads(self.batch)
        return {page: Head(**json.loads(data)) for page, data in sorted(found.items())}

    def segments(self, exchange: int) -> Iterator[tuple[int, str, bytes]]:
        """Page, id and content of all that heads list."""
        files = page_files.place(self.query, exchange)
        for page, head in self.heads(exchange).items():
            for lists in head.segments.values():
                for names in lists.values():
                    for name in names:
                        yield page, name, files.segment(page, name)
