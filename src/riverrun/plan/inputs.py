"""How rows enter a step: the queries that give it whole rows, or parts of its aggregates."""

from __future__ import annotations

from riverrun.kernels.aggregates import parts_sql, single_sql
from riverrun.kernels.steps import PLACE
from riverrun.plan.derive import changes
from riverrun.plan.nodes import Aggregate, Deduplicate, MarkSeen, Process, Rank, Settle
from riverrun.program import CLOSED, ROWS
from riverrun.schema import quoted

WINDOW_OF_ROW = "epoch_us(__at) AS __window"
NO_WINDOW = "0::BIGINT AS __window"


def into_step(
    step: Aggregate | Deduplicate | MarkSeen | Process | Rank | Settle, source: str
) -> tuple[str, str | None]:
    """The query that keeps rows whole that may be late, and the one for when none can be."""
    match step:
        case Aggregate():
            return into_aggregate(step, source)
        case Rank():
            columns = column_list((*step.input.schema.visible.names, "__op", "__revision"))
            return f"SELECT {columns}, ({step.by}) AS __by, {NO_WINDOW} FROM {source}", None
        case Settle():
            columns = column_list((*step.input.schema.visible.names, "__op", "__revision"))
            return f"SELECT {columns}, {NO_WINDOW} FROM {source}", None
    columns = column_list((*step.input.schema.visible.names, *PLACE))
    return f"SELECT {columns}, {WINDOW_OF_ROW} FROM {source}", None


def into_table(versions: str) -> str:
    return f"SELECT *, {NO_WINDOW} FROM {versions}"


def into_aggregate(step: Aggregate, source: str) -> tuple[str, str | None]:
    """The query that keeps rows whole that may be late, and the one for when none can be."""
    if changes(step.input):
        return _signed(step, source), None
    if step.window.kind == "sliding":
        return _singles(step, source, f"{_packed_row(step)} AS __row"), None
    if step.window.kind == "session":
        late = f"CASE WHEN __window <= {CLOSED} THEN {_packed_row(step)} END AS __row"
        return _singles(step, source, late), _singles(step, source)
    combined = _combined(step, source)
    return combined if step.window.kind == "all" else _single_if_late(step, source), combined


def _parts(step: Aggregate, *, signed: bool = False) -> str:
    return ", ".join([column_list(step.keys), *parts_sql(step.aggregations, signed=signed)])


def _with_window(step: Aggregate, source: str) -> str:
    return f"(SELECT *, {step.window.start_sql('__at')} AS __window FROM {source})"


def _packed_row(step: Aggregate) -> str:
    columns = (*step.input.schema.visible.names, *PLACE)
    row = ", ".join(f"{quoted(name)} := {quoted(name)}" for name in columns)
    return f"struct_pack({row})"


def _signed(step: Aggregate, source: str) -> str:
    """Groups of changes as parts that add and take away."""
    return (
        f"SELECT 0::BIGINT AS __window, {_parts(step, signed=True)}, "
        f"sum(__op)::BIGINT AS __n, 0::BIGINT AS __revision "
        f"FROM {source} GROUP BY {column_list(step.keys)}"
    )


def _singles(step: Aggregate, source: str, more: str = "") -> str:
    """Every row as parts of its own, and `more` columns."""
    rows = f"(SELECT *{', ' if more else ''}{more} FROM {_with_window(step, source)})"
    sliding = step.window.kind == "sliding"
    simple = single_sql(step.aggregations)
    if simple is not None:
        kept = ", ".join([*(["__row"] if more else []), *(["__pos", "__sub"] if sliding else [])])
        chosen = ", ".join([column_list(step.keys), *simple])
        return (
            f"SELECT __window, {chosen}, 0::BIGINT AS __revision{', ' if kept else ''}{kept} "
            f"FROM {rows}"
        )
    kept = ", any_value(__row) AS __row" if more else ""
    place = ", __pos, __sub" if sliding else ""
    return (
        f"SELECT __window, {_parts(step)}, 0::BIGINT AS __revision{kept}{place} "
        f"FROM {rows} GROUP BY __window, {column_list(step.keys)}, __pos, __sub"
    )


def _combined(step: Aggregate, source: str) -> str:
    """Groups of a lot's rows as parts, when none of them can be late."""
    return (
        f"SELECT __window, {_parts(step)}, 0::BIGINT AS __revision, count(*) AS {ROWS} "
        f"FROM {_with_window(step, source)} GROUP BY __window, {column_list(step.keys)}"
    )


def _single_if_late(step: Aggregate, source: str) -> str:
    """The same, but rows that may be late at the clock stay single, with all their columns."""
    return (
        f"SELECT __window, {_parts(step)}, 0::BIGINT AS __revision, count(*) AS {ROWS}, "
        f"any_value({_packed_row(step)}) FILTER (__may_be_late) AS __row "
        f"FROM (SELECT *, __window <= {CLOSED} AS __may_be_late "
        f"FROM {_with_window(step, source)}) "
        f"GROUP BY __window, {column_list(step.keys)}, "
        "CASE WHEN __may_be_late THEN __pos END, CASE WHEN __may_be_late THEN __sub END"
    )


def column_list(names: tuple[str, ...]) -> str:
    return ", ".join(quoted(name) for name in names)
