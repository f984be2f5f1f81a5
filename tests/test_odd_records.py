"""Whatever one record holds, it ends as a row or as a dead letter, and those around it arrive."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import riverrun as rr
from riverrun import exact
from riverrun.kafka import admin
from riverrun.testing import Driver
from running import produce, records
from test_odd_keys import by_key

RIGHT = {
    "boolean": "true",
    "tinyint": "1",
    "utinyint": "1",
    "int": "1",
    "bigint": "1",
    "ubigint": "1",
    "hugeint": "1",
    "uhugeint": "1",
    "float": "1.5",
    "double": "1.5",
    "decimal(18,3)": "1.5",
    "decimal(38,10)": '"1.5"',
    "varchar": '"é"',
    "date": '"2026-01-01"',
    "time": '"12:00:00"',
    "timestamp": '"2026-01-01T12:00:00Z"',
    "timestamp_s": "1767268800",
    "timestamp_ms": "1767268800000",
    "timestamptz": '"2026-01-01T12:00:00Z"',
    "uuid": '"5f0c6b2c-3f0e-4f0e-8f0e-0123456789ab"',
    "json": '{"a": 1}',
    "int[]": "[1, null]",
    "timestamp[]": '["2026-01-01T12:00:00Z"]',
    "struct(a int, b double[])": '{"a": 1, "b": [1.5]}',
    "map(varchar, timestamp)": '{"a": "2026-01-01T12:00:00Z"}',
    "struct(a decimal(9,2), b struct(c time))[]": '[{"a": 1.5, "b": {"c": "12:00:00"}}]',
}
"""For every type a value that it takes."""

ODD = [
    "null", "1", "-1", "0", "1.5", "-0.0", "1e400", "-1e400", "1e-400", "0.1", "1e3",
    "true", "false", '""', '"x"', '" 1 "', '"1"', '"1.5"', '"true"', '"null"',
    r'"\u0000"', r'"\ud800"', r'"\ud83d\ude00"', '"' + "x" * 100_000 + '"',
    "[]", "{}", "[null]", "[[[[1]]]]", '{"a": null}', '{"a": [1e400], "b": {"c": []}}',
    '{"a": 1, "a": 2}', '{"": 1}', '[{"a": "x", "b": {"c": "25:00"}}]',
    "127", "128", "-129", "255", "256", "2147483648", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "170141183460469231731687303715884105727",
    "170141183460469231731687303715884105728", "340282366920938463463374607431768211455",
    "9" * 60, "0." + "3" * 60, '"NaN"', '"nan"', '"Infinity"', '"infinity"', '"-infinity"',
    '"0001-01-01"', '"0001-01-01T00:00:00Z"', '"0000-00-00"', '"2026-02-30"', '"2026-13-01"',
    '"9999-12-31T23:59:59.999999Z"', '"294247-01-10T04:00:54Z"', '"-290308-12-21"', '"epoch"',
    '"24:00:00"', '"23:59:60"', '"12:00:00.123456789"', '"2026-01-01T12:00:00+15:59"',
    '"5f0c6b2c"', r'"\\x00"',
]  # fmt: skip
"""Values that some type takes, and others do not."""

BROKEN: list[bytes] = [
    b"", b" ", b"\x00", b"\xff\xfe", b"{", b"}", b"null", b"[]", b'"x"', b"1", b"NaN",
    b'{"k": NaN, "n": 1}', b'{"n": 1}', b'{"k": 1, "n": "x"}', b'{"n": 1, "at": "never"}',
    b'{"n": 1, "at": "0001-01-01T00:00:00Z", "k": null}', b'{"n": 1, "at": "infinity"}',
    b'{"n": 1, "at": "9999-01-01T00:00:00Z"}', b'{"a":' * 2000 + b"1" + b"}" * 2000,
]  # fmt: skip
"""What is no record of the program's, or has no time that can be."""


def thrown(right: str, at: str = "2026-01-01T12:00:00Z") -> list[bytes]:
    """A right record before and after each odd one; `n` is even for those that are right."""
    found: list[bytes] = []
    odd = [f'{{"k": {text}, "n": -1, "at": "{at}"}}'.encode() for text in ODD]
    for number, each in enumerate([*odd, *BROKEN]):
        found += [f'{{"k": {right}, "n": {number}, "at": "{at}"}}'.encode(), each]
    return found


AGGREGATES = {
    "count": rr.count, "distinct": rr.distinct, "first": rr.first, "last": rr.last, "min": rr.min,
    "max": rr.max, "sum": rr.sum, "avg": rr.avg, "median": rr.median, "variance": rr.variance,
    "top": rr.top, "approx_distinct": rr.approx_distinct, "approx_top": rr.approx_top,
}  # fmt: skip


def aggregates_of(rows: rr.Stream) -> dict[str, Any]:
    """Those that take the type."""
    found = {}
    for name, made in AGGREGATES.items():
        with suppress(rr.ProgramError):
            rows.group_by("k", name=name).agg(v=made("v"))
            found[name] = made("v")
    return found


def operators(rows: rr.Stream, topic: str) -> dict[str, Any]:
    """What takes a value of any type: as it is, and in aggregates."""
    fixed = rows.with_columns(v="k", k="n % 2")
    days = rr.tumbling("1 day", timezone="America/New_York")
    by_day = fixed.group_by("k", name=f"{topic}-days").window(days, emit="changes")
    return {
        "passed": rows,
        "all": fixed.group_by("k", name=f"{topic}-all").agg(**aggregates_of(fixed)),
        "days": by_day.agg(**aggregates_of(fixed)),
        "rows": fixed.to_table("n", name=f"{topic}-rows"),
    }


def app_of(name: str, types: dict[str, str]) -> rr.App:
    """`types` by the topic that holds values of it. Those of the first are keys, too."""
    app = rr.App(name, pages=2)
    for number, (topic, type) in enumerate(types.items()):
        schema = f"k {type}, n bigint, at timestamp"
        rows = app.stream(topic, schema=schema, time="at", lateness="1 hour", max_ahead=None)
        made = operators(rows, topic)
        nested = type.endswith("]") or type.startswith(("struct", "map"))
        if number == 0 and not nested:
            made |= {f"by-{name}": each for name, each in by_key(rows).items()}
        for output, each in made.items():
            each.to(f"{topic}-{output}")
    return app


@pytest.mark.parametrize("type", RIGHT)
def test_every_record_is_a_row_or_a_dead_letter(type):
    driver = Driver(app_of("odd", {"t": type}))
    sent = thrown(RIGHT[type])
    half = len(sent) // 2
    for part in (sent[:half], sent[half:]):
        driver.send("t", *part)
        driver.batch()
    driver.end()
    passed = [line["value"] for line in driver.outputs["t-passed"]]
    right = [value["n"] for value in passed if value["n"] >= 0 and value["k"] is not None]
    assert set(range(len(sent) // 2)) <= set(right)
    assert len(passed) + len(driver.outputs["dead"]) == len(sent)
    for lines in driver.outputs.values():
        for line in lines:
            exact.dumps(line["value"], allow_nan=False)


PROGRAM = """
from test_odd_records import TYPES, app_of
app = app_of("thrown", TYPES)
texts = app.stream("thrown-long", schema="k string")
texts.select(twice="k || k", all="[{k: k, n: 1}]").to("thrown-long-out")
"""
TYPES = {
    "thrown-time": "timestamp",
    "thrown-whole": "bigint",
    "thrown-real": "double",
    "thrown-text": "varchar",
    "thrown-rows": "struct(a int, b double[])",
}


@pytest.mark.broker
@pytest.mark.spark
def test_no_record_stops_a_job_on_kafka(broker, tmp_path, monkeypatch, once):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    file, sent = tmp_path / "thrown.py", {}
    file.write_text(PROGRAM)
    for topic, type in TYPES.items():
        admin.create_topic(broker, topic, partitions=1)
        sent[topic] = [*thrown(RIGHT[type]), b"\xff" * 900_000]
        produce(broker, topic, sent[topic])
    admin.create_topic(broker, "thrown-long", partitions=1)
    long = [{"k": "x" * length} for length in (1, 600_000, 2, 250_000, 330_000, 3)]
    produce(broker, "thrown-long", long)
    once(file, "--max-events", "1000")
    letters = [json.loads(value or "{}") for _, value in records(broker, "thrown.dead")]
    dead = [letter["topic"] for letter in letters]
    # three times the text: some of it is more than a record may have
    fitting = [
        json.loads(value or "{}")["twice"] for _, value in records(broker, "thrown-long-out")
    ]
    assert sorted(map(len, fitting)) == [2, 4, 6, 500_000, 660_000]
    [cause] = [letter["cause"] for letter in letters if letter["topic"] == "thrown-long"]
    assert cause.startswith("its record has more than the ")
    for topic, given in sent.items():
        passed = [json.loads(value or "{}") for _, value in records(broker, f"{topic}-passed")]
        numbers = {row["n"] for row in passed if row["k"] is not None}
        assert set(range(len(given) // 2)) <= numbers, topic
        assert len(passed) + dead.count(topic) == len(given), topic
