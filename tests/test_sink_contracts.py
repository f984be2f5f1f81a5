"""Every sink holds what it declares: the contract, with the real servers."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from psycopg.rows import dict_row

import riverrun as rr
from hooks import hooks
from riverrun.cache import Cache
from riverrun.outputs import Destination, OutputSpec, Places
from riverrun.schema import quoted
from riverrun.search import Index
from riverrun.sinks.terminal import Screen
from riverrun.sinks.viewing.sink import FILE, View
from riverrun.testing.contracts import SinkContract, Stand
from running import records, table

__all__ = ["hooks"]

Row = dict[str, Any]


def standing(lines: list[tuple[str, Row]], key: str = "user") -> list[Row]:
    """A table of the changes that were told, in order."""
    rows: dict[Any, Row] = {}
    for sign, row in lines:
        if sign == "+":
            rows[row[key]] = row
        elif rows.get(row[key]) == row:
            del rows[row[key]]
    return list(rows.values())


def topics(broker: dict[str, str], delivery: Any) -> Stand:
    begun = time.time_ns()

    def read(output: OutputSpec) -> list[Row]:
        if output.table:
            return list(table(broker, output.sink.name).values())
        return [json.loads(value or "") for _, value in records(broker, output.sink.name)]

    return Stand(
        lambda name: rr.sinks.topic(f"{name}-{begun}", partitions=2),
        read,
        Places(tuple(broker.items()), delivery),
    )


@pytest.mark.broker
class TestTopicsExactlyOnce(SinkContract):
    @pytest.fixture
    def stand(self, broker: dict[str, str]) -> Stand:
        return topics(broker, "exactly once")


@pytest.mark.broker
class TestTopicsAtLeastOnce(SinkContract):
    @pytest.fixture
    def stand(self, broker: dict[str, str]) -> Stand:
        return topics(broker, "at least once")


class TestPostgres(SinkContract):
    @pytest.fixture
    def stand(self, postgres: str) -> Stand:
        def read(output: OutputSpec) -> list[Row]:
            with psycopg.connect(postgres, row_factory=dict_row) as connection:
                return connection.execute(f"SELECT * FROM {quoted(output.name)}").fetchall()

        return Stand(rr.sinks.postgres, read, Places((), "exactly once", postgres))


class TestSqlite(SinkContract):
    @pytest.fixture
    def stand(self, tmp_path: Path) -> Stand:
        file = tmp_path / "own.db"

        def read(output: OutputSpec) -> list[Row]:
            with closing(sqlite3.connect(file)) as connection:
                connection.row_factory = sqlite3.Row
                found = connection.execute(f"SELECT * FROM {quoted(output.name)}")
                return [dict(row) for row in found]

        return Stand(lambda name: rr.sinks.sqlite(file, name), read)


class TestView(SinkContract):
    @pytest.fixture
    def stand(self, tmp_path: Path) -> Stand:
        def read(output: OutputSpec) -> list[Row]:
            with closing(sqlite3.connect(tmp_path / FILE)) as connection:
                connection.row_factory = sqlite3.Row
                assert isinstance(output.sink, View)
                found = connection.execute(f"SELECT * FROM {quoted(output.sink.view)}")
                return [dict(row) for row in found]

        places = Places((), "exactly once", home=str(tmp_path))
        return Stand(lambda name: rr.sinks.view(name.replace("-", "_")), read, places)


class TestParquet(SinkContract):
    @pytest.fixture
    def stand(self, tmp_path: Path) -> Stand:
        def read(output: OutputSpec) -> list[Row]:
            files = sorted((tmp_path / output.name).glob("*.parquet"))
            rows = ds.dataset([str(file) for file in files]).to_table().to_pylist()
            if not output.table:
                return rows
            signs = [row.pop("change") for row in rows if row.pop("revision") is not None]
            return standing(list(zip(signs, rows, strict=True)))

        return Stand(lambda name: rr.sinks.parquet(tmp_path / name), read)


class TestDelta(SinkContract):
    @pytest.fixture
    def stand(self, tmp_path: Path) -> Stand:
        return Stand(
            lambda name: rr.sinks.delta(tmp_path / name),
            lambda output: DeltaTable(tmp_path / output.name).to_pyarrow_table().to_pylist(),
        )


class TestSearchIndex(SinkContract):
    @pytest.fixture
    def stand(self, tmp_path: Path) -> Stand:
        def sink(name: str) -> Any:
            text = "t" if name == "types" else "user"
            return rr.sinks.search_index(name, text=text, folder=tmp_path / name)

        return Stand(sink, lambda output: list(Index(tmp_path / output.name).rows()))


@pytest.mark.parametrize("values", ["json", "hash"])
class TestCache(SinkContract):
    @pytest.fixture
    def stand(self, valkey: str, values: Any) -> Stand:
        def read(output: OutputSpec) -> list[Row]:
            with closing(Cache(output.name)) as cache:
                return list(cache.rows())

        return Stand(
            lambda name: rr.sinks.cache(name, url=valkey, values=values),
            read,
        )


class TestWebhook(SinkContract):
    @pytest.fixture
    def stand(self, hooks: Any) -> Stand:
        def read(output: OutputSpec) -> list[Row]:
            bodies = [seen.body for seen in hooks.seen]
            if not output.table:
                return [body["value"] for body in bodies]
            return standing([(body["op"], body["value"]) for body in bodies])

        return Stand(lambda name: replace(rr.sinks.webhook(hooks.url), name=name), read)


def test_the_screen_delivers_nothing():
    shown = rr.sinks.screen()
    assert shown.guarantee("exactly once") == "shown"
    assert shown.destination(Places((), "exactly once")) is None


@dataclass(frozen=True)
class Careless(Screen):
    """Promises what it does not hold: it adds whatever is delivered."""

    promise: Any = "exactly once"
    kept: Any = field(default_factory=list, compare=False)

    def guarantee(self, delivery):
        return self.promise

    def destination(self, places):
        return CarelessList(self.kept)


class CarelessList(Destination):
    def __init__(self, kept):
        self.kept = kept

    def prepare(self, outputs): ...

    def take_over(self, application, run): ...

    def deliver(self, part, found, evaluator):
        self.kept += [row for _, rows in found for row in rows.to_pylist()]

    def finish(self, batch, receipts): ...


@pytest.mark.parametrize(
    "case",
    [
        "a_part_that_comes_again_takes_effect_as_the_guarantee_says",
        "what_a_killed_run_has_delivered_does_not_count_twice",
        "an_earlier_run_may_not_write_once_a_later_one_has",
        "another_result_for_the_same_part_stops_loudly",
        "rows_of_a_table_replace_and_delete_by_key",
    ],
)
def test_a_sink_that_promises_too_much_does_not_pass(case):
    cases = type("Cases", (SinkContract,), {"stand": None})()
    check = getattr(cases, f"test_{case}")
    sink = Careless()
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(Stand(lambda name: sink, lambda output: sink.kept))
    modest = Careless(promise="at least once")
    if "table" not in case:
        check(Stand(lambda name: modest, lambda output: modest.kept))
