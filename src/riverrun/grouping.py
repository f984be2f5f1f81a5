"""What `.group_by(…).window(…).agg(…)` checks, and the node that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from riverrun.aggregate import Agg, aggregation, for_comparisons, refuse_clash, result_columns
from riverrun.durations import duration_text
from riverrun.errors import Location, ProgramError
from riverrun.plan.derive import changes
from riverrun.plan.nodes import Aggregate
from riverrun.program import EVENT, Emit, OnError
from riverrun.relation import Relation, origin_name
from riverrun.schema import Column, Schema
from riverrun.windowing import Window


@dataclass(frozen=True)
class Grouping:
    """How rows are grouped, and when the groups are emitted."""

    columns: tuple[str, ...]
    name: str | None
    window: Window
    on_error: OnError
    updatable: int
    emit: Emit
    late_alert: float | None


def check_window(rows: Relation, window: object, late_alert: object, at: Location) -> None:
    if not isinstance(window, Window):
        raise ProgramError(
            "window() needs a window", where=at, got=repr(window), hint='rr.tumbling("1 minute")'
        )
    if changes(rows.node):
        raise ProgramError(
            "rows of a table have no window",
            where=at,
            hint="group by window_start, or by a column computed from it",
        )
    share = late_alert if isinstance(late_alert, int | float) else -1
    if late_alert is not None and not 0 <= share < 1:
        raise ProgramError(
            "late_alert is a share from 0 to below 1", where=at, got=repr(late_alert)
        )


def aggregate_node(
    rows: Relation, given: Grouping, aggregates: Mapping[str, Agg], at: Location
) -> Aggregate:
    node = rows.node
    if not aggregates:
        raise ProgramError("agg needs at least one aggregate", where=at)
    signed, windowed = changes(node), given.window.kind != "all"
    made = tuple(
        aggregation(n, a, node.schema, at, signed=signed, windowed=windowed)
        for n, a in aggregates.items()
    )
    columns = _key_columns(rows, given) + tuple(c for a in made for c in result_columns(a))
    refuse_clash(columns, at)
    return Aggregate(
        input=node,
        name=given.name or _derived_name(rows, given),
        keys=given.columns,
        window=for_comparisons(given.window, made, at),
        updatable=given.updatable,
        emit=given.emit,
        late_alert=given.late_alert,
        aggregations=made,
        schema=Schema(columns),
        at=at,
        on_error=given.on_error,
    )


def _key_columns(rows: Relation, given: Grouping) -> tuple[Column, ...]:
    schema = rows.node.schema
    bounds = (Column("window_start", "TIMESTAMP"), Column("window_end", "TIMESTAMP"))
    if given.window.kind == "sliding":
        return (*schema.visible.columns, *bounds, Column(EVENT, "VARCHAR"))
    keys = tuple(Column(name, schema.type_of(name)) for name in given.columns)
    return keys if given.window.kind == "all" else (*keys, *bounds)


def _derived_name(rows: Relation, given: Grouping) -> str:
    name = f"{origin_name(rows.node)}_by_{'_'.join(given.columns)}"
    window = given.window
    period = duration_text(window.size).replace(" ", "_")
    match window.kind:
        case "all":
            return name
        case "tumbling":
            return f"{name}_per_{period}"
        case "hopping":
            return f"{name}_per_{period}_every_{duration_text(window.hop)}".replace(" ", "_")
        case kind:
            return f"{name}_{kind}_{period}"
