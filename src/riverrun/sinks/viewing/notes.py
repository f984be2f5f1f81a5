"""What is noted beside views: what each holds, and how far every batch has come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from riverrun.outputs import OutputSpec, Ways
from riverrun.schema import Schema, schema_of
from riverrun.sinks.viewing.sink import View

CHANGES = "riverrun_changes"
CHANGE = schema_of(
    [
        ("view", "VARCHAR"), ("checkpoint", "VARCHAR"), ("batch", "BIGINT"), ("task", "INTEGER"),
        ("n", "INTEGER"), ("key", "VARCHAR"), ("value", "VARCHAR"),
    ]
)  # fmt: skip
"""A change of a view: the key of its row, and the row, in JSON; without one the row is gone."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS riverrun_views (name text PRIMARY KEY, application text NOT NULL,"
    " layout text NOT NULL, ways text NOT NULL, kept text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS riverrun_batches (generation bigint NOT NULL,"
    " batch bigint NOT NULL, application text NOT NULL, checkpoint text NOT NULL,"
    " tick bigint NOT NULL, changed text NOT NULL, facts text NOT NULL,"
    " PRIMARY KEY (generation, batch))",
    f"CREATE INDEX IF NOT EXISTS riverrun_changes_at ON {CHANGES}"
    " (view, checkpoint, batch, task, n)",
)


class Revision(NamedTuple):
    """What a view has come to: a batch of a checkpoint. Later ones are greater."""

    generation: int
    """Counts checkpoints: each begins with batch 0."""
    batch: int

    def __str__(self) -> str:
        return f"{self.generation}.{self.batch}"

    @classmethod
    def parse(cls, text: str) -> Revision:
        """A ValueError if it is none."""
        generation, batch = text.split(".")
        return cls(int(generation), int(batch))


BEGINNING = Revision(0, -1)
"""Before all batches."""


@dataclass(frozen=True)
class Layout:
    """The columns of a view."""

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    changes: int

    @staticmethod
    def of(output: OutputSpec) -> Layout:
        assert isinstance(output.sink, View)
        columns = tuple((column.name, column.type) for column in output.schema.columns)
        return Layout(columns, output.key, output.sink.changes)

    @staticmethod
    def read(text: str) -> Layout:
        found = json.loads(text)
        columns = tuple((name, type) for name, type in found["columns"])
        return Layout(columns, tuple(found["key"]), found["changes"])

    def written(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @cached_property
    def schema(self) -> Schema:
        return schema_of(list(self.columns))


@dataclass(frozen=True)
class Facts:
    """What is known of a batch whose rows are all there."""

    ends: Mapping[str, int] = field(default_factory=dict)
    """How far each partition was read: the next offset."""
    own: Mapping[str, int] = field(default_factory=dict)
    """Of topics that the program writes itself: where each partition ends now."""
    clocks: Mapping[str, int] = field(default_factory=dict)
    highs: Mapping[str, int] = field(default_factory=dict)
    """The highest event time that was read of each partition."""
    closes: Mapping[str, int] = field(default_factory=dict)
    """The clock at which a step will have given all that it keeps."""
    aside: Mapping[str, str] = field(default_factory=dict)
    """Why records gave nothing, by `topic/partition/offset STEP`."""

    def after(self, before: Facts) -> Facts:
        """With what was known before of partitions and steps that it says nothing of."""
        return Facts(
            {**before.ends, **self.ends}, {**before.own, **self.own},
            {**before.clocks, **self.clocks}, {**before.highs, **self.highs}, self.closes,
            self.aside,
        )  # fmt: skip

    def written(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def read(text: str) -> Facts:
        found: dict[str, Any] = json.loads(text)
        return Facts(**found)


def ways_written(ways: Ways) -> str:
    return json.dumps(asdict(ways), ensure_ascii=False)


def ways_read(text: str) -> Ways:
    found = json.loads(text)
    topics, own, steps = (tuple(found[name]) for name in ("topics", "own", "steps"))
    return Ways(topics, own, found["hops"], steps)
