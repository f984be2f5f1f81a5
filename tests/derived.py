"""Rows of a table as derived systems are given them, by runs of an application."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from riverrun.kernels.sql import Evaluator
from riverrun.outputs import Destination, OutputSpec, Part, Places, Sink
from riverrun.schema import literal, parse

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
