"""Stored queries: what one is, and what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from riverrun.errors import InputError, Location, ProgramError
from riverrun.kernels import sql
from riverrun.kernels.trying import can_be_tried
from riverrun.operators.match.bounded import require_bounded
from riverrun.operators.match.clauses import Expression
from riverrun.operators.match.text import Text
from riverrun.operators.match.trees import tree_of, written
from riverrun.operators.rules.rule import shown
from riverrun.operators.search.index import Entered
from riverrun.operators.search.reading import Reader, Searched
from riverrun.operators.search.tree import Every, Tree
from riverrun.schema import Schema

PARTS = ("name", "query", "where", "owner", "metadata")
"""What is said of a query."""
WATCH = "watch"
"""What `riverrun search watch` says beside: nobody else is told of it."""
NOTHING = '"row"()'
"""What brackets with nothing in them are in SQL."""
LONGEST_NAME, LONGEST_QUERY, MOST_BYTES = 255, 16_384, 65_536
NAME = re.compile(rf"[^\s]{{1,{LONGEST_NAME}}}")
JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
"""Made once: with other options than its own, `json.dumps` makes one for every query."""


@dataclass(frozen=True)
class Over:
    """What queries of a step are about."""

    searched: Searched
    schema: Schema
    at: Location


@dataclass(frozen=True)
class Stored:
    """One stored query, as it was given."""

    name: str
    query: str | None
    where: str | None
    owner: str | None
    metadata: str
    """JSON."""
    watch: bool = False
    """Whether somebody looks on: hits are told in the topic of answers, and nowhere else."""

    @cached_property
    def mark(self) -> int:
        """Tells what one query has found from what others have, in every process."""
        return int.from_bytes(sha256(self.name.encode()).digest()[:8])

    def encoded(self) -> list[Any]:
        return [self.name, self.query, self.where, self.owner, self.metadata, self.watch]

    def entered(self, over: Over, begins: int) -> Entered:
        """The query as it is listed. An error points at its place."""
        tree: Tree = Every(())
        if self.query is not None:
            tree = Reader(over.searched, self.query).read()
        where = None if self.where is None else condition(self.where, over)
        return Entered.of(tree, where, begins)


def stored(given: Mapping[str, Any]) -> Stored:
    """The query that is described, if its parts can be those of one."""
    _require_small(given)
    require_parts(part for part in given if part != WATCH)
    name = given.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            "a stored query's name is text without spaces",
            where="name",
            got=shown(name),
            hint=f"at most {LONGEST_NAME} characters",
        )
    query, where, owner = (_text(given, part) for part in ("query", "where", "owner"))
    if query is None and where is None:
        raise InputError(
            "a stored query has a query, or a condition", hint='query="…" or where="…"'
        )
    metadata = given.get("metadata")
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict):
        raise InputError("metadata are names with values", where="metadata", got=shown(metadata))
    if given.get(WATCH) not in (None, True, False):
        raise InputError("watch is true or false", where=WATCH, got=shown(given[WATCH]))
    told = JSON.encode(metadata)
    return Stored(name, query, where, owner, told, bool(given.get(WATCH)))


def require_parts(given: Iterable[str]) -> None:
    for part in given:
        if part not in PARTS:
            raise InputError(f"a stored query has no {part!r}", hint=f"it has {', '.join(PARTS)}")


def with_metadata(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a table of queries, whose metadata are a text, in JSON; an empty one is none."""
    text = row.get("metadata")
    if not text or text.isspace():
        return {**row, "metadata": None}
    try:
        return {**row, "metadata": json.loads(text)}
    except ValueError as error:
        raise InputError(
            "metadata are not JSON", where="metadata", got=shown(text), hint='{"name": "value"}'
        ) from error


def _text(given: Mapping[str, Any], part: str) -> str | None:
    found = given.get(part)
    if found is None:
        return None
    if not isinstance(found, str):
        raise InputError(f"{part} is text", where=part, got=shown(found))
    if len(found) > LONGEST_QUERY:
        got = f"{len(found):,}"
        raise InputError(f"{part} has at most {LONGEST_QUERY:,} characters", where=part, got=got)
    return found


def _require_small(given: Mapping[str, Any]) -> None:
    try:
        size = len(JSON.encode(given).encode())
    except ValueError as error:
        raise InputError("a stored query is JSON in UTF-8", got=shown(str(error))) from error
    if size > MOST_BYTES:
        raise InputError(f"a stored query has at most {MOST_BYTES:,} bytes", got=f"{size:,}")


class _Condition(Text):
    """An SQL condition, with errors that point at a place of it."""

    def error(self, fact: str, place: int, hint: str | None = None) -> ProgramError:
        at, shown = min(max(place, 0), len(self.text)), self.text
        where = f"character {at + 1} of the condition"
        return ProgramError(fact, where=where, got=f"{shown}\n       {' ' * at}^", hint=hint)


def condition(text: str, over: Over) -> str:
    """The condition as it is evaluated: one expression, whatever brackets and comments it has."""
    source = _Condition(text, over.at)
    try:
        tree = tree_of(source, Expression(text, 0), over.schema.names)
        require_bounded(source, tree)
        made = written(tree)
        if made == NOTHING:
            raise InputError("a condition is empty", where="the condition", hint="leave it out")
        found = sql.type_of(made, over.schema, over.at)
    except ProgramError as error:
        where = error.where if isinstance(error.where, str) else "the condition"
        raise InputError(error.fact, where=where, got=error.got, hint=error.hint) from error
    if found != "BOOLEAN":
        raise InputError(
            "a condition is true or false", where="the condition", got=f"{text}: {found}"
        )
    if not can_be_tried(made, over.schema, over.at):
        raise InputError(
            "a condition calls a function that cannot be tried",
            where="the condition",
            got=text,
            hint="where a condition fails it does not hold: leave out error() and what calls it",
        )
    return made
