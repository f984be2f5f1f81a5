"""What `.join(…)` checks before anything runs, and the node that it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError
from riverrun.kernels import sql
from riverrun.plan.derive import changes, key_of
from riverrun.plan.nodes import Join
from riverrun.plan.paths import versioned
from riverrun.program import EVENT, How, JoinKind, OnError, PairTime
from riverrun.relation import Relation, checked_policy, origin_name
from riverrun.schema import RESERVED, Column, Schema, nested, quoted

On = str | Sequence[str] | Mapping[str, str]
AsOf = Literal["latest", "event time"]

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
HISTORY = "7 days"
HOW: dict[JoinKind, tuple[str, ...]] = {
    "streams": get_args(How),
    "tables": get_args(How),
    "latest": ("inner", "left"),
    "versions": ("inner", "left"),
}


@dataclass(frozen=True)
class Asked:
    """What a program says of a join, beside its two sides."""

    on: On
    how: How
    at: Location
    prefix: str | None = None
    name: str | None = None
    on_error: OnError | None = None
    before: Duration | None = None
    after: Duration | None = None
    condition: str | None = None
    time: PairTime = "later"
    as_of: AsOf | None = None
    history: Duration | None = None
    corrections: bool = False


def join_node(left: Relation, right: Relation, asked: Asked) -> Join:
    at, kind = asked.at, _kind(left, right, asked)
    _check_how(kind, asked)
    on = _pairs(asked.on, at)
    types = tuple(_key_type(left, right, pair, at) for pair in on)
    if kind in ("latest", "versions"):
        _require_table_key(right, on, at)
    _check_prefix(asked)
    shared = tuple(mine for mine, theirs in on if mine == theirs)
    renamed = tuple(
        (name, f"{asked.prefix or ''}{name}") for name in right.columns if name not in shared
    )
    version = _version_name(right, asked) if kind == "versions" else None
    own_types = {mine: type for (mine, theirs), type in zip(on, types, strict=True)}
    own_types = {name: own_types[name] for name in shared}
    schema = _schema(left, right, (own_types, renamed), at)
    schema = _with_own_columns(schema, asked, version)
    before, after = _bounds(asked) if kind == "streams" else (0, 0)
    return Join(
        left=left.node,
        right=right.node,
        name=_name(left, right, asked),
        kind=kind,
        how=asked.how,
        on=on,
        types=types,
        shared=shared,
        right_names=renamed,
        schema=schema,
        at=at,
        before=before,
        after=after,
        condition=_condition(schema, asked),
        time=asked.time,
        history=microseconds(asked.history or HISTORY, at) if kind == "versions" else 0,
        corrections=asked.corrections,
        version=version,
        on_error=checked_policy(asked.on_error, left.node, at),
    )


def _kind(left: Relation, right: Relation, asked: Asked) -> JoinKind:
    if not isinstance(right, Relation):
        raise ProgramError("join needs a stream or a table", where=asked.at, got=repr(right))
    tables = changes(left.node), changes(right.node)
    if tables == (True, False):
        raise ProgramError(
            "a table cannot be joined with a stream",
            where=asked.at,
            hint="put the stream first: stream.join(table, …)",
        )
    if asked.time not in get_args(PairTime):
        raise ProgramError(
            f"time is one of {', '.join(get_args(PairTime))}", where=asked.at, got=repr(asked.time)
        )
    said = (asked.before, asked.after, asked.condition, asked.time)
    timed = said != (None, None, None, "later")
    if any(tables) and timed:
        raise ProgramError(
            "within, before, after, where and time are for two streams",
            where=asked.at,
            hint="filter what the join gives with .where(…)",
        )
    if tables != (False, True) and (
        asked.as_of is not None or asked.history is not None or asked.corrections
    ):
        raise ProgramError(
            "as_of, history and corrections are for a stream and a table", where=asked.at
        )
    if tables == (False, False):
        return "streams"
    if tables == (True, True):
        return "tables"
    return _kind_of_lookup(right, asked)


def _kind_of_lookup(right: Relation, asked: Asked) -> JoinKind:
    if asked.as_of not in (None, *get_args(AsOf)):
        raise ProgramError(
            'as_of is "latest" or "event time"', where=asked.at, got=repr(asked.as_of)
        )
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
        return "latest"
    if versioned(right.node) is None:
        raise ProgramError(
            "only a table of a topic, or one made with to_table(), has versions in time",
            where=asked.at,
            got=f"a table computed by {origin_name(right.node)!r}",
            hint='write it to a topic and read that as a table, or join as_of="latest"',
        )
    return "versions"


def _check_how(kind: JoinKind, asked: Asked) -> None:
    if asked.how not in HOW[kind]:
        known = asked.how in get_args(How)
        raise ProgramError(
            f"how is one of {', '.join(HOW[kind])}",
            where=asked.at,
            got=repr(asked.how),
            hint="rows of the table without an event are no events: join two tables for that"
            if known
            else None,
        )


def _pairs(on: On, at: Location) -> tuple[tuple[str, str], ...]:
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


def _key_type(left: Relation, right: Relation, pair: tuple[str, str], at: Location) -> str:
    """The type that both columns of a pair are compared in."""
    found = []
    for side, name, word in ((left, pair[0], "left"), (right, pair[1], "right")):
        schema = side.node.schema.visible
        if name not in schema:
            raise ProgramError(
                f"the {word} side of the join has no column {name!r}",
                where=at,
                hint=schema.suggestion(name),
            )
        found.append(schema.type_of(name))
        if nested(found[-1]):
            raise ProgramError(
                f"rows cannot be joined by {name!r}, which is {found[-1]}",
                where=at,
                hint="join by single values, e.g. computed with with_columns()",
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


def _require_table_key(right: Relation, on: tuple[tuple[str, str], ...], at: Location) -> None:
    key = key_of(right.node)
    if {theirs for _, theirs in on} != set(key):
        raise ProgramError(
            "a stream is joined with a table by the table's key",
            where=at,
            got=f"on {', '.join(theirs for _, theirs in on)}; the key is {', '.join(key)}",
            hint='on={"column of the stream": "key of the table"}; '
            "or make a table with another key",
        )


def _schema(
    left: Relation,
    right: Relation,
    made: tuple[dict[str, str], tuple[tuple[str, str], ...]],
    at: Location,
) -> Schema:
    shared, renamed = made
    mine, theirs = left.node.schema.visible, right.node.schema.visible
    columns = [Column(c.name, shared.get(c.name, c.type)) for c in mine.columns]
    columns += [Column(new, theirs.type_of(old)) for old, new in renamed]
    names = [column.name.lower() for column in columns]
    for column in columns:
        if names.count(column.name.lower()) > 1:
            raise ProgramError(
                f"both sides of the join have a column {column.name!r}",
                where=at,
                hint='rename it with .select(…), or give the right side\'s a prefix="…"',
            )
    return Schema(tuple(columns))


def _with_own_columns(schema: Schema, asked: Asked, version: str | None) -> Schema:
    names = [*([] if version is None else [version]), *([EVENT] if asked.corrections else [])]
    for name in names:
        if name in schema:
            raise ProgramError(
                f"the name {name!r} is taken",
                where=asked.at,
                hint='the join adds a column of that name: prefix="…", or rename yours',
            )
    return Schema((*schema.columns, *(Column(name, "VARCHAR") for name in names)))


def _version_name(right: Relation, asked: Asked) -> str:
    prefix = f"{origin_name(right.node)}_" if asked.prefix is None else asked.prefix
    return re.sub(r"\W", "_", f"{prefix}version")


def _bounds(asked: Asked) -> tuple[int, int]:
    if asked.before is None and asked.after is None:
        raise ProgramError(
            "a join of two streams needs a time",
            where=asked.at,
            hint='within="1 minute"; or before="…", after="…": where the right row may be, '
            "seen from the left one",
        )
    before, after = (
        0 if each is None else microseconds(each, asked.at) for each in (asked.before, asked.after)
    )
    return before, after


def _condition(schema: Schema, asked: Asked) -> str | None:
    if asked.condition is None:
        return None
    text = schema.expression(asked.condition)
    found = sql.type_of(text, schema, asked.at)
    if found != "BOOLEAN":
        raise ProgramError(
            "a condition must be true or false", where=asked.at, got=f"{text}: {found}"
        )
    return text


def _name(left: Relation, right: Relation, asked: Asked) -> str:
    if asked.name is not None and not re.fullmatch(r"[\w.-]+", asked.name):
        raise ProgramError(
            "a step's name has letters, digits, _ . and -", where=asked.at, got=asked.name
        )
    return asked.name or f"{origin_name(left.node)}_join_{origin_name(right.node)}"
