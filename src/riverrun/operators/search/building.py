"""What `.search(…)` checks before anything runs, and the step that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from riverrun.arguments import names
from riverrun.columns import RowForm
from riverrun.errors import Location, ProgramError
from riverrun.kernels.letters import OnError
from riverrun.operators.search.spec import (
    DOCUMENT,
    FRAGMENT,
    METADATA,
    SAID,
    TABLE,
    Queries,
    Search,
    has_names,
)
from riverrun.operators.to_table import table_behind
from riverrun.plan.building import checked_name, checked_policy, origin_name
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import changes, key_of, passed_on
from riverrun.schema import Schema
from riverrun.sinks.fulltext.sink import languages_of, stopped_words


@dataclass(frozen=True)
class Asked:
    """What the program says of its queries and documents."""

    text: str | Sequence[str]
    language: str | Mapping[str, str] | None
    stop_words: bool | Sequence[str]
    keep: str | Sequence[str] | None
    highlight: bool
    max_unindexed: int
    name: str | None
    on_error: OnError | None


def search(documents: Node, queries: Node | str, asked: Asked, at: Location) -> Step:
    schema = documents.schema.visible
    text = _text(schema, asked, at)
    languages = languages_of(asked.language, text, at)
    keep = schema.names
    if asked.keep is not None:
        keep = names("keep", asked.keep, 'keep=["id", "title"]')
        for each in keep:
            schema.require(each, at)
    if asked.max_unindexed < 0:
        raise ProgramError("max_unindexed is not below 0", where=at, got=asked.max_unindexed)
    own = Schema((*schema.only(keep).columns, *SAID, *((FRAGMENT,) if asked.highlight else ())))
    _refuse_taken(schema.only(keep), own, at)
    table = None if isinstance(queries, str) else _queries(queries, at)
    named = queries if isinstance(queries, str) else None
    does = Search(
        name=checked_name(asked.name or named, at) or f"{origin_name(documents)}_search",
        keys=(DOCUMENT,),
        key_types=("BIGINT",),
        schema=own,
        at=at,
        on_error=checked_policy(asked.on_error, documents, at),
        entering=documents.schema,
        keep=tuple(each.name for each in schema.only(keep).columns),
        text=text,
        languages=tuple(sorted(languages.items())),
        stop_words=stopped_words(asked.stop_words, text, languages, at),
        highlight=asked.highlight,
        max_unindexed=asked.max_unindexed,
        queries=table,
        key=passed_on(documents, own),
    )
    return Step((documents,) if isinstance(queries, str) else (documents, queries), does)


def _text(schema: Schema, asked: Asked, at: Location) -> tuple[str, ...]:
    text = names("text", asked.text, 'text=["title", "body"]')
    if not text:
        raise ProgramError("a search needs at least one column of text", where=at)
    for name in text:
        schema.require(name, at)
        if schema.type_of(name) != "VARCHAR":
            raise ProgramError(
                f"only text has words: {name!r} is {schema.type_of(name)}",
                where=at,
                hint="columns that are not in text=… are compared as a whole",
            )
    return text


def _refuse_taken(kept: Schema, own: Schema, at: Location) -> None:
    for column in own.columns[len(kept.columns) :]:
        if taken := kept.taken(column.name):
            raise ProgramError(
                f"the name {taken!r} is taken",
                where=at,
                got=f"search(…) adds a column {column.name!r}",
                hint="rename yours with .select(…), or leave it out with keep=…",
            )


def _queries(node: Node, at: Location) -> Queries:
    key, schema = key_of(node), node.schema.visible
    if not changes(node):
        raise ProgramError(
            "queries are a table, or the name of the step that gets them by the control log",
            where=at,
            hint='app.table("saved-searches", key="name", schema="name string, query string")',
        )
    if len(key) != 1:
        raise ProgramError(
            "the key of a table of queries is one column, their name", where=at, got=list(key)
        )
    for name in TABLE:
        if name in schema:
            _require_fit(name, schema.type_of(name), at)
    if "query" not in schema:
        raise ProgramError(
            "a table of queries has a column 'query'", where=at, hint=schema.suggestion("query")
        )
    table = table_behind(node)
    form: RowForm = "versions" if table is not None and table.order == "position" else "changes"
    columns = tuple((each.name, each.type) for each in schema.columns)
    return Queries(name=origin_name(node), columns=columns, key=key[0], form=form)


def _require_fit(name: str, type: str, at: Location) -> None:
    if type == "VARCHAR" or (name == METADATA and (type == "JSON" or has_names(type))):
        return
    raise ProgramError(
        f"{name!r} of a table of queries is text", where=at, got=type,
        hint="or a map, a struct or JSON" if name == METADATA else None,
    )  # fmt: skip
