"""A folder of files as a run of an application uses it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from riverrun.kernels.sql import Evaluator
from riverrun.outputs import OutputSpec, Part
from riverrun.schema import parse
from riverrun.sinks.folders import Folder, Receipt

CHECKPOINT = "0123456789abcdef0123456789abcdef"
EVALUATOR = Evaluator()
SCHEMA = parse("page string, n bigint, at timestamp")


def rows(*found: tuple[str | None, int]) -> pa.Table:
    """Rows of a stream."""
    at = datetime(2026, 1, 1)
    return pa.table(
        {
            "page": pa.array([page for page, _ in found], pa.large_string()),
            "n": pa.array([n for _, n in found], pa.int64()),
            "at": pa.array([at] * len(found), pa.timestamp("us")),
            "__at": pa.array([at] * len(found), pa.timestamp("us")),
            "__pos": pa.array(range(len(found)), pa.int64()),
            "__sub": pa.array([0] * len(found), pa.int64()),
        }
    )


def changes(*found: tuple[str, str, int, int]) -> pa.Table:
    """Changes of a table: sign, page, n, revision."""
    at = datetime(2026, 1, 1)
    return pa.table(
        {
            "page": pa.array([page for _, page, _, _ in found], pa.large_string()),
            "n": pa.array([n for _, _, n, _ in found], pa.int64()),
            "at": pa.array([at] * len(found), pa.timestamp("us")),
            "__op": pa.array([1 if sign == "+" else -1 for sign, *_ in found], pa.int8()),
            "__revision": pa.array([revision for *_, revision in found], pa.int64()),
        }
    )


@dataclass
class Writer:
    """A run of an application, as the driver and its tasks use a folder."""

    kind: type[Folder]
    output: OutputSpec
    run: int = 1
    checkpoint: str = CHECKPOINT

    def __post_init__(self) -> None:
        self.folder = self.kind(self.output.sink)

    def begin(self) -> Writer:
        self.folder.prepare([self.output])
        self.folder.take_over("shop", self.run)
        return self

    def deliver(self, batch: int, *parts: pa.Table) -> list[Receipt | None]:
        return [None, *(self.deliver_one(batch, task, part) for task, part in enumerate(parts))]

    def deliver_one(self, batch: int, task: int, *ways: pa.Table) -> Receipt:
        place = Part("shop", self.checkpoint, self.run, batch, task, tick=0)
        return self.folder.deliver(place, [(self.output, rows) for rows in ways], EVALUATOR)

    def write(self, batch: int, *parts: pa.Table) -> None:
        self.folder.finish(batch, self.deliver(batch, *parts))


def files(folder: str) -> list[str]:
    found = Path(folder).rglob("*")
    return sorted(str(each.relative_to(folder)) for each in found if each.is_file())


def batch_rows(batch: int) -> list[tuple[str, int]]:
    return [(f"/{n % 3}", n) for n in range(batch * 4, batch * 4 + 4)]


def cut(found: list[tuple[str, int]], pieces: int) -> list[pa.Table]:
    return [rows(*found[piece::pieces]) for piece in range(pieces)]
