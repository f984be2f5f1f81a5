"""Lookups in PostgreSQL: values and keys of every type."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.testing import Driver
from test_lookup import Base

TYPES = {
    "postgresql": """
        flag boolean, small smallint, whole integer, big bigint, real real,
        precise double precision,
        money numeric(10, 2), free numeric, words text, code char(5), day date, hour time,
        moment timestamptz, naive timestamp, id uuid, raw bytea, doc jsonb, list integer[],
        texts text[], mood mood
    """,
    "values": """
        true, -7, 2147483647, 9007199254740993, 0.1, 0.1, 12345678.91, 1.10, 'a "b" '',', 'ab',
        '0044-03-15 BC', '23:59:59.123456', '2026-03-29 03:30:00+02', '2026-03-29 03:30:00',
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x00ff', '{"a": [1, null]}', '{1,NULL,3}',
        '{"x,y",""}', 'glad'
    """,
}


def test_every_type_of_postgresql_is_read_as_it_is(postgres):
    base = Base(postgres)
    base.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        f"CREATE TABLE kinds (key text PRIMARY KEY, {TYPES['postgresql']})",
        f"INSERT INTO kinds VALUES ('a', {TYPES['values']})",
        "INSERT INTO kinds VALUES ('nothing')",
    )
    app = rr.App("shop")
    stream = app.stream("keys", schema="key string")
    german = f"{postgres}%20-cDateStyle%3DGerman%20-cTimeZone%3DAsia/Tokyo"
    stream.lookup(german, table="kinds", on="key").to("out")
    found = Driver(app).run(keys="key\na\nnothing")
    assert not found.of("dead")
    first, second = (line["value"] for line in found)
    assert first == {
        "key": "a", "flag": True, "small": -7, "whole": 2147483647, "big": 9007199254740993,
        "real": 0.10000000149011612, "precise": 0.1, "money": 12345678.91, "free": "1.10",
        "words": "a \"b\" ',",
        "code": "ab", "day": "0044-03-15 (BC)", "hour": "23:59:59.123456",
        "moment": "2026-03-29T01:30:00Z", "naive": "2026-03-29T03:30:00Z",
        "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "raw": "\\x00\\xFF",
        "doc": '{"a": [1, null]}', "list": [1, None, 3], "texts": ["x,y", ""], "mood": "glad",
    }  # fmt: skip
    assert set(second.values()) == {"nothing", None}


@pytest.mark.parametrize(
    ("type", "column", "values"),
    [
        ("bigint", "smallint", ["1", "70000", "-1"]),
        ("string", "character varying(10)", ["1", "x", "''", '"a\'b\\\\u0000"']),
        ("string", "char(4)", ["1", "ab"]),
        ("uuid", "uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        ("date", "date", ["2026-01-01"]),
        ("timestamp", "timestamptz", ["2026-01-01T12:00:00.5Z"]),
        ("decimal(9,2)", "numeric", ["1.5", "2"]),
        ("boolean", "boolean", ["true"]),
    ],
)
def test_keys_of_every_kind_find_their_row(postgres, type, column, values):
    Base(postgres).run(
        f"CREATE TABLE kinds (key {column}, own text)",
        *(
            f"INSERT INTO kinds VALUES ('{value}', 'row {number}')"
            for number, value in enumerate(values)
            if "'" not in value and value != "70000"
        ),
    )
    app = rr.App("shop")
    stream = app.stream("keys", schema=f"key {type}")
    stream.lookup(postgres, table="kinds", on="key").to("out")
    drawn = [value.replace("''", '""') for value in values]
    found = Driver(app).run(keys="\n".join(["key", *drawn]))
    own = [line["value"]["own"] for line in found.of("out")]
    expected = [
        None if "'" in value or value == "70000" else f"row {number}"
        for number, value in enumerate(values)
    ]
    assert own == expected, found
