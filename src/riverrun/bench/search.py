"""`riverrun bench search`: documents against 100,000 stored queries.

- The kernel alone: documents a second of one core's CPU; ten times the queries at equal hits;
  1,000 queries added and removed.
- From Kafka to Kafka, with the queries in a topic of their own.
- The naive way: tantivy, an index in memory of each batch of documents, asked every query.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tantivy

from riverrun.app import App
from riverrun.bench import load
from riverrun.bench.harness import Batches, Bench
from riverrun.bench.report import Report
from riverrun.bench.rules import run
from riverrun.bench.search_data import SCHEMA, Queries, documents, ranks, with_rare_words
from riverrun.config import Settings
from riverrun.control import QUERY, REMOVE_QUERY, Command
from riverrun.kafka.records import Record
from riverrun.operators.search.collection import Collection
from riverrun.operators.search.commands import Changes
from riverrun.operators.search.log import Known
from riverrun.operators.search.spec import Search
from riverrun.search.query import Asked
from riverrun.sinks.fulltext.layout import Layout
from riverrun.sources.files import MemoryTopics

STEP, PAGES = "saved", 4
CHANGED = 1_000
"""Queries that are added and removed."""


@dataclass(frozen=True)
class Sizes:
    queries: int = 100_000
    documents: int = 24_000
    """For the kernel."""
    batch: int = 4_000
    streamed: int = 160_000
    """From Kafka, and how many of them in a batch."""
    streamed_batch: int = 20_000
    naive: int = 4_000

    @property
    def smaller(self) -> Sizes:
        return Sizes(10_000, 4_000, 1_000, 20_000, 4_000, 1_000)


def program(highlight: bool) -> App:
    app = App("search", pages=PAGES)
    rows = app.stream("documents", schema=SCHEMA, time="at")
    rows.search(STEP, text="body", keep="id", highlight=highlight).to("found")
    return app


def commands(queries: list[str], kind: str = QUERY, first: int = 0) -> list[Command]:
    bodies = ({"name": f"q{n}", "query": query} for n, query in enumerate(queries, first))
    return [Command(n, kind, STEP, body) for n, body in enumerate(bodies)]


class SearchBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.streamed_batch)
        self.sizes = sizes
        self.ranks = ranks(sizes.documents)
        self.queries = Queries(self.ranks).take(sizes.queries)
        self.topics = MemoryTopics()
        for value in documents(self.ranks):
            self.topics.append("documents", Record(value))

    def kernel(self) -> None:
        sizes, figures = self.sizes, self.report.figures
        rates = {}
        few = self.queries[::10]
        rare = few + with_rare_words(self.queries[: len(self.queries) - len(few)])
        for name, queries, highlight in (
            (f"{sizes.queries:,} queries", self.queries, True),
            (f"{sizes.queries:,} queries, without fragments", self.queries, False),
            (f"{len(few):,} queries", few, False),
            (f"{len(rare):,} queries, the same hits", rare, False),
        ):
            found = run(
                (program(highlight), commands(queries)), self.topics, sizes.batch, step=STEP
            )
            rates[name] = found.events / found.pages
            figures[f"kernel, {name}: documents/s of CPU"] = round(rates[name])
            figures[f"kernel, {name}: with reading"] = round(found.events / found.seconds)
            figures[f"kernel, {name}: hits a document"] = round(found.found / found.events, 1)
        whole, without, least, most = rates.values()
        self.report.at_least("kernel: documents/s of a core", 3_000, whole)
        self.report.at_most("ten times the queries at equal hits: times slower", 2, least / most)
        figures["kernel: times slower for fragments"] = round(without / whole, 2)

    def changes(self) -> None:
        """Queries that come and go while the others stand."""
        step = next(each.does for each in program(True).program().steps)
        assert isinstance(step, Search)
        known = Known(Collection(step.over()), [])
        self._taken(known, commands(self.queries))
        more = Queries(self.ranks, seed=11).take(CHANGED)
        first = len(self.queries)
        for what, kind in (("added", QUERY), ("removed", REMOVE_QUERY)):
            asked = commands(more, kind, first)
            milliseconds = 1000 * self._taken(known, asked)
            self.report.at_most(f"{CHANGED:,} queries {what}: ms of CPU", 100, milliseconds)

    def _taken(self, known: Known, asked: list[Command]) -> float:
        began = time.process_time()
        changes = Changes(known, 0, 100)
        changes.take(asked)
        known.collection.settle(0)
        return time.process_time() - began

    def streamed(self) -> None:
        sizes = self.sizes
        topic, stored = self.topic("documents"), self.topic("queries")
        rows = ({"name": f"q{n}", "query": query} for n, query in enumerate(self.queries))
        values = (json.dumps(row).encode() for row in rows)
        load.produce(self.client, stored, values, sizes.queries)
        load.produce(self.client, topic, documents(ranks(sizes.streamed, seed=7)), sizes.streamed)
        plan = self.plan(topic, "search", once=True, kind="passed", queries=stored, pages=PAGES)
        batches = self._after(self.finished("search_ours", plan), sizes.queries)
        rate = self.steady("from Kafka", batches)
        self.report.at_least("from Kafka: documents/s", 2_000, rate)

    def _after(self, batches: Batches, events: int) -> Batches:
        """Without those that read the queries."""
        read = np.cumsum([batch["events"] for batch in batches])
        return [
            batch for batch, so_far in zip(batches, read.tolist(), strict=True) if so_far > events
        ]

    def naive(self) -> None:
        """Every query is asked of an index in memory."""
        layout = Layout(
            (("body", "VARCHAR"), ("price", "BIGINT")), (), ("body",), (), (), ("price",)
        )
        asked = [Asked(layout, text, ("body",)).query for text in self.queries]
        names = {field.column: field.name for field in layout.fields.values()}
        values = documents(self.ranks[: self.sizes.naive])
        rows = [{names[n]: row[n] for n in names} for row in map(json.loads, values)]
        began, hits = time.process_time(), 0
        searcher = _indexed(layout, rows)
        for query in asked:
            hits += len(searcher.search(query, len(rows)).hits)
        rate = len(rows) / (time.process_time() - began)
        self.report.figures[f"tantivy, batches of {len(rows):,}: documents/s of CPU"] = round(rate)
        self.report.figures["tantivy: hits a document"] = round(hits / len(rows), 1)


def _indexed(layout: Layout, rows: list[dict[str, Any]]) -> tantivy.Searcher:
    index = tantivy.Index(layout.schema)
    for field in layout.fields.values():
        if field.kind == "text":
            index.register_tokenizer(field.tokenizer, field.analyzer)
    writer = index.writer(num_threads=1)
    for row in rows:
        writer.add_document(tantivy.Document(**row))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index.searcher()


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        found = SearchBench(settings, sizes, Path(folder))
        found.kernel()
        found.changes()
        found.naive()
        found.streamed()
        return found.report
