"""What the server makes of bodies, lines and settings, without a broker."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from doors import LINES, SCHEMA, views_app
from riverrun.clock import Now
from riverrun.compiler.shape import shape, source_of
from riverrun.config_tables import Intake, serving
from riverrun.errors import ConfigError, Location
from riverrun.formats.query import run
from riverrun.kafka.records import columns_of
from riverrun.kernels.arrivals import arrival, at_tick
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.sql import shared_evaluator
from riverrun.server.answers import Refused
from riverrun.server.ingest.bodies import NO_OBJECT, Fault, Given, kind_of, records_of, stamped
from riverrun.server.ingest.checking import Checker, Sent
from riverrun.server.ingest.gathering import Gathered
from riverrun.server.ingest.statsd import record_of

SOURCES = {
    "column": {"time": "at"},
    "expression": {"time": "at + to_days(1)", "producer": "user"},
    "device": {"time": rr.device_time(occurred="at", sent="sent", received="got")},
    "received": {"time": rr.device_time(occurred="at", sent="sent"), "max_ahead": None},
    "append": {"time": rr.append_time(), "format": "lenient json"},
}
COLUMNS = (
    f"{SCHEMA}, sent timestamp, got timestamp_ms, tags struct(a bigint, b string[]), h hugeint"
)


def kept(app: rr.App, topic: str) -> ReadTopic:
    """The source, as it is made again from a checkpoint."""
    return source_of(topic, shape(app.program())["sources"][topic], Location("app.py", 1))


TIMES = st.sampled_from(["2026-01-01", "2026-01-01T12:00:00Z", "2999-01-01", "noon", "", 5, None])
VALUES = st.one_of(
    TIMES, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(),
    st.booleans(), st.just({"a": 1}), st.just({"a": "x", "b": [1, None]}), st.just({"b": ["x"]}),
    st.just([1]),
)  # fmt: skip
NAMES = ["page", "user", "ms", "n", "at", "sent", "got", "tags", "h"]
ROWS = st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES), min_size=1, max_size=8)


@pytest.mark.parametrize("kind", SOURCES)
def test_the_server_refuses_what_a_program_sets_aside_and_nothing_else(kind: str) -> None:
    """The oracle is the query that tasks run, over the source as the program has it."""
    app = views_app("views", schema=COLUMNS, **SOURCES[kind])
    source = app.program().source("views")
    checker = Checker(kept(app, "views"))

    @settings(max_examples=40, deadline=None)
    @given(rows=ROWS)
    def check(rows: list[dict[str, Any]]) -> None:
        now = time.time_ns() // 1000
        values = [json.dumps(row).encode() for row in rows]
        _, faults = checker.check([Sent(n, v, now // 1000) for n, v in enumerate(values)])
        lot = columns_of(
            {
                "__value": values, "__key": [None] * len(rows),
                "__timestamp": [now // 1000] * len(rows), "__offset": range(len(rows)),
            },
            [None] * len(rows),
        )  # fmt: skip
        lot = lot.append_column("__partition", run("SELECT 0 AS p FROM lot", lot=lot)["p"])
        query = arrival(source)
        bounds = at_tick(query, source, Now(now, wall=True))
        prepared = source.format.prepared(lot, source.fields, ())
        found = shared_evaluator().run(query, bounds, lot=prepared)
        ahead = found["__ahead"].to_pylist() if source.max_ahead is not None else [None] * len(rows)
        causes = [c or a for c, a in zip(found["__cause"].to_pylist(), ahead, strict=True)]
        wrong = {number: cause for number, cause in enumerate(causes) if cause}
        assert {each.record for each in faults} == set(wrong)
        for number, cause in wrong.items():
            assert cause[:40] in [e.cause[:40] for e in faults if e.record == number]

    check()


QUOTES = "Expecting property name enclosed in double quotes"


def texts(body: str, kind: str = "json") -> list[Any]:
    found = records_of(body.encode(), kind_of(LINES if kind == "lines" else "application/json"))
    return [each.text if isinstance(each, Given) else each.cause for each in found]


def test_records_are_cut_out_of_a_body_as_they_were_sent() -> None:
    assert texts(' {"a": 1.10}\n') == ['{"a": 1.10}']
    assert texts('[ {"a":1} ,\n{"b" : [1,2]}]') == ['{"a":1}', '{"b" : [1,2]}']
    assert texts('{"a":1}\r\n\n{"a":2}', "lines") == ['{"a":1}', '{"a":2}']
    assert texts("[]") == texts("\n\n", "lines") == []
    lines = records_of(b'{"a":1}\n\n{"a":', kind_of(LINES))
    assert [each.record if isinstance(each, Fault) else each.number for each in lines] == [0, 2]


@pytest.mark.parametrize(
    ("body", "causes"),
    [
        ('{"a": 1} x', ['{"a": 1}', "the value is not JSON: line 1, column 9"]),
        ('[{"a": 1} {"a": 2}]', ['{"a": 1}', "the array does not go on: line 1, column 11"]),
        ('[{"a": 1}] 5', ['{"a": 1}', "there is more after the array: line 1, column 12"]),
        ('[{"a": 1},\n {]', ['{"a": 1}', f"the value is not JSON: {QUOTES}, line 2, column 3"]),
        ('[{"a": 1, "a": 2}, {"b": NaN}, 5]', ["'a' is there twice", "NaN is no JSON", NO_OBJECT]),
    ],
)  # fmt: skip
def test_what_is_no_json_is_told_with_its_place(body: str, causes: list[str]) -> None:
    assert texts(body) == causes


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("{}", {"got": 7}),
        ('{"a": {"got": 1}}', {"a": {"got": 1}, "got": 7}),
        ('{"got": null, "a": 1}', {"got": 7, "a": 1}),
        ('{"got": 5}', {"got": 5}),
    ],
)
def test_a_record_that_lacks_the_time_of_receipt_gets_it(text: str, made: dict[str, Any]) -> None:
    [found] = records_of(text.encode(), "json")
    assert isinstance(found, Given)
    assert json.loads(stamped(found, "got", 7)) == made


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(Refused, match="not UTF-8"):
        list(records_of(b'{"a": "\xed\xa0\x80"}', "json"))
    [deep] = records_of(b"[" * 100_000, "json")
    assert isinstance(deep, Fault)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("hits:1|c", {"name": "hits", "value": 1.0, "type": "c", "rate": 1.0}),
        ("t:3.5|ms|@0.1", {"name": "t", "value": 3.5, "type": "ms", "rate": 0.1}),
        ("g:-2|g", {"name": "g", "value": -2.0, "type": "g", "delta": True, "rate": 1.0}),
        ("g:2|g|#a:b", {"name": "g", "value": 2.0, "type": "g", "rate": 1.0, "tags": {"a": "b"}}),
        ("hits", None), ("hits:1", None), (":1|c", None), ("hits:nan|c", None),
        ("hits:1e999|c", None), ("hits:1|x", None), ("hits:1|c|@0", None), ("hits:1|c|@x", None),
        ("hits:|c", None),
    ],
)  # fmt: skip
def test_lines_of_statsd(line: str, found: dict[str, Any] | None) -> None:
    assert record_of(line) == found


@given(st.text())
def test_no_line_breaks_the_door(line: str) -> None:
    found = record_of(line)
    assert found is None or json.loads(json.dumps(found)) == found


def test_settings_of_topics_are_read_and_wrong_ones_are_errors() -> None:
    found = serving(
        {"keep_keys": "2 hours", "topics": {"a.b": {"when_behind": "drop", "limit": 5}}}
    )
    assert found.keep_keys == 7_200_000_000
    assert found.topics == {"a.b": Intake("drop", 5)}
    for wrong in (
        {"topics": {"a": {"when_behind": "panic"}}}, {"topics": {"a": {"limit": 0}}},
        {"topics": {"a": {"limits": 1}}}, {"topics": 5}, {"keep": "1 day"}, {"name": "a/b"},
        {"keep_keys": "long"},
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            serving(wrong)


def test_what_comes_while_work_goes_on_is_done_together_and_an_error_is_for_its_own() -> None:
    lots: list[list[int]] = []
    go_on = threading.Event()

    def work(items: list[int]) -> list[int | Exception]:
        lots.append(items)
        go_on.wait(5)
        return [ValueError(n) if n == 3 else n * 2 for n in items]

    async def main() -> list[int | BaseException]:
        gathered = Gathered[int, int](work, "test", weight=lambda n: n, most=9)
        first = asyncio.ensure_future(gathered(1))
        while not lots:
            await asyncio.sleep(0.001)
        rest = [asyncio.ensure_future(gathered(n)) for n in (2, 3, 4, 5, 20)]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(first, *rest, return_exceptions=True)

    found = asyncio.run(main())
    assert [str(each) for each in found] == ["2", "4", "3", "8", "10", "40"]
    assert isinstance(found[2], ValueError)
    assert lots == [[1], [2, 3, 4], [5], [20]]
