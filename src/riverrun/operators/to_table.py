"""Tables of a topic or stream: the latest row per key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import polars as pl

from riverrun.columns import AT, GONE, PLACE
from riverrun.durations import BEGINNING, END, Duration, duration_text
from riverrun.errors import Location, ProgramError
from riverrun.kernels import ending
from riverrun.kernels.changes import changed, differing
from riverrun.kernels.letters import OnError
from riverrun.kernels.operator import (
    NO_SLOT,
    Batch,
    Entry,
    Input,
    Leaving,
    PlainOperator,
    Result,
    Standing,
    StepState,
    Words,
    split_late,
)
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.state import SegmentList
from riverrun.kernels.uses import Use
from riverrun.partitions import short
from riverrun.plan.building import checked_condition, checked_policy, period, step_fields
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import key_of, table_of
from riverrun.schema import column_list, literal, plain, quoted

Order = Literal["position", "time"]
"""Which row of a key is the latest: the last one in its partition, or the last in event time."""

TIME = pl.col(AT).dt.epoch("us")
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
    keep: int | None
    """Microseconds that a row stays after the time of the last record of its key."""
    keep_deletes: int | None
    """Microseconds that a deletion is remembered, so that no row from before it is put there."""

    kind = "to table"
    takes = "facts"
    can_be_late = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(takes="facts", late=self.order == "time" and self._ends),)

    @property
    def _ends(self) -> bool:
        return self.keep is not None or self.keep_deletes is not None

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

    def uses(self, number: int) -> Iterable[Use]:
        return Use.of_sql("delete", self.delete)

    def words(self) -> Words:
        parts = [
            "the last record" if self.order == "position" else "the row latest in time",
            f"deleted where {plain(self.delete)}" if self.delete else "",
            f"for {duration_text(self.keep)} after it" if self.keep else "",
            f"deletions for {duration_text(self.keep_deletes)}" if self.keep_deletes else "",
            "in every page" if self.replicate else "",
        ]
        return Words.of(("keeps", ", ".join(part for part in parts if part)))

    def frozen(self) -> dict[str, Any]:
        return {"order": self.order, "columns": self.schema.ddl()}

    def settings(self) -> dict[str, Any]:
        return {"keep": self.keep, "keep_deletes": self.keep_deletes}

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        if self.order == "position":
            return ending.fitted(rows, self.keep)
        if not self._ends:
            return rows.drop("__until", strict=False)
        return ending.in_order(rows.with_columns(ending.not_before(rows, self._until())))

    def _until(self) -> pl.Expr:
        """When rows end, that are kept with their time and with whether they delete."""
        deletes = pl.when(GONE).then(pl.lit(self.keep_deletes, pl.Int64))
        period = deletes if self.keep is None else pl.lit(self.keep, pl.Int64)
        return (TIME + period).fill_null(END).alias("__until")

    def grows(self, tables: list[str]) -> str | None:
        if self.keep is not None:
            return None
        deleted = self.delete is not None and self.keep_deletes is None
        more = ", deleted or not" if deleted else ""
        return f"a row of every {', '.join(self.keys)}{more}"

    @property
    def standing(self) -> Standing:
        return self._standing

    def _standing(self, state: StepState, clock: int) -> pl.DataFrame | None:
        rows = state.rows().standing()
        if rows is not None and self.order == "time":
            rows = rows.filter(~pl.col(GONE))
        return rows

    def advance(self, state: StepState, batch: Batch) -> Result:
        """Rows replace the one before with their key; those that are gone delete it."""
        result, kept = Result(), state.rows()
        if batch.rows is not None:
            self._take(kept, batch, result)
        gone = ending.ended(kept, batch.before, batch.after) if self._ends else None
        if gone is not None:
            there = gone.filter(~pl.col(GONE)) if self.order == "time" else gone
            result.changes.append(changed(there, self.schema.names, -1))
        return result

    def _take(self, kept: SegmentList, batch: Batch, result: Result) -> None:
        assert batch.rows is not None
        columns, key = self.schema.names, ["__hash", *self.keys]
        rows = batch.rows
        if self.inputs[0].late:
            rows, result.late = self._split_late(kept, rows, batch.before)
        new = rows.sort(ORDER[self.order]).unique(key, keep="last", maintain_order=True)
        if self._ends:
            new = self._with_end(new, batch.after)
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
            # a record that says what is there already keeps it there for longer
            told = found.differs if self.keep is None else found.differs | ~found.rows["__gone"]
            written = found.rows.filter(told).drop(PLACE).drop("__gone")
        kept.append(written.sort("__slot", "__hash"), BEGINNING)

    def _with_end(self, rows: pl.DataFrame, clock: int) -> pl.DataFrame:
        """Rows that have ended already are gone."""
        if self.order == "position":
            rows = rows.with_columns(TIME.alias("__changed"))
        rows = rows.with_columns(self._until())
        over = pl.lit(clock < END) & (clock >= ending.UNTIL)
        return rows.with_columns(pl.col(GONE) | over)

    def _split_late(
        self, kept: SegmentList, rows: pl.DataFrame, before: int
    ) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
        """A row is late that would have ended already; without an end, one that may be from before
        a deletion that is forgotten."""
        timed = rows.with_columns(TIME.alias("__time"))
        if self.keep is not None:
            timely, late = split_late(timed, before - self.keep, _as_entered)
            return timely.drop("__time"), late
        assert self.keep_deletes is not None
        key, place = ["__hash", *self.keys], ["__pos", "__sub"]
        old = timed.filter(pl.col("__time") <= before - self.keep_deletes)
        known = kept.lookup(old)
        if known is not None:
            old = old.join(known.select(key), on=key, how="anti", nulls_equal=True)
        if not old.height:
            return rows, {}
        return rows.join(old.select(place), on=place, how="anti"), {"": _as_entered(old)}


def _as_entered(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.drop("__time", "__hash", "__slot", GONE)


def table_behind(node: Node) -> ToTable | None:
    """The table whose versions this one's rows are, row by row, if it is one of ours."""
    found = table_of(node)
    return found.does if found and isinstance(found.does, ToTable) else None


def topic_table(source: ReadTopic, *, replicate: bool, keep: Duration | None = None) -> Step:
    """The last record of each key of a topic."""
    does = ToTable(
        name=short(source.topic),
        keys=source.table_key,
        key_types=tuple(map(source.schema.type_of, source.table_key)),
        schema=source.schema.visible,
        at=source.at,
        on_error=source.on_error,
        order="position",
        delete=None,
        tombstones=True,
        replicate=replicate,
        keep=period("keep", keep, source.at),
        keep_deletes=None,
    )
    return Step((source,), does)


class Ends(NamedTuple):
    """How long rows, and deletions, are kept."""

    keep: Duration | None
    keep_deletes: Duration | None

    def check(self, at: Location) -> None:
        if None not in self:
            raise ProgramError(
                "keep is for deletions, too: a table has keep or keep_deletes",
                where=at,
                got=f"keep={self.keep!r}, keep_deletes={self.keep_deletes!r}",
                hint="leave keep_deletes out",
            )


def to_table(
    rows: Node,
    key: tuple[str, ...],
    *,
    delete: str | None,
    replicate: bool,
    ends: Ends,
    name: str | None,
    on_error: OnError | None,
    at: Location,
) -> Step:
    chosen = key or key_of(rows)
    if not chosen:
        raise ProgramError(
            "a table needs a key", where=at, hint='to_table("column"): one row is kept of each key'
        )
    ends.check(at)
    named = f"latest_by_{'_'.join(chosen)}"
    does = ToTable(
        **step_fields("to_table", rows, chosen, name, named=named, at=at),
        schema=rows.schema.visible,
        on_error=checked_policy(on_error, None, at),
        order="time",
        delete=None if delete is None else checked_condition(delete, rows.schema, at),
        tombstones=False,
        replicate=replicate,
        keep=period("keep", ends.keep, at),
        keep_deletes=period("keep_deletes", ends.keep_deletes, at),
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
    differs = differing(old, new, columns)
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
