"""Rows of a table as derived systems are given them, by runs of an application."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

import riverrun as rr
from riverrun.cache import Cache
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import Destination, OutputSpec, Part, Places, Sink
from riverrun.schema import literal, parse
from riverrun.search import Index

EVALUATOR = Evaluator()
Row = dict[str, Any]
Change = tuple[int, Row]
"""1 or -1, and the row."""


class Writer:
    """A run of an application with one output, a table unless it has no key."""

    def __init__(
        self,
        sink: Sink,
        ddl: str,
        key: Sequence[str] = ("id",),
        *,
        places: Places | None = None,
        run: int = 1,
        checkpoint: str = "c1",
        application: str = "shop",
    ) -> None:
        self.output = OutputSpec(sink.name, sink, parse(ddl), tuple(key), table=bool(key))
        self.run, self.checkpoint, self.application = run, checkpoint, application
        made = sink.destination(places or Places((), "exactly once"))
        assert made is not None
        self.destination: Destination = made

    def begin(self) -> Writer:
        self.destination.prepare([self.output])
        self.destination.take_over(self.application, self.run)
        return self

    def deliver(self, batch: int, *changes: Change, task: int = 0, **facts: Any) -> Any:
        place = (self.application, self.checkpoint, self.run, batch, task)
        part = Part(*place, tick=batch, **facts)
        rows = as_rows(self.output, changes)
        return self.destination.deliver(part, [(self.output, rows)], EVALUATOR)

    def write(self, batch: int, *changes: Change, **facts: Any) -> None:
        self.destination.finish(batch, [None, self.deliver(batch, *changes, **facts)])

    def put(self, batch: int, *rows: Row, **facts: Any) -> None:
        self.write(batch, *((1, row) for row in rows), **facts)


def as_rows(output: OutputSpec, changes: Sequence[Change]) -> pa.Table:
    """As the engine has them: values are read as JSON, in the output's types."""
    lines = {
        "line": [json.dumps(row, default=str) for _, row in changes],
        "op": [op for op, _ in changes],
        "place": list(range(len(changes))),
    }
    shape = literal(json.dumps({each.name: each.type for each in output.schema.columns}))
    marks = (
        "op::TINYINT AS __op, 0::BIGINT AS __revision"
        if output.table
        else "TIMESTAMP '2026-01-01' AS __at, place::BIGINT AS __pos, 0::BIGINT AS __sub"
    )
    query = f"SELECT unnest(from_json(line, {shape})), {marks} FROM rows"
    return EVALUATOR.run(query, rows=pa.table(lines, schema=SHAPE))


SHAPE = pa.schema([("line", pa.string()), ("op", pa.int8()), ("place", pa.int64())])


BATCHES = 12
DDL = "id string, n bigint, t string"
KEYS = ("a", "b", "ü", "世", "", "d e")


class Derived:
    """A system of one kind: how a run writes to it, and what is in it."""

    def __init__(self, kind, folder, url):
        self.kind, self.folder, self.url = kind, Path(folder), url
        self.name = f"t{time.time_ns()}"

    def sink(self):
        if self.kind == "search index":
            return rr.sinks.search_index("t", text="t", folder=self.folder / self.name)
        return rr.sinks.cache(self.name, url=self.url, values=self.kind.removeprefix("cache of "))

    def writer(self, run, checkpoint="c0"):
        place = {"checkpoint": f"{self.name}{checkpoint}", "application": self.name}
        return Writer(self.sink(), DDL, run=run, **place)

    def rows(self):
        if self.kind == "search index":
            return list(Index(self.folder / self.name).rows())
        with closing(Cache(self.name, url=self.url)) as cache:
            return list(cache.rows())

    def holds(self, table):
        wanted = [{"id": key, "n": n, "t": f"{key} {n}"} for key, n in table.items()]
        assert sorted(self.rows(), key=repr) == sorted(wanted, key=repr)


def change(op, key, n):
    return op, {"id": key, "n": n, "t": f"{key} {n}"}


def batch_of(batch, task):
    """Each task has keys of its own: all rows change, and one is there in every second batch."""
    keys = [f"{task}{n}" for n in range(50)]
    told = [change(-1, key, batch - 1) for key in keys if batch]
    told += [change(1, key, batch) for key in keys]
    return [*told, change(1 if batch % 2 == 0 else -1, f"{task}x", batch - batch % 2)]
