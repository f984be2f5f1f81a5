"""What a program says of tables: checked, and made into nodes."""

from __future__ import annotations

import re

from riverrun.errors import Location, ProgramError, caller
from riverrun.kernels import sql
from riverrun.plan.derive import key_of
from riverrun.plan.nodes import Rank, Settle, Source, ToTable
from riverrun.program import OnError
from riverrun.relation import Relation, checked_policy, origin_name, step_keys
from riverrun.schema import RESERVED, Column, Schema, nested


def topic_table(source: Source, *, replicate: bool) -> ToTable:
    """The last record of each key of a topic."""
    schema = source.schema.visible
    return ToTable(
        source, source.topic, source.table_key, "position", None, replicate, schema, source.at,
        source.on_error,
    )  # fmt: skip


def table_node(
    rows: Relation,
    key: tuple[str, ...],
    delete: str | None,
    options: tuple[bool, str | None, OnError | None],
    at: Location,
) -> ToTable:
    replicate, name, on_error = options
    chosen = key or key_of(rows.node)
    if not chosen:
        raise ProgramError(
            "a table needs a key", where=at, hint='to_table("column"): one row is kept of each key'
        )
    keys = step_keys("to_table", rows, chosen, name, at)
    schema = rows.node.schema
    condition = None if delete is None else schema.expression(delete)
    if condition is not None and (found := sql.type_of(condition, schema, at)) != "BOOLEAN":
        raise ProgramError(
            "a condition must be true or false", where=at, got=f"{condition}: {found}"
        )
    made = name or f"{origin_name(rows.node)}_latest_by_{'_'.join(keys)}"
    policy = checked_policy(on_error, None, at)
    return ToTable(rows.node, made, keys, "time", condition, replicate, schema.visible, at, policy)


def rank_node(
    rows: Relation,
    keys: tuple[str, ...],
    name: str | None,
    given: tuple[int, str, str | None],
    *,
    descending: bool,
) -> Rank:
    at, (limit, by, place) = caller(), given
    schema = rows.node.schema.visible
    if not isinstance(limit, int) or limit < 1:
        raise ProgramError("a ranking has at least one place", where=at, got=repr(limit))
    text = schema.expression(by)
    found = sql.type_of(text, schema, at)
    if nested(found):
        raise ProgramError(
            "rows are ranked by a value that can be ordered", where=at, got=f"{by} is {found}"
        )
    columns = schema.columns
    if place is not None:
        if place in schema or not re.fullmatch(r"\w+", place) or place.startswith(RESERVED):
            raise ProgramError(f"the name {place!r} is taken", where=at, hint='place="…"')
        columns = (*columns, Column(place, "BIGINT"))
    word = "top" if descending else "bottom"
    made = name or f"{origin_name(rows.node)}_{word}_{limit}_by_{'_'.join(keys)}"
    return Rank(rows.node, made, keys, limit, text, descending, place, Schema(columns), at)


def changes_node(rows: Relation, name: str | None, at: Location) -> Settle:
    schema = rows.node.schema.visible
    if "op" in schema:
        raise ProgramError(
            "the name 'op' is taken",
            where=at,
            got="changes() adds a column of that name",
            hint="rename yours with .select(…)",
        )
    keys = step_keys("changes", rows, key_of(rows.node), name, at)
    made = name or f"{origin_name(rows.node)}_changes"
    told = Schema((*schema.columns, Column("op", "VARCHAR")))
    return Settle(rows.node, made, keys, facts=True, schema=told, at=at)
