"""What waits for the rest of its transaction, in one batch of the one page that keeps it.

Partitions hold rows in the order of commits, as the topic of transactions does. So a row that is
not there is gone once every partition of its table tells of a later transaction; and a transaction
whose end is not told is from before what is left of that topic, once one after it has ended. One
that has begun ends before the next begins; or never, if its connector began anew elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import polars as pl

from riverrun.columns import BEFORE, GONE, POS, TRUNCATED
from riverrun.durations import BEGINNING, END
from riverrun.errors import JobError
from riverrun.formats.debezium_transactions import TRANSACTION, TURN
from riverrun.kernels import positions
from riverrun.kernels.operator import Batch, StepState
from riverrun.kernels.state import SegmentList
from riverrun.operators.whole.lists import ONE, placed, put, rest, rows_of

SINCE = "__since"
"""When a record was written, at the latest when it was read: what was written with it is there when
some time has passed."""
ORDER = "__order"
"""Where the end of a transaction stands among all ends; null if it is not known."""
LANE = "__lane"
"""A partition of a topic, in one number."""
BOUND = "__bound"
"""Transactions that ended before it are not told of any more by a partition."""
TABLE = "__table"
"""Which table a row is of."""
BEGUN, COMPLETE = "begun", "complete"
FIRST = "__first"
"""Where a transaction was told of first."""

REMEMBERED = 200_000
"""Records of the transactions' topic, two for each: what is told again of these is known."""

WhenFull = Literal["stop", "let go"]


class Asked(NamedTuple):
    """What the program says."""

    name: str
    tables: tuple[str, ...]
    told: str
    patience: int
    most: int
    when_full: WhenFull


@dataclass
class Waiting:
    asked: Asked
    state: StepState
    batch: Batch
    warned: dict[str, int] = field(default_factory=dict)
    """How many transactions went on that are not whole, by why."""
    impatient: bool = False
    """Whether something waits that time alone may let go."""

    def advance(self) -> list[pl.DataFrame | None]:
        """The rows of each table that go on."""
        pending = self._told()
        echoes = self._echoes()
        new = [self._new(number, echoes) for number in range(len(self.asked.tables))]
        index = self._index(new)
        reach = self._reach(index, pending)
        endless = self._endless(pending)
        ended, left = self._ended(pending, endless, index, reach)
        stray = pl.concat([self._stray(index, pending, reach), endless])
        if self._full(index, ended, stray):
            ended, left, stray = self._all(index, pending)
        going = pl.concat([ended[TRANSACTION], stray])
        lanes = self._held(index, going)
        put(self._list("open"), left)
        self._remember(ended, stray, reach)
        self.impatient = left[ORDER].is_not_null().any() or self._doubtful(index, going, left)
        return [self._let_go(number, each, going, lanes) for number, each in enumerate(new)]

    @property
    def _patient_since(self) -> int:
        """What came up to this tick has waited long enough."""
        over = self.batch.after == END
        return self.batch.tick if over else self.batch.tick - self.asked.patience

    def _list(self, name: str) -> SegmentList:
        return self.state.rows(name, within_key=None)

    def _told(self) -> pl.DataFrame:
        """Transactions that have begun or ended, and have not gone on."""
        counts = [f"n{number}" for number in range(len(self.asked.tables))]
        kept = rows_of(self._list("open"), _open_schema(counts))
        told = self.batch.inputs[-1]
        if told is None:
            return kept
        _refuse_several_partitions(told, self.asked.told)
        new = told.join(self._known, on=TRANSACTION, how="anti").select(
            TRANSACTION, (~pl.col("ends")).alias(BEGUN), pl.when("ends").then(POS).alias(ORDER),
            self._since(), pl.col(POS).alias(FIRST), *counts,
        )  # fmt: skip
        both = pl.concat([kept, placed(new).select(kept.columns)])
        first = [pl.col(name).filter(pl.col(ORDER).is_not_null()).first() for name in counts]
        return both.group_by(TRANSACTION, maintain_order=True).agg(
            pl.col("__slot", "__hash", ONE).first(),
            pl.col(BEGUN).any(),
            pl.col(ORDER).drop_nulls().first(),
            pl.col(SINCE).filter(pl.col(ORDER).is_not_null()).first().fill_null(self.batch.tick),
            pl.col(FIRST).min(),
            *(each.fill_null(0) for each in first),
        ).select(kept.columns)  # fmt: skip

    @cached_property
    def _known(self) -> pl.DataFrame:
        """Transactions that have gone on."""
        known = rows_of(self._list("gone"), _GONE).select(TRANSACTION, COMPLETE, ORDER)
        return known.unique(TRANSACTION, keep="last", maintain_order=True)

    def _echoes(self) -> pl.Series:
        """Where records without a value stand right behind the deletion of their row. They are
        part of no transaction: where a deletion is told again, and is known, they would be left."""
        kept = rows_of(self._list("deleted"), _DELETED)
        rows = [
            each.select(POS, GONE, TRUNCATED) for each in self.batch.inputs[:-1] if each is not None
        ]
        if not rows:
            return kept[POS].clear()
        told = pl.concat(rows)
        deletions = told.filter(pl.col(GONE) & ~pl.col(TRUNCATED).fill_null(True)).select(POS)
        found = pl.concat([kept.select(POS), deletions])
        last = (
            found.group_by((pl.col(POS) // positions.OFFSETS).alias(LANE))
            .max()
            .select(POS)
            .sort(POS)
        )
        put(self._list("deleted"), placed(last).select(list(_DELETED)))
        behind = (pl.col(POS) - 1).is_in(found[POS].implode())
        return told.filter(pl.col(TRUNCATED).is_null() & behind)[POS]

    def _new(self, number: int, echoes: pl.Series) -> pl.DataFrame | None:
        """Rows of the batch. Those of transactions that went on whole are told again; what comes
        of others goes on as if it had none."""
        rows = self.batch.inputs[number]
        if rows is None:
            return None
        rows = rows.filter(~pl.col(POS).is_in(echoes.implode()))
        rows = rows.join(self._known, on=TRANSACTION, how="left", maintain_order="left")
        rows = rows.filter(~pl.col(COMPLETE).fill_null(False))
        free = pl.col(COMPLETE).is_not_null() | pl.col(TRANSACTION).is_null()
        return rows.with_columns(
            pl.when(~free).then(TRANSACTION).alias(TRANSACTION),
            pl.col(TURN).fill_null(pl.col(POS)),
            self._since(),
        ).drop(COMPLETE, ORDER)

    def _since(self) -> pl.Expr:
        return pl.min_horizontal(pl.col(SINCE), pl.lit(self.batch.tick, pl.Int64)).alias(SINCE)

    def _index(self, new: list[pl.DataFrame | None]) -> pl.DataFrame:
        """Where all rows stand that wait or have come; a row that is told twice stands once."""
        parts = [pl.DataFrame(schema=_INDEX)]
        for number, fresh in enumerate(new):
            waiting = (segment.rows for segment in self._list(f"rows {number}").segments)
            for rows in [*waiting, *([] if fresh is None else [fresh])]:
                table = pl.lit(number, pl.Int64).alias(TABLE)
                parts.append(rows.select(TRANSACTION, TURN, POS, SINCE, table))
        rows = pl.concat(parts).sort(POS)
        free = pl.col(TRANSACTION).is_null()
        again = pl.struct(TRANSACTION, TURN).is_first_distinct()
        return rows.filter(free | again).with_columns(
            (pl.col(POS) // positions.OFFSETS).alias(LANE)
        )

    def _reach(self, index: pl.DataFrame, pending: pl.DataFrame) -> pl.DataFrame:
        """The last transaction that each partition has told of, and where its end stands."""
        orders = pl.concat([pending, self._known], how="diagonal").select(
            TRANSACTION, pl.col(ORDER).alias("found")
        )
        kept = rows_of(self._list("reach"), _REACH)
        last = index.filter(pl.col(TRANSACTION).is_not_null()).group_by(LANE).agg(
            pl.col(TRANSACTION, POS).sort_by(POS).last()
        )  # fmt: skip
        both = pl.concat([kept.select(LANE, TRANSACTION, POS, ORDER), last], how="diagonal")
        found = both.sort(POS).unique(LANE, keep="last", maintain_order=True)
        found = found.join(orders.unique(TRANSACTION), on=TRANSACTION, how="left")
        found = found.with_columns(pl.coalesce(ORDER, "found").alias(ORDER)).drop("found")
        put(self._list("reach"), placed(found).select(list(_REACH)))
        # what has begun and not ended comes after all that have; of others nothing is known
        begun = pending.filter(pl.col(ORDER).is_null())[TRANSACTION].implode()
        beyond = pl.when(pl.col(TRANSACTION).is_in(begun)).then(END).otherwise(BEGINNING)
        return found.with_columns(pl.coalesce(ORDER, beyond).alias(BOUND))

    def _ended(
        self, pending: pl.DataFrame, endless: pl.Series, index: pl.DataFrame, reach: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Those that go on, and those that do not."""
        begun = pending.filter(
            pl.col(ORDER).is_null(), ~pl.col(TRANSACTION).is_in(endless.implode())
        )
        ended = pending.filter(pl.col(ORDER).is_not_null()).sort(ORDER)
        first = pl.lit(begun[FIRST].min(), pl.Int64)  # none has ended that began after it
        ready, complete = [(pl.col(FIRST) < first).fill_null(True)], []
        for number in range(len(self.asked.tables)):
            there = index.filter(pl.col(TABLE) == number).group_by(TRANSACTION).len(f"h{number}")
            ended = ended.join(there, on=TRANSACTION, how="left", maintain_order="left")
            whole = pl.col(f"h{number}").fill_null(0) >= pl.col(f"n{number}")
            complete.append(whole)
            ready.append(whole | self._gone(number, reach))
        ended = ended.with_columns(
            pl.all_horizontal(complete).alias(COMPLETE),
            pl.all_horizontal(ready).cast(pl.Int8).cum_min().cast(pl.Boolean).alias("goes"),
        )
        going = ended.filter("goes")
        left = pl.concat(
            [
                begun,
                ended.filter(~pl.col("goes")).select(pending.columns),
            ]
        )
        if lacking := going.height - int(going[COMPLETE].sum()):
            self.warned["transactions that went on without rows that are gone"] = lacking
        return going, left

    def _endless(self, pending: pl.DataFrame) -> pl.Series:
        """Transactions that have begun and will never end: others, that began later, have ended a
        while ago. Its connector may tell it again, hence the while; the others wait as well."""
        begun = pending.filter(pl.col(ORDER).is_null())
        last = pending.filter(pl.col(SINCE) <= self._patient_since, pl.col(ORDER).is_not_null())
        if not begun.height or not last.height or self._behind(self.asked.told):
            return begun[TRANSACTION].clear()
        found = begun.filter(pl.col(FIRST) < last[FIRST].max())[TRANSACTION]
        if len(found):
            self.warned["transactions whose end is not told"] = len(found)
        return found

    def _gone(self, number: int, reach: pl.DataFrame) -> pl.Expr:
        """Whether rows of a table that a transaction lacks will never come."""
        bounds = self._bounds(number, reach)
        behind = self._behind(self.asked.tables[number])
        unread = {lane: bounds.get(lane, BEGINNING) for lane in behind}
        later = min({**bounds, **unread}.values(), default=BEGINNING)
        patient = min(unread.values(), default=END)
        waited = pl.col(SINCE) <= self._patient_since
        return (pl.col(ORDER) < later) | (waited & (pl.col(ORDER) < patient))

    def _bounds(self, number: int, reach: pl.DataFrame) -> dict[int, int]:
        topic = self.asked.tables[number]
        first = self.batch.topics.index(topic) * positions.PARTITIONS
        lanes = range(first, first + self.batch.partitions.get(topic, 0))
        told: dict[int, int] = dict(reach.select(LANE, BOUND).iter_rows())
        return {lane: told.get(lane, BEGINNING) for lane in lanes}

    def _behind(self, topic: str) -> list[int]:
        """Partitions of a topic that hold more than was read."""
        if self.batch.after == END:
            return []
        source = self.batch.topics.index(topic)
        numbers = (each.number for each in self.batch.behind if each.topic == topic)
        return [source * positions.PARTITIONS + number for number in numbers]

    def _stray(self, index: pl.DataFrame, pending: pl.DataFrame, reach: pl.DataFrame) -> pl.Series:
        """Transactions whose beginning and end were deleted before they were read."""
        rows = self._unknown(index, pending)
        ends = pending.filter(pl.col(ORDER).is_not_null())[TRANSACTION].implode()
        told = pl.concat(
            [
                index.filter(pl.col(TRANSACTION).is_in(ends)).select(LANE, POS),
                reach.filter(pl.col(ORDER).is_not_null()).select(LANE, POS),
            ]
        )
        later = told.group_by(LANE).agg(pl.col(POS).max().alias("later"))
        rows = rows.join(later, on=LANE, how="left")
        waited = pl.lit(False)
        if not self._behind(self.asked.told):
            waited = pl.col(SINCE) <= self._patient_since
        found = rows.filter((pl.col(POS) < pl.col("later")).fill_null(False) | waited)
        stray = found[TRANSACTION].unique(maintain_order=True)
        if len(stray):
            self.warned["transactions that nothing is told of"] = len(stray)
        return stray

    def _unknown(self, index: pl.DataFrame, pending: pl.DataFrame) -> pl.DataFrame:
        """Rows of transactions of which neither beginning nor end is told."""
        rows = index.filter(pl.col(TRANSACTION).is_not_null())
        return rows.join(pending.select(TRANSACTION), on=TRANSACTION, how="anti")

    def _doubtful(self, index: pl.DataFrame, going: pl.Series, left: pl.DataFrame) -> bool:
        rows = self._unknown(index, left).filter(~pl.col(TRANSACTION).is_in(going.implode()))
        return rows.height > 0

    def _full(self, index: pl.DataFrame, ended: pl.DataFrame, stray: pl.Series) -> bool:
        going = pl.concat([ended[TRANSACTION], stray])
        stays = index.filter(~pl.col(TRANSACTION).is_in(going.implode())).height
        if stays <= self.asked.most:
            return False
        if self.asked.when_full == "stop":
            raise JobError(
                "more rows wait for the rest of their transactions than may",
                where=self.asked.name,
                got=f"{stays:,} rows, at most {self.asked.most:,}",
                hint="allow more with most=…, and the job goes on here; or let them go, not whole, "
                'with when_full="let go"',
            )
        return True

    def _all(
        self, index: pl.DataFrame, pending: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.Series]:
        """Everything goes on, whole or not."""
        ended = pending.filter(pl.col(ORDER).is_not_null()).with_columns(
            pl.lit(False).alias(COMPLETE)
        )
        stray = index.join(ended, on=TRANSACTION, how="anti")[TRANSACTION].drop_nulls().unique()
        self.warned = {"transactions that went on because too many rows waited": len(stray)}
        return ended, pending.filter(pl.col(ORDER).is_null()), stray

    def _held(self, index: pl.DataFrame, going: pl.Series) -> pl.DataFrame:
        """Of each partition the first row that stays: what has no transaction waits behind it."""
        stays = pl.col(TRANSACTION).is_not_null() & ~pl.col(TRANSACTION).is_in(going.implode())
        return index.filter(stays).group_by(LANE).agg(pl.col(POS).min().alias("held"))

    def _remember(self, ended: pl.DataFrame, stray: pl.Series, reach: pl.DataFrame) -> None:
        counts = [pl.col(f"n{number}") for number in range(len(self.asked.tables))]
        known = ended.filter(pl.sum_horizontal(counts) > 0)
        latest = max([*ended[ORDER], *reach[ORDER].drop_nulls()], default=None)
        lost = pl.DataFrame({TRANSACTION: stray}).with_columns(
            pl.lit(False).alias(COMPLETE), pl.lit(latest or 0, pl.Int64).alias(ORDER)
        )
        gone = pl.concat([known.select(lost.columns), lost])
        if gone.height:
            until = pl.col(ORDER).alias("__until")
            forgotten = BEGINNING if latest is None else latest - REMEMBERED
            self._list("gone").append(placed(gone).with_columns(until), forgotten)

    def _let_go(
        self, number: int, new: pl.DataFrame | None, going: pl.Series, lanes: pl.DataFrame
    ) -> pl.DataFrame | None:
        """The rows of a table that go on; the others stay."""
        kept = self._list(f"rows {number}")
        chosen, staying = [], []
        for rows in [*(segment.rows for segment in kept.segments), *([] if new is None else [new])]:
            lane = (pl.col(POS) // positions.OFFSETS).alias(LANE)
            held = rows.with_columns(lane).join(lanes, on=LANE, how="left", maintain_order="left")
            behind = held["held"].is_not_null() & (held["held"] < held[POS])
            mask = held[TRANSACTION].is_in(going.implode()) | (
                held[TRANSACTION].is_null() & ~behind
            )
            mask = mask.fill_null(False)
            chosen.append(rows.filter(mask))
            staying.append(rows.filter(~mask))
        rest(kept, staying, new=new is not None)
        if not chosen:
            return None
        compared = pl.DataFrame(schema={BEFORE: pl.String})  # earlier versions did not keep it
        found = pl.concat([compared, *chosen], how="diagonal").sort(POS)
        free = pl.col(TRANSACTION).is_null()
        return found.filter(free | pl.struct(TRANSACTION, TURN).is_first_distinct())


_INDEX = {
    TRANSACTION: pl.String, TURN: pl.Int64, POS: pl.Int64, SINCE: pl.Int64, TABLE: pl.Int64,
}  # fmt: skip
_PLACE = {"__slot": pl.Int64, "__hash": pl.UInt64, ONE: pl.Int64, TRANSACTION: pl.String}
_DELETED = {"__slot": pl.Int64, "__hash": pl.UInt64, ONE: pl.Int64, POS: pl.Int64}
_GONE = {**_PLACE, COMPLETE: pl.Boolean, ORDER: pl.Int64}
_REACH = {**_PLACE, LANE: pl.Int64, POS: pl.Int64, ORDER: pl.Int64}


def _open_schema(counts: Iterable[str]) -> dict[str, type[pl.DataType]]:
    own = {BEGUN: pl.Boolean, ORDER: pl.Int64, SINCE: pl.Int64, FIRST: pl.Int64}
    return {**_PLACE, **own, **dict.fromkeys(counts, pl.Int64)}


def _refuse_several_partitions(told: pl.DataFrame, topic: str) -> None:
    """Between partitions there is no order."""
    numbers = told[POS] // positions.OFFSETS % positions.PARTITIONS
    if highest := max(numbers.unique().to_list(), default=0):
        raise JobError(
            "the topic of transactions has several partitions: the order of commits is lost",
            where=topic,
            got=f"a record in partition {highest}",
            hint="make the topic with one partition before the connector starts",
        )
