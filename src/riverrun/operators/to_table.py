"""Tables of a topic or stream: the latest row per key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import polars as pl

from riverrun.columns import GONE, PLACE
from riverrun.durations import BEGINNING
from riverrun.errors import Location, ProgramError
from riverrun.kernels.changes import changed
from riverrun.kernels.letters import OnError
from riverrun.kernels.operator import (
    NO_SLOT,
    Batch,
    Entry,
    Leaving,
    PlainOperator,
    Result,
    StepState,
    Words,
    differing,
)
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.state import SegmentList
from riverrun.plan.building import checked_condition, checked_policy, step_fields
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import key_of, table_of
from riverrun.schema import column_list, literal, plain, quoted

Order = Literal["position", "time"]
"""Which row of a key is the latest: the last one in its partition, or the last in event time."""

ORDER = {"position": list(PLACE[1:]), "time": list(PLACE)}


@dataclass(frozen=True, kw_only=True)
class ToTable(PlainOperator):
    order: Order
    delete: str | None
    """The condition of rows that delete their key."""
    tombstones: bool
    """Whether records without a value do: the reader marks them."""
    replicate: bool
    """Whether joins may keep the whole table in every page."""

    kind = "to table"
    takes = "facts"
    can_be_late = False

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="changes", key=self.keys)

    def enter(self, number: int, rows: str) -> Entry:
        return Entry(f"SELECT *, {NO_SLOT} FROM ({self.versions(rows)})")

    def versions(self, rows: str) -> str:
        """Whole rows with their time, and those that delete."""
        condition = f"coalesce(({self.delete}), false)" if self.delete else "false"
        gone = GONE if self.tombstones else f"{condition} AS {GONE}"
        columns = column_list((*self.schema.names, *PLACE))
        return f"SELECT {columns}, {gone} FROM {rows}{self._with_key()}"

    def _with_key(self) -> str:
        """A row without a key fails; a record that has none does so when it is read."""
        if self.tombstones:
            return ""
        missing = " ".join(
            f"WHEN {quoted(key)} IS NULL THEN error({literal(f'no key: {key} is null')})::BOOLEAN"
            for key in self.keys
        )
        return f" WHERE CASE {missing} ELSE true END"

    def words(self) -> Words:
        last = "the last record" if self.order == "position" else "the row latest in time"
        deletes = f", deleted where {plain(self.delete)}" if self.delete else ""
        return Words.of(("keeps", last + deletes + (", in every page" if self.replicate else "")))

    def frozen(self) -> dict[str, Any]:
        return {"order": self.order, "columns": self.schema.ddl()}

    def advance(self, state: StepState, batch: Batch) -> Result:
        """Rows replace the one before with their key; those that are gone delete it."""
        result, kept = Result(), state.rows()
        if batch.rows is None:
            return result
        columns, key = self.schema.names, ["__hash", *self.keys]
        new = batch.rows.sort(ORDER[self.order]).unique(key, keep="last", maintain_order=True)
        old = beside(kept, new, key)
        if self.order == "time":
            newer = _newer(new, old)
            new, old = new.filter(newer), old.filter(newer)
        was_there = old["__revision"].is_not_null()
        if self.order == "time":
            was_there &= ~old["__gone"].fill_null(True)
        found = replaced(new, old, columns, was_there)
        result.changes += found.changes
        if self.order == "time":
            # what came before a deletion may still arrive: the deletion must be known then
            written = found.rows.with_columns(__dead=pl.lit(False))
        else:
            written = found.rows.filter(found.differs).drop(PLACE).drop("__gone")
        kept.append(written.sort("__slot", "__hash"), BEGINNING)
        return result


def table_behind(node: Node) -> ToTable | None:
    """The table whose versions this one's rows are, row by row, if it is one of ours."""
    found = table_of(node)
    return found.does if found and isinstance(found.does, ToTable) else None


def topic_table(source: ReadTopic, *, replicate: bool) -> Step:
    """The last record of each key of a topic."""
    does = ToTable(
        name=source.topic,
        keys=source.table_key,
        key_types=tuple(map(source.schema.type_of, source.table_key)),
        schema=source.schema.visible,
        at=source.at,
        on_error=source.on_error,
        order="position",
        delete=None,
        tombstones=True,
        replicate=replicate,
    )
    return Step((source,), does)


def to_table(
    rows: Node,
    key: tuple[str, ...],
    *,
    delete: str | None,
    replicate: bool,
    name: str | None,
    on_error: OnError | None,
    at: Location,
) -> Step:
    chosen = key or key_of(rows)
    if not chosen:
        raise ProgramError(
            "a table needs a key", where=at, hint='to_table("column"): one row is kept of each key'
        )
    named = f"latest_by_{'_'.join(chosen)}"
    does = ToTable(
        **step_fields("to_table", rows, chosen, name, named=named, at=at),
        schema=rows.schema.visible,
        on_error=checked_policy(on_error, None, at),
        order="time",
        delete=None if delete is None else checked_condition(delete, rows.schema, at),
        tombstones=False,
        replicate=replicate,
    )
    return Step((rows,), does)


def _newer(new: pl.DataFrame, old: pl.DataFrame) -> pl.Series:
    """Whether rows come after the ones that are kept of their key."""
    earlier = pl.Series([False]).new_from_index(0, new.height)
    same = ~earlier
    for name in PLACE:
        earlier |= same & (new[name] < old[name]).fill_null(False)
        same &= new[name].eq_missing(old[name])
    return ~earlier


class Replaced(NamedTuple):
    """What becomes of a table when rows replace those that are kept of their keys."""

    changes: list[pl.DataFrame]
    rows: pl.DataFrame
    """The new ones, with their revision, and marked where they delete."""
    differs: pl.Series
    """Whether there is anything new about a row."""


def replaced(
    new: pl.DataFrame, old: pl.DataFrame, columns: tuple[str, ...], was_there: pl.Series
) -> Replaced:
    differs = differing(old.select(columns), new.select(columns))
    taken_back = was_there & (new["__gone"] | differs)
    put_there = ~new["__gone"] & (~was_there | differs)
    new = new.with_columns(
        __revision=old["__revision"].fill_null(-1) + put_there.cast(pl.Int64),
        __dead=new["__gone"],
    )
    changes = [
        changed(old.filter(taken_back), columns, -1),
        changed(new.filter(put_there), columns, 1),
    ]
    return Replaced(changes, new, taken_back | put_there)


def beside(kept: SegmentList, rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """The row that is kept of each row's key, side by side; nulls where there is none."""
    found = kept.lookup(rows)
    if found is None:
        names = [name for name in rows.columns if name not in key]
        missing = [pl.lit(None, rows.schema[name]).alias(name) for name in names]
        return rows.select(*key, *missing, pl.lit(None, pl.Int64).alias("__revision"))
    return rows.select(key).join(found, on=key, how="left", nulls_equal=True, maintain_order="left")
