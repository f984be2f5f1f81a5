"""What `.join(…)` checks before anything runs, and the step that it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from riverrun.durations import duration_text
from riverrun.errors import Location, ProgramError
from riverrun.operators.joins.join import SIDES, Asked, Join, JoinSide, On
from riverrun.operators.joins.latest import LatestJoin
from riverrun.operators.joins.streams import SALT, StreamJoin
from riverrun.operators.joins.tables import TableJoin
from riverrun.operators.joins.versions import VersionJoin
from riverrun.operators.keep import keeping
from riverrun.operators.to_table import table_behind
from riverrun.plan.building import checked_name, checked_policy, origin_name, period
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import changes, form_of, key_of, table_of
from riverrun.schema import RESERVED, Column, Schema, no_key, quoted

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


def join(left: Node, right: Node, asked: Asked) -> Step:
    asked = _bounded(asked)
    at, kind = asked.at, _kind(left, right, asked)
    _check_how(kind, asked)
    on = pairs_of(asked.on, at)
    types = tuple(_key_type(left, right, pair, at) for pair in on)
    if changes(right) and not changes(left):
        _require_table_key(right, on, at)
    _check_prefix(asked)
    shared = {mine: type for (mine, theirs), type in zip(on, types, strict=True) if mine == theirs}
    names = [name for name in right.schema.visible.names if name not in shared]
    renamed = {name: f"{asked.prefix or ''}{name}" for name in names}
    schema = _schema(left, right, shared=shared, renamed=renamed, at=at)
    schema = _with_own_columns(schema, kind.added_columns(right, asked), at)
    salt = (SALT,) if asked.spread > 1 else ()
    unchanged = {n: n for n in left.schema.visible.names if n not in shared}
    does = kind(
        name=checked_name(asked.name, at) or f"{origin_name(left)}_join_{origin_name(right)}",
        keys=(*(f"__k{number}" for number in range(len(on))), *salt),
        key_types=(*types, *("BIGINT" for _ in salt)),
        schema=schema,
        at=at,
        on_error=checked_policy(asked.on_error, left, at),
        how=asked.how,
        on=on,
        left=JoinSide(left.schema.visible.names, key_of(left), form_of(left), unchanged),
        right=JoinSide(right.schema.visible.names, key_of(right), kind.right_form(right), renamed),
        **kind.own_fields(left, right, schema, asked),
    )
    keep = period("keep", asked.keep, at)
    sides = zip((left, right), SIDES, strict=True)
    return Step(
        tuple(keeping(rows, keep, f"{does.name}_kept_{side}", at) for rows, side in sides), does
    )


def _bounded(asked: Asked) -> Asked:
    if asked.within is None:
        return asked
    if asked.before is not None or asked.after is not None:
        raise ProgramError("within is both before and after: give one or the other", where=asked.at)
    return replace(asked, before=asked.within, after=asked.within)


def _kind(left: Node, right: Node, asked: Asked) -> type[Join]:
    tables = changes(left), changes(right)
    if tables == (True, False):
        raise ProgramError(
            "a table cannot be joined with a stream",
            where=asked.at,
            hint="put the stream first: stream.join(table, …)",
        )
    said = (asked.before, asked.after, asked.condition, asked.time)
    timed = said != (None, None, None, "later")
    if any(tables) and timed:
        raise ProgramError(
            "within, before, after, where and time are for two streams",
            where=asked.at,
            hint="filter what the join gives with .where(…)",
        )
    if any(tables) and asked.spread != 1:
        raise ProgramError(
            "spread is for two streams",
            where=asked.at,
            hint="a small table can be in every page: replicate=True",
        )
    if tables != (False, True) and (
        asked.as_of is not None or asked.history is not None or asked.corrections
    ):
        raise ProgramError(
            "as_of, history and corrections are for a stream and a table", where=asked.at
        )
    if tables == (False, False):
        return StreamJoin
    if tables == (True, True):
        return TableJoin
    return _kind_of_lookup(right, asked)


def _kind_of_lookup(right: Node, asked: Asked) -> type[Join]:
    if asked.as_of != "event time":
        if asked.corrections:
            raise ProgramError(
                "only a join as of event time has corrections",
                where=asked.at,
                hint='as_of="event time": what the table holds later does not change the past',
            )
        if asked.history is not None:
            raise ProgramError(
                "only a join as of event time keeps a history", where=asked.at,
                hint='as_of="event time"',
            )  # fmt: skip
        return LatestJoin
    table = table_behind(right)
    if table is not None and table.keep is not None:
        raise ProgramError(
            "a join as of event time keeps versions by its history, not by the table's keep",
            where=asked.at,
            got=f"keep={duration_text(table.keep)!r}",
            hint='leave keep out of the table and say history="…", or join as_of="latest"',
        )
    if table_of(right) is None:
        raise ProgramError(
            "only a table of a topic, or one made with to_table(), has versions in time",
            where=asked.at,
            got=f"a table computed by {origin_name(right)!r}",
            hint='write it to a topic and read that as a table, or join as_of="latest"',
        )
    return VersionJoin


def _check_how(kind: type[Join], asked: Asked) -> None:
    if asked.how not in kind.hows:
        raise ProgramError(
            f"how is one of {', '.join(kind.hows)}",
            where=asked.at,
            got=repr(asked.how),
            hint="rows of the table without an event are no events: join two tables for that",
        )


def pairs_of(on: On, at: Location) -> tuple[tuple[str, str], ...]:
    """`"user"`, `["user", "day"]` or `{"user": "id"}` as pairs of columns, left and right."""
    if isinstance(on, str):
        return ((on, on),)
    names = on if isinstance(on, Sequence) else ()
    pairs = tuple(on.items()) if isinstance(on, Mapping) else tuple((n, n) for n in names)
    if not pairs or any(not isinstance(name, str) for pair in pairs for name in pair):
        raise ProgramError(
            "on names the columns to join by",
            where=at,
            got=repr(on),
            hint='on="user", on=["user", "day"], or on={"user": "id"} for left and right',
        )
    return pairs


def _key_type(left: Node, right: Node, pair: tuple[str, str], at: Location) -> str:
    """The type that both columns of a pair are compared in."""
    found = []
    for side, name, word in ((left, pair[0], "left"), (right, pair[1], "right")):
        schema = side.schema.visible
        if name not in schema:
            raise ProgramError(
                f"the {word} side of the join has no column {name!r}",
                where=at,
                hint=schema.suggestion(name),
            )
        found.append(schema.type_of(name))
        if hint := no_key(found[-1]):
            raise ProgramError(
                f"rows cannot be joined by {name!r}, which is {found[-1]}",
                where=at,
                hint=f"{hint} in with_columns(), and join by that",
            )
    if found[0] == found[1]:
        return found[0]
    if all(each in WHOLE for each in found):
        return "BIGINT"
    raise ProgramError(
        "the columns of a join have different types",
        where=at,
        got=f"{pair[0]} is {found[0]}, {pair[1]} is {found[1]}",
        hint=f"cast one, e.g. the left: .with_columns({pair[0]}='cast({quoted(pair[0])} as "
        f"{found[1].lower()})')",
    )


def _check_prefix(asked: Asked) -> None:
    prefix = asked.prefix
    if prefix is not None and (not re.fullmatch(r"\w*", prefix) or prefix.startswith(RESERVED)):
        raise ProgramError(
            "a prefix has letters, digits and _, and does not start with __",
            where=asked.at,
            got=repr(prefix),
        )


def _require_table_key(right: Node, on: tuple[tuple[str, str], ...], at: Location) -> None:
    key = key_of(right)
    if {theirs for _, theirs in on} != set(key):
        raise ProgramError(
            "a stream is joined with a table by the table's key",
            where=at,
            got=f"on {', '.join(theirs for _, theirs in on)}; the key is {', '.join(key)}",
            hint='on={"column of the stream": "key of the table"}; '
            "or make a table with another key",
        )


def _schema(
    left: Node, right: Node, *, shared: dict[str, str], renamed: dict[str, str], at: Location
) -> Schema:
    mine, theirs = left.schema.visible, right.schema.visible
    columns = [Column(c.name, shared.get(c.name, c.type)) for c in mine.columns]
    columns += [Column(new, theirs.type_of(old)) for old, new in renamed.items()]
    names = [column.name.lower() for column in columns]
    for column in columns:
        if names.count(column.name.lower()) > 1:
            raise ProgramError(
                f"both sides of the join have a column {column.name!r}",
                where=at,
                hint='rename it with .select(…), or give the right side\'s a prefix="…"',
            )
    return Schema(tuple(columns))


def _with_own_columns(schema: Schema, names: tuple[str, ...], at: Location) -> Schema:
    for name in names:
        if schema.taken(name):
            raise ProgramError(
                f"the name {name!r} is taken",
                where=at,
                hint='the join adds a column of that name: prefix="…", or rename yours',
            )
    return Schema((*schema.columns, *(Column(name, "VARCHAR") for name in names)))
