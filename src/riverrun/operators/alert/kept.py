"""Groups as they are kept: a row for each, with what others see of it and what is not told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from riverrun.columns import DEAD, HASH, OP, REVISION, SLOT
from riverrun.durations import BEGINNING
from riverrun.kernels.state import SegmentList
from riverrun.kernels.typed import columns_of
from riverrun.operators.alert.arrivals import Identity, identity
from riverrun.operators.alert.group import Group, due
from riverrun.operators.alert.spec import AlertSpec
from riverrun.operators.process.contexts import instant, moment

DUE = "__due"
OWN: dict[str, pl.DataType] = {
    "__came_at": pl.Int64(),
    "__row": pl.String(),
    "__added": pl.Int64(),
    "__over": pl.Boolean(),
    "__seq": pl.Int64(),
    "__first_told": pl.Int64(),
    DUE: pl.Int64(),
}
"""What is not told of a group."""


@dataclass(frozen=True)
class Known:
    key: tuple[Any, ...]
    """The hash, and the values of the key's columns."""
    group: Group
    revision: int = 0
    """How often others have seen it change."""


Change = tuple[Known | None, Known | None]
"""A group before the batch, and after it."""


class KeptGroups:
    """Those of a page."""

    def __init__(self, step: AlertSpec, rows: SegmentList) -> None:
        self.step, self.rows = step, rows
        self.shown = columns_of(step.schema).types
        self.types = {SLOT: pl.Int64(), HASH: pl.UInt64(), **self.shown, **OWN}
        self.types |= {REVISION: pl.Int64(), DEAD: pl.Boolean()}

    def touched(
        self, tick: int, came: Collection[Identity], alerts: Collection[str]
    ) -> dict[Identity, Known]:
        """Groups that something came for, or that have something due."""
        rows = self.rows.standing()
        if rows is None:
            return {}
        hashes = pl.Series([each[0] for each in came], dtype=pl.UInt64)
        asked = pl.Series(list(alerts), dtype=pl.String)
        chosen = rows.filter(
            (pl.col(DUE) <= tick)
            | pl.col(HASH).is_in(hashes.implode())
            | pl.col("alert").is_in(asked.implode())
        )
        found = (self._known(row) for row in chosen.iter_rows(named=True))
        return {identity(each.key): each for each in found}

    def _known(self, row: dict[str, Any]) -> Known:
        told = row["told"]
        group = Group(
            alert=row["alert"], since=instant(row["since"]), came_at=row["__came_at"],
            row=row["__row"], n=row["n"], added=row["__added"], over=row["__over"],
            seq=row["__seq"], level=row["level"], first_told=row["__first_told"],
            told=None if told is None else instant(told), told_n=row["told_n"], kind=row["kind"],
            title=row["title"], text=row["text"], by=row["by"], comment=row["comment"],
        )  # fmt: skip
        key = (row[HASH], *(row[name] for name in self.step.keys))
        return Known(key, group, row[REVISION])

    def _visible(self, known: Known) -> tuple[Any, ...]:
        group = known.group
        told = None if group.told is None else moment(group.told)
        return (
            *known.key[1:], group.alert, group.state, group.n, moment(group.since), group.level,
            group.by, group.comment, group.kind, told, group.told_n, group.title, group.text,
        )  # fmt: skip

    def revised(self, before: Known | None, after: Known) -> Known:
        if before is None:
            return after
        changed = self._visible(before) != self._visible(after)
        return replace(after, revision=before.revision + changed)

    def _stored(self, known: Known, *, dead: bool) -> tuple[Any, ...]:
        group = known.group
        own = (group.came_at, group.row, group.added, group.over, group.seq, group.first_told)
        look = due(group, self.step.times)
        return (0, known.key[0], *self._visible(known), *own, look, known.revision, dead)

    def changes(self, changed: Iterable[Change]) -> list[pl.DataFrame]:
        """What others see of it."""
        rows = list(self._told(changed))
        types = {**self.shown, OP: pl.Int8(), REVISION: pl.Int64()}
        return [pl.DataFrame(rows, schema=types, orient="row")] if rows else []

    def _told(self, changed: Iterable[Change]) -> Iterator[tuple[Any, ...]]:
        for before, after in changed:
            was, now = (None if each is None else self._visible(each) for each in (before, after))
            if was == now:
                continue
            if before is not None and was is not None:
                yield *was, -1, before.revision
            if after is not None and now is not None:
                yield *now, 1, after.revision

    def save(self, changed: Iterable[Change]) -> None:
        rows = [
            self._stored(each, dead=after is None)
            for before, after in changed
            if before != after and (each := after or before) is not None
        ]
        made = pl.DataFrame(rows, schema=self.types, orient="row") if rows else None
        self.rows.append(None if made is None else made.sort(SLOT, HASH), BEGINNING)

    def waiting(self) -> bool:
        """Whether something may be to tell when time goes on."""
        rows = self.rows.standing()
        return rows is not None and rows[DUE].is_not_null().any()
