"""Replies that are remembered for a while, so that a command that comes again takes effect once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import polars as pl
import polars_hash as plh

from riverrun.kernels.operator import StepState
from riverrun.operators.decide.rules import Happened

KEPT: dict[str, pl.DataType] = {
    "__slot": pl.Int64(), "__hash": pl.UInt64(), "aggregate": pl.String(), "command": pl.String(),
    "outcome": pl.String(), "version": pl.Int64(), "reason": pl.String(), "events": pl.String(),
    "__until": pl.Int64(),
}  # fmt: skip
REPLY = ("outcome", "version", "reason", "events")

Key = tuple[str, str]
"""An aggregate, and the id of a command."""


class Reply(NamedTuple):
    outcome: str
    version: int
    """Of the aggregate, after the command."""
    reason: str | None
    events: str
    """A list in JSON."""

    def with_events(self, happened: list[tuple[int, Happened]]) -> Reply:
        """With events and their versions, in their order."""
        told = [self.events[1:-1]] if self.events != "[]" else []
        told += [
            f'{{"type":"{each.type}","version":{version},"data":{each.data}}}'
            for version, each in happened
        ]
        return self._replace(version=happened[-1][0], events=f"[{','.join(told)}]")


class Remembered:
    """Replies of one page. Each is kept under its command: an aggregate may have had many."""

    def __init__(self, state: StepState, tick: int, remember: int) -> None:
        self.rows = state.rows("replies", within_key=("command",))
        self.tick, self.until = tick, tick + remember
        self.replies: dict[Key, Reply] = {}
        self.new: dict[Key, int] = {}
        """With the hash of the aggregate."""

    def look_up(self, commands: Iterable[tuple[str, int, Any]]) -> None:
        wanted = pl.DataFrame(
            list(commands),
            schema={"aggregate": pl.String(), "__hash": pl.UInt64(), "command": pl.String()},
            orient="row",
        )
        if not wanted.height or not self.rows.segments:
            return
        found = self.rows.lookup(_slotted(wanted))
        if found is None:
            return
        found = found.filter(pl.col("__until") > self.tick)
        for aggregate, command, *reply in found.select("aggregate", "command", *REPLY).iter_rows():
            self.replies.setdefault((aggregate, command), Reply(*reply))

    def add(self, key: Key, hashed: int, reply: Reply) -> None:
        self.replies[key] = reply
        self.new[key] = hashed

    def save(self) -> None:
        """What is new, and without what has been remembered for long enough."""
        rows = [
            (0, hashed, *key, *self.replies[key], self.until) for key, hashed in self.new.items()
        ]
        fresh = _slotted(pl.DataFrame(rows, schema=KEPT, orient="row")) if rows else None
        fresh = None if fresh is None else fresh.sort("__slot", "__hash")
        self.rows.append(fresh, self.tick)


def _slotted(rows: pl.DataFrame) -> pl.DataFrame:
    """With a slot from the command's id, so that looking one up does not find all of its
    aggregate."""
    hashed = rows.select(plh.col("command").nchash.xxhash64())["command"]
    return rows.with_columns(__slot=hashed.reinterpret(signed=True))
