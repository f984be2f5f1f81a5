"""How rows get into an aggregate: as whole rows, or as parts of its results.

A reader makes parts of a lot's rows where none can be late, so that a page gets one row per group
and not one per event. What may be late travels whole beside its part, since it leaves as it came.
"""

from __future__ import annotations

from typing import Any

from riverrun.columns import PLACE, ROW, ROWS
from riverrun.kernels.aggregates import parts_sql, single_sql
from riverrun.kernels.operator import Entry
from riverrun.kernels.program import CLOSED
from riverrun.operators.aggregate import Aggregate
from riverrun.schema import column_list, quoted

FIRST = "0::BIGINT AS __revision"


def signed(step: Aggregate[Any], rows: str, slot: str = "0::BIGINT") -> Entry:
    """Groups of changes as parts that add and take away. `slot` is SQL over the keys."""
    return Entry(
        f"SELECT {slot} AS __slot, {_parts(step, signed=True)}, "
        f"sum(__op)::BIGINT AS __n, {FIRST} FROM {rows} GROUP BY {column_list(step.keys)}"
    )


def combined(step: Aggregate[Any], rows: str, slot: str, more: tuple[str, ...] = ()) -> str:
    """Groups of rows as parts. `slot` is SQL over `__at`; `more` is SQL over a group's rows."""
    return (
        f"SELECT __slot, {_parts(step, more=more)}, {FIRST}, count(*) AS {ROWS} "
        f"FROM {_in_slots(rows, slot)} GROUP BY __slot, {column_list(step.keys)}"
    )


def single_if_late(step: Aggregate[Any], rows: str, slot: str, more: tuple[str, ...] = ()) -> str:
    """The same, but rows that may be late at the clock stay single, with all their columns."""
    return (
        f"SELECT __slot, {_parts(step, more=more)}, {FIRST}, count(*) AS {ROWS}, "
        f"any_value({packed_row(step)}) FILTER (__may_be_late) AS {ROW} "
        f"FROM (SELECT *, __slot <= {CLOSED} AS __may_be_late FROM {_in_slots(rows, slot)}) "
        f"GROUP BY __slot, {column_list(step.keys)}, "
        "CASE WHEN __may_be_late THEN __pos END, CASE WHEN __may_be_late THEN __sub END"
    )


def singles(
    step: Aggregate[Any], rows: str, *, row: str | None = None, placed: bool = False
) -> str:
    """Every row as parts of its own, by its time; with `row`, SQL for the whole row, and with its
    place where that matters."""
    timed = f"(SELECT *, epoch_us(__at) AS __time FROM {rows})"
    source = f"(SELECT *, {row} AS {ROW} FROM {timed})" if row else timed
    kept = [*([ROW] if row else []), *(PLACE[1:] if placed else [])]
    simple = single_sql(step.aggregations)
    if simple is not None:
        chosen = ", ".join(["__time", column_list(step.keys), *simple, FIRST, *kept])
        return f"SELECT {chosen} FROM {source}"
    kept = [f"any_value({ROW}) AS {ROW}" if name == ROW else name for name in kept]
    chosen = ", ".join(["__time", _parts(step), FIRST, *kept])
    return f"SELECT {chosen} FROM {source} GROUP BY __time, {column_list(step.keys)}, __pos, __sub"


def packed_row(step: Aggregate[Any]) -> str:
    row = ", ".join(f"{quoted(name)} := {quoted(name)}" for name in (*step.columns, *PLACE))
    return f"struct_pack({row})"


def _parts(step: Aggregate[Any], *, signed: bool = False, more: tuple[str, ...] = ()) -> str:
    parts = parts_sql(step.aggregations, signed=signed)
    return ", ".join([column_list(step.keys), *parts, *more])


def _in_slots(rows: str, slot: str) -> str:
    return f"(SELECT *, {slot} AS __slot FROM {rows})"
