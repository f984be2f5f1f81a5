"""Rows of a shard, as they were written."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import tantivy
from tantivy import Occur, Query

from riverrun.formats import JSON
from riverrun.sinks.fulltext.layout import KEY, ROW, Layout
from riverrun.sinks.fulltext.place import NOTE

AT_ONCE = 10_000
"""Rows that are read together."""


def rows_only(layout: Layout, query: Query) -> Query:
    """Without the note of the batch."""
    note = Query.term_query(layout.schema, KEY, NOTE)
    return Query.boolean_query([(Occur.Must, query), (Occur.MustNot, note)])


def typed(texts: list[bytes], layout: Layout) -> pa.Table:
    """Rows in their types, from their JSON."""
    values = pa.array(texts, pa.binary())
    records = pa.table({"__value": values, "__key": pa.nulls(len(texts), pa.binary())})
    return JSON.read_back(records, layout.row).select(list(layout.row.names))


def texts(layout: Layout, searcher: tantivy.Searcher) -> Iterator[list[bytes]]:
    """The JSON of all rows, in no order."""
    everything = rows_only(layout, Query.all_query())
    hits = searcher.search(everything, max(searcher.num_docs, 1)).hits
    for at in range(0, len(hits), AT_ONCE):
        yield [searcher.doc(address)[ROW][0] for _, address in hits[at : at + AT_ONCE]]
