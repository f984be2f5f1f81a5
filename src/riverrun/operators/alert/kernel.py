"""The kernel of alerts: one page through one batch.

What arrives is brought down to a few facts for each group, then every group that has something new,
or something due, is decided by itself: people read what comes of it, so there are not many.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from riverrun import exact
from riverrun.columns import HASH
from riverrun.control import ACKNOWLEDGE, Command
from riverrun.durations import time_text
from riverrun.kernels.operator import Batch, Result, Standing, StepState
from riverrun.kernels.typed import columns_of
from riverrun.operators.alert import silences
from riverrun.operators.alert.arrivals import Arrived, arrived
from riverrun.operators.alert.group import Group, Kind, decide
from riverrun.operators.alert.kept import Change, KeptGroups, Known
from riverrun.operators.alert.silences import LONGEST, Silence
from riverrun.operators.alert.spec import TOLD, AlertSpec
from riverrun.operators.alert.templates import LONGEST_TEXT, cut, one_line
from riverrun.operators.process.contexts import moment
from riverrun.operators.process.rows import PLACE_TYPES

SILENCES = {"__slot": pl.Int64, HASH: pl.UInt64, "silences": pl.String}
NOBODY = "somebody"
"""Who has acknowledged an alert without a name."""


@dataclass(frozen=True, kw_only=True)
class Alert(AlertSpec):
    def advance(self, state: StepState, batch: Batch) -> Result:
        return _Visit(self, state, batch).run()

    @property
    def standing(self) -> Standing:
        return self._standing

    def _standing(self, state: StepState, clock: int) -> pl.DataFrame | None:
        return state.rows().standing()


class _Visit:
    def __init__(self, step: AlertSpec, state: StepState, batch: Batch) -> None:
        self.step, self.state, self.batch, self.tick = step, state, batch, batch.tick
        self.kept = KeptGroups(step, state.rows())
        self.asked = {
            str(each.body.get("alert")): each
            for each in reversed(batch.commands)
            if each.kind == ACKNOWLEDGE
        }
        self.silences = self._silences()
        self.told: list[tuple[Any, ...]] = []

    def run(self) -> Result:
        came = arrived(self.step, self.batch.rows)
        found = self.kept.touched(self.tick, came.keys(), self.asked.keys())
        changed: list[Change] = []
        for each in sorted({*found, *came}):
            before = found.get(each)
            changed.append((before, self._visited(before, came.get(each))))
        result = Result(changes=self.kept.changes(changed))
        self.kept.save(changed)
        if self.told:
            types = {**columns_of(self.step.notified).types, **PLACE_TYPES}
            result.streams[TOLD] = [pl.DataFrame(self.told, schema=types, orient="row")]
        result.waiting = self.kept.waiting()
        return result

    def _silences(self) -> tuple[Silence, ...]:
        """Those that hold, after what the control log says with this batch."""
        kept = self.state.rows("silences", within_key=None)
        known = str(kept.segments[-1].rows["silences"][0]) if kept.segments else "[]"
        now = silences.after(silences.decoded(known), self.batch.commands, self.tick)
        if (text := silences.encoded(now)) != known:
            for segment in list(kept.segments):
                kept.remove(segment)
            if now:
                row = {"__slot": [0], HASH: [0], "silences": [text]}
                kept.append(pl.DataFrame(row, schema=SILENCES), -1)
        return now

    def _visited(self, before: Known | None, came: Arrived | None) -> Known | None:
        """The group after the batch; None if there is none, or none any more."""
        group = None if before is None else before.group
        either = before if came is None else came
        assert either is not None
        key = either.key
        if group is not None and (command := self.asked.get(group.alert)) is not None:
            group = self._acknowledged(key, group, command)
        if came is not None:
            group = self._grown(group, came)
        if group is None:
            return None
        decided = decide(group, self.step.times, self.tick, silenced=self._silenced(group))
        group = decided.group or group
        for kind, level in decided.told:
            group = self._tell(key, replace(group, level=level), kind)
        return None if decided.group is None else self.kept.revised(before, Known(key, group))

    def _acknowledged(self, key: tuple[Any, ...], group: Group, command: Command) -> Group:
        if group.by is not None:
            return group
        by, comment = (_said(command, each) for each in ("by", "comment"))
        group = replace(group, by=by or NOBODY, comment=comment)
        if group.told is None or self._silenced(group):
            return group
        return self._tell(key, group, "acknowledged")

    def _grown(self, group: Group | None, came: Arrived) -> Group | None:
        """With what came. A row that says that all is well opens no group."""
        if group is None:
            if came.added <= 0 or came.row is None:
                return None
            group = Group(_name(self.step, came, self.tick), self.tick, self.tick, came.row)
        n = group.n + came.difference
        return replace(
            group,
            n=n,
            added=group.added + came.added,
            over=n <= 0 if came.over is None else came.over,
            came_at=self.tick if came.added else group.came_at,
            row=came.row or group.row,
        )

    def _silenced(self, group: Group) -> bool:
        if not self.silences:
            return False
        row = exact.loads(group.row)
        values = {name: silences.value_text(row[name]) for name in self.step.keys}
        return any(each.holds(values, self.tick) for each in self.silences)

    def _tell(self, key: tuple[Any, ...], group: Group, kind: Kind) -> Group:
        """Notes a notification; the group, as it is after it."""
        row = exact.loads(group.row)
        values = {**self._own(group, row, kind), **row}
        title = one_line(self.step.title.filled(values))
        text = _listed(row) if self.step.text is None else self.step.text.filled(values)
        text, seq = cut(text, LONGEST_TEXT), group.seq + 1
        now, (hashed, *keys) = moment(self.tick), key
        self.told.append((
            *keys, group.alert, f"{group.alert}-{seq}", kind, group.level, group.n,
            moment(group.since), now, title, text, group.by, group.comment, group.row,
            now, -1 - (hashed >> 1), len(self.told),
        ))  # fmt: skip
        return replace(group, seq=seq, kind=kind, title=title, text=text)

    def _own(self, group: Group, row: dict[str, Any], kind: Kind) -> dict[str, Any]:
        """What every template may name beside columns."""
        named = (f"{name}={silences.value_text(row[name])}" for name in self.step.keys)
        since = time_text(group.since)
        return {
            "alert": group.alert, "group": ", ".join(named), "kind": kind, "n": group.n,
            "since": since,
        }  # fmt: skip


def _name(step: AlertSpec, came: Arrived, tick: int) -> str:
    """Of a group from its first row until it is over: the same whenever the batch is run."""
    told = f"{step.application}/{step.name}/{came.key[0]}/{tick}/{came.mark}"
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def _listed(row: dict[str, Any]) -> str:
    return "\n".join(f"{name}: {silences.value_text(value)}" for name, value in row.items())


def _said(command: Command, name: str) -> str | None:
    found = command.body.get(name)
    if not isinstance(found, str) or not found.strip():
        return None
    # half a letter of Unicode would be no text
    return cut(found, LONGEST).encode(errors="replace").decode()
