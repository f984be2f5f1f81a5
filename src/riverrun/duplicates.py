"""What `.deduplicate(…)` and `.mark_seen(…)` check, and the nodes that they make."""

from __future__ import annotations

import re

from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError
from riverrun.plan.nodes import Deduplicate, MarkSeen
from riverrun.program import OnError
from riverrun.relation import Relation, checked_policy, origin_name, step_keys
from riverrun.schema import RESERVED, Column, Schema

Options = tuple[str | None, OnError | None]
"""The step's name, and what becomes of rows that fail."""


def deduplicate_node(
    rows: Relation, columns: tuple[str, ...], within: Duration, options: Options, at: Location
) -> Deduplicate:
    name, on_error = options
    keys = step_keys("deduplicate", rows, columns, name, at)
    period = microseconds(within, at)
    if period <= 0:
        raise ProgramError("deduplicate needs a period above zero", where=at, got=repr(within))
    made = name or f"{origin_name(rows.node)}_once_by_{'_'.join(columns)}"
    policy, schema = checked_policy(on_error, rows.node, at), rows.node.schema.visible
    return Deduplicate(rows.node, made, keys, period, schema, at, policy)


def mark_seen_node(
    rows: Relation,
    columns: tuple[str, ...],
    given: tuple[int, float, str],
    options: Options,
    at: Location,
) -> MarkSeen:
    (capacity, error, into), (name, on_error) = given, options
    schema = rows.node.schema.visible
    keys = step_keys("mark_seen", rows, columns, name, at)
    if into in schema or not re.fullmatch(r"\w+", into) or into.startswith(RESERVED):
        raise ProgramError(f"the name {into!r} is taken", where=at, hint='into="…"')
    if capacity < 1 or not 0 < error < 1:
        raise ProgramError(
            "mark_seen needs a capacity above 0 and an error between 0 and 1",
            where=at,
            got=f"capacity {capacity}, error {error}",
        )
    made = name or f"{origin_name(rows.node)}_seen_by_{'_'.join(columns)}"
    marked = Schema((*schema.columns, Column(into, "BOOLEAN")))
    policy = checked_policy(on_error, rows.node, at)
    return MarkSeen(rows.node, made, keys, into, capacity, error, marked, at, policy)
