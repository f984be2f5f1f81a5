"""Steps with stored queries: what the program says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from riverrun.columns import HIDDEN, PLACE, TIME, RowForm
from riverrun.durations import BEGINNING
from riverrun.kernels.functions import Function
from riverrun.kernels.operator import (
    NO_SLOT,
    Batch,
    Entry,
    Input,
    Leaving,
    PlainOperator,
    Result,
    Standing,
    StepState,
    Words,
)
from riverrun.kernels.uses import Use
from riverrun.schema import Column, Schema, column_list, quoted, schema_of

if TYPE_CHECKING:
    from riverrun.operators.search.query import Over

DOCUMENT = "__document"
"""The key: documents are dealt evenly, and each is for itself."""
SAID = (
    Column("query", "VARCHAR"),
    Column("owner", "VARCHAR"),
    Column("metadata", "VARCHAR"),
    Column("fields", "VARCHAR[]"),
    Column("score", "DOUBLE"),
)
FRAGMENT = Column("fragment", "VARCHAR")
"""What a row tells of the query that has found it."""
COSTS = {
    "process": "VARCHAR",
    "query": "VARCHAR",
    "owner": "VARCHAR",
    "needs_a_word": "BOOLEAN",
    "candidates": "BIGINT",
    "hits": "BIGINT",
    "microseconds": "DOUBLE",
    "documents": "BIGINT",
    "queries": "BIGINT",
    "unindexed": "BIGINT",
}
"""What a step tells of its queries when it is asked: the row without a query is of all."""
TABLE = {"query": "query", "condition": "where", "owner": "owner", "metadata": "metadata"}
"""Columns of a table of queries, and what they are of a query. Its key is the name."""
METADATA = "metadata"


@dataclass(frozen=True, kw_only=True)
class Queries:
    """A table of queries, as it enters."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Their names and types."""
    key: str
    form: RowForm

    def taken(self) -> Iterator[str]:
        """The columns that say something of a query, as text."""
        for column, type in self.columns:
            if column in TABLE:
                own = quoted(column)
                text = f"to_json({own})" if column == METADATA and has_names(type) else own
                yield f"{text}::VARCHAR AS {quoted(TABLE[column])}"


def has_names(type: str) -> bool:
    """Whether values of a type are names with values; JSON is a text of them."""
    return type.startswith(("STRUCT", "MAP")) and not type.endswith("]")


@dataclass(frozen=True, kw_only=True)
class Search(PlainOperator):
    entering: Schema
    """Of the documents."""
    keep: tuple[str, ...]
    """Their columns that leave."""
    text: tuple[str, ...]
    languages: tuple[tuple[str, str], ...]
    stop_words: tuple[str, ...]
    highlight: bool
    max_unindexed: int
    """So many queries may need no word: each is tested on every document."""
    queries: Queries | None
    """None: they come by the control log."""
    key: tuple[str, ...]
    """That rows are written with."""

    kind = "search"
    takes = "facts"
    can_be_late = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        documents = Input(word="documents", takes="facts", late=False, stays=True)
        if self.queries is None:
            return (documents,)
        return (
            documents,
            Input(
                port="queries", word="queries", takes=self.queries.form, late=False,
                moves_clock=False, loaded_first=True, everywhere=True,
            ),
        )  # fmt: skip

    @property
    def leaving(self) -> Leaving:
        return Leaving(form="facts", key=self.key)

    @property
    def holds(self) -> bool:
        return self.queries is None

    def enter(self, number: int, rows: str) -> Entry:
        if number == 0:
            chosen = column_list((*self.entering.visible.names, *PLACE))
            place = f"__pos AS {DOCUMENT}, epoch_us(__at) AS {TIME}"
            return Entry(f"SELECT {chosen}, {place} FROM {rows}")
        assert self.queries is not None
        name = f"{quoted(self.queries.key)}::VARCHAR AS name"
        own = self.queries.taken()
        parts = [name, *own, *HIDDEN[self.queries.form], f"0::BIGINT AS {DOCUMENT}", NO_SLOT]
        return Entry(f"SELECT {', '.join(parts)} FROM {rows}")

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns of a document that wait with it."""
        return ("__hash", DOCUMENT, *self.entering.visible.names, TIME, "__pos", "__sub")

    def key_words(self) -> list[str]:
        return ["nothing: documents are dealt evenly"]

    def uses(self, number: int) -> Iterable[Use]:
        # any query that comes may name any column
        columns = self.entering.visible.names
        if number and self.queries:
            columns = tuple(name for name, _ in self.queries.columns)
        return (Use.of("stored queries", columns),)

    def words(self) -> Words:
        languages = dict(self.languages)
        text = [name + (f" ({languages[name]})" if name in languages else "") for name in self.text]
        lines = [("text", ", ".join(text))]
        if self.queries is None:
            lines.insert(0, ("queries", "from the control log: riverrun queries"))
        return Words(lines, ["stored queries", *self.text], dict(lines))

    def frozen(self) -> dict[str, Any]:
        source = "table" if self.queries else "control log"
        return {"columns": self.entering.visible.ddl(), "queries": source}

    def settings(self) -> dict[str, Any]:
        return {
            "text": list(self.text),
            "languages": dict(self.languages),
            "stop_words": list(self.stop_words),
            "keep": list(self.keep),
            "highlight": self.highlight,
            "max_unindexed": self.max_unindexed,
        }

    def last_closed(self, clock: int) -> int:
        return BEGINNING

    def done(self, clock: int) -> int:
        return clock - 1

    @property
    def fails_on(self) -> str | None:
        return "rows of the table of queries that are none" if self.queries else None

    @property
    def functions(self) -> tuple[Function, ...]:
        """All that the program's line sees: a condition may call any of them."""
        return tuple(each for each in self.at.visible.values() if isinstance(each, Function))

    def over(self) -> Over:
        # only programs that run wait for the library of words
        from riverrun.operators.search.query import Over  # noqa: PLC0415
        from riverrun.operators.search.reading import searched  # noqa: PLC0415

        own = searched(self.entering, self.text, self.languages, self.stop_words)
        return Over(own, self.entering.visible, self.at)

    def advance(self, state: StepState, batch: Batch) -> Result:
        from riverrun.operators.search.visit import Visit  # noqa: PLC0415 - as above

        return Visit(self, state, batch).run()

    @property
    def table(self) -> Schema:
        return schema_of(list(COSTS.items()))

    @property
    def standing(self) -> Standing:
        """It can be asked what its queries cost."""
        return self._standing

    def _standing(self, state: StepState, clock: int) -> pl.DataFrame:
        from riverrun.operators.search.visit import cost  # noqa: PLC0415 - as above

        return cost(self, state, clock)

    def leaves(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(*self.schema.names, *PLACE)
