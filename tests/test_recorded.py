"""What real Debezium wrote of tables with every type is read as it is meant, without a JVM."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

import every_type
import riverrun as rr
from riverrun.formats import FORMATS
from riverrun.schema import parse
from riverrun.testing import Driver

AT, CLOCK = datetime(2026, 1, 31, 12, 34, 56, 789012), time(12, 34, 56, 789012)
WORDS = 'ä "quoted" \\ and\nlines'
"""Column, riverrun's type, what is read."""
POSTGRESQL = {
    "small": ("smallint", -12),
    "whole": ("integer", 7),
    "big": ("bigint", 9007199254740993),
    "single_": ("float", 1.5),
    "double_": ("double", 0.1),
    "price": ("decimal(12,4)", Decimal("1234.5678")),
    "any_number": ("decimal(38,9)", Decimal("12345678901234567890.123456789")),
    "yes": ("boolean", True),
    "words": ("string", WORDS),
    "short": ("string", "abc"),
    "padded": ("string", "ab   "),
    "raw": ("string", "3q2+7wA="),
    "day": ("date", date(2026, 1, 31)),
    "clock": ("time", CLOCK),
    "clock_there": ("time", time(10, 34, 56, 789012)),
    "at": ("timestamp", AT),
    "at_there": ("timestamp", AT.replace(hour=10)),
    "years_ago": ("timestamp", datetime(44, 3, 15, 12)),
    "span": ("string", "P1Y2M3DT4H5M6.7S"),
    "doc": ("json", '{"a": [1, 2.50, null]}'),
    "binary_doc": ("json", '{"b": {"c": "d"}}'),
    "id_there": ("string", "0b7f0b48-2c3f-4a53-9a53-3c6f2f1b7e11"),
    "mood": ("string", "so so"),
    "wholes": ("integer[]", [1, None, 3]),
    "texts": ("string[]", ["a", "b, c", None]),
    "prices": ("decimal(9,2)[]", [Decimal("1.10"), Decimal("2.25")]),
    "times": ("timestamp[]", [datetime(2026, 1, 31, 12)]),
    "address": ("string", "192.168.0.1/24"),
    "network": ("string", "10.0.0.0/8"),
    "card": ("string", "08:00:2b:01:02:03"),
    "one_bit": ("boolean", True),
    "range_": ("string", "[1,10)"),
    "cash": ("decimal(12,2)", Decimal("12.34")),
    "positive": ("integer", 5),
}
MARIADB = {
    "tiny": ("smallint", -12),
    "flag": ("smallint", 1),
    "small": ("integer", 65535),
    "medium": ("integer", -8388608),
    "whole": ("integer", 7),
    "large": ("bigint", 4294967295),
    "big": ("bigint", 9007199254740993),
    "single_": ("double", 1.5),
    "double_": ("double", 0.1),
    "price": ("decimal(12,4)", Decimal("1234.5678")),
    "words": ("string", WORDS),
    "short": ("string", "abc"),
    "padded": ("string", "ab"),
    "raw": ("string", "3q2+7wA="),
    "fixed": ("string", "AQIDBA=="),
    "day": ("date", date(2026, 1, 31)),
    "clock": ("time", CLOCK),
    "at": ("timestamp", AT),
    "second": ("timestamp", AT.replace(microsecond=0)),
    "at_there": ("timestamp", AT),
    "born": ("integer", 1999),
    "doc": ("json", '{"a": [1, 2.50, null]}'),
    "mood": ("string", "so so"),
    "moods": ("string", "a,c"),
    "one_bit": ("boolean", True),
    "bits": ("string", "pQ=="),
}
EXPECTED = {"postgresql": POSTGRESQL, "mariadb": MARIADB}


def schema_of(kind: str) -> str:
    return "id bigint, " + ", ".join(f"{name} {type}" for name, (type, _) in EXPECTED[kind].items())


@pytest.mark.parametrize("schema", [False, True], ids=["plain", "with its schema"])
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_every_type_is_read_as_it_is_meant(kind, schema):
    sent = [each for each in every_type.recorded(kind, schema=schema) if each["value"]]
    values = pa.array([each["value"] for each in sent], pa.string()).cast(pa.binary())
    keys = pa.array([each["key"] for each in sent], pa.string()).cast(pa.binary())
    lot = pa.table({"__value": values, "__key": keys})
    found = FORMATS["debezium"].read(lot, parse(schema_of(kind)))
    assert not any(found["__cause"].to_pylist()), found["__cause"].to_pylist()
    filled, empty, updated, _ = found.drop_columns(["__cause"]).to_pylist()
    wanted = {"id": 1, **{name: value for name, (_, value) in EXPECTED[kind].items()}}
    assert filled == wanted
    assert empty == {"id": 2, **dict.fromkeys(EXPECTED[kind])}
    assert updated == {**wanted, "whole": 8}


@pytest.mark.parametrize("schema", [False, True], ids=["plain", "with its schema"])
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_snapshot_update_delete_and_tombstone_make_the_table(kind, schema):
    app = rr.App("copy", pages=2)
    columns = "id bigint, whole integer, _operation string"
    app.table("every", schema=columns, key="id", format="debezium").to("copy")
    driver = Driver(app)
    for each in every_type.recorded(kind, schema=schema):
        driver.send("every", each["value"], key=each["key"])
    driver.batch()
    assert not driver.outputs["dead"]
    [*_, last] = driver.outputs["copy"]
    kept = {line["key"]: line["value"]["whole"] for line in driver.outputs["copy"]}
    assert kept[1] == 8
    assert last["key"] in (1, 2)
    ops = [json.loads(each["value"]) for each in every_type.recorded(kind) if each["value"]]
    assert [each["op"] for each in ops] == ["r", "r", "u", "d"]
