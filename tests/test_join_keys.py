"""Keys of tables and joins: null, garbled, of several columns; self-joins; conditions that fail."""

from __future__ import annotations

import json

import pytest

import riverrun as rr
from riverrun.testing import Driver


def kept(schema: str, key: str | list[str]) -> Driver:
    app = rr.App("shop", pages=4)
    app.table("t", schema=schema, key=key).to("out")
    return Driver(app)


def test_a_record_of_a_table_without_a_key_is_a_dead_letter():
    driver = kept("id string, v string", "id")
    driver.send("t", {"v": "a"})
    driver.send("t", {"id": None, "v": "b"})
    driver.send("t", None)
    driver.send("t", {"v": "c"}, key="k")  # the record's own key will do
    out = driver.batch()
    out.of("dead").assert_is("""
        offset | step   | cause                 | key
        0      | decode | no key: id is missing |
        1      | decode | no key: id is missing |
        2      | decode | no key: id is missing |
    """)
    out.of("out").assert_is("""
        +- | id | v
        +  | k  | c
    """)


@pytest.mark.parametrize("value", [b"\xff\xfe", b"", "no JSON", "[1]", '{"id": "k", "v": []}'])
def test_a_garbled_value_is_a_dead_letter_and_deletes_nothing(value):
    driver = kept("id string, v int", "id")
    driver.send("t", {"id": "k", "v": 1}, key="k")
    driver.batch()
    driver.send("t", value, key="k")
    assert [line["output"] for line in driver.batch()] == ["dead"]
    assert driver.table("out") == [{"id": "k", "v": 1}]


KEYS = {
    "id string": ({"id": "a"}, "a"),
    "id bigint": ({"id": 5}, "5"),
    "id boolean": ({"id": True}, "true"),
    "id date": ({"id": "2026-01-01"}, '"2026-01-01"'),
    "id timestamp": ({"id": "2026-01-01T12:00:00Z"}, '"2026-01-01T12:00:00Z"'),
    "id uuid": (
        {"id": "550e8400-e29b-41d4-a716-446655440000"},
        '"550e8400-e29b-41d4-a716-446655440000"',
    ),
    '"it\'s" int': ({"it's": 5}, "5"),
    "id string, n int": ({"id": "a", "n": 5}, '{"id":"a","n":5}'),
}


@pytest.mark.parametrize("columns", KEYS)
def test_a_record_without_a_value_deletes_the_row_of_its_key(columns):
    fields, key = KEYS[columns]
    driver = kept(f"{columns}, v int", list(fields))
    driver.send("t", {**fields, "v": 1}, key=key)
    assert [line["op"] for line in driver.batch()] == ["+"]
    driver.send("t", None, key=key)
    assert [line["op"] for line in driver.batch()] == ["-"]
    assert driver.table("out") == []


def test_the_key_of_a_tombstone_is_as_riverrun_writes_it():
    app = rr.App("shop", pages=4)
    rows = app.stream("s", schema="id string, n int")
    rows.group_by("n").agg(c=rr.count()).to("numbers")
    rows.group_by("id", "n").agg(c=rr.count()).to("pairs")
    out = Driver(app).run(s="id | n\n a | 5")
    written = {line["output"]: json.dumps(line["key"], separators=(",", ":")) for line in out}
    assert written == {"numbers": KEYS["id bigint"][1], "pairs": KEYS["id string, n int"][1]}


@pytest.mark.parametrize(
    ("key", "cause"),
    [
        ("many", "no key: id is missing"),
        ('{"n":1}', "no key: id is missing"),
        ('{"id":"a"}', "no key: n is missing"),
    ],
)
def test_a_tombstone_whose_key_cannot_be_read_is_a_dead_letter(key, cause):
    driver = kept("id string, n int, v int", ["id", "n"])
    driver.send("t", None, key=key)
    driver.batch().assert_is(f"output | cause\n dead | {cause}")


def test_a_row_of_a_stream_without_a_key_cannot_be_in_a_table():
    app = rr.App("shop", pages=4)
    rows = app.stream("s", schema="id string, v int, gone boolean, at timestamp", time="at")
    rows.to_table("id", delete="gone").to("out")
    out = Driver(app).run(
        s="""
        at    | id | v | gone
        12:00 |    | 1 |
        12:00 | a  | 1 |
        ----
        12:02 | a  | 3 |
        12:01 | a  | 2 |         # not the latest
        ----
        12:01 | a  | 9 |         # older than what is there
        ----
        12:03 | a  |   | true
        ----
        12:02 | a  | 5 |         # from before it was deleted
        ----
        12:04 | a  | 6 |
    """
    )
    out.of("dead").assert_is("""
        offset | cause
        0      | Invalid Input Error: no key: id is null
    """)
    out.of("out").assert_is("""
        +- | id | v | revision
        +  | a  | 1 | 0
        -  | a  | 1 | 0
        +  | a  | 3 | 1
        -  | a  | 3 | 1
        +  | a  | 6 | 2
    """)


def sides(app: rr.App) -> tuple[rr.Stream, rr.Stream]:
    left = app.stream("left", schema="k string, v string, at timestamp", time="at")
    right = app.stream("right", schema="k string, w string, at timestamp", time="at")
    return left, right.select("k", "w")


def test_null_is_like_no_other_key():
    app = rr.App("shop", pages=4)
    left, right = sides(app)
    left.join(right, on="k", within="1 minute", how="full").to("out")
    driver = Driver(app)
    assert driver.run(left="at | k | v\n 12:00 | | 1", right="at | k | w\n 12:00 | | 2") == []
    driver.end().assert_is("""
        k | v | w
          | 1 |
          |   | 2
    """)


def test_null_is_no_key_of_a_table():
    app = rr.App("shop", pages=4)
    left, _ = sides(app)
    right = app.table("t", schema="id string, w string", key="id")
    left.join(right, on={"k": "id"}, how="left").to("all")
    left.join(right, on={"k": "id"}, name="found").to("found")
    Driver(app).run(left="at | k | v\n 12:00 | | 1", t="id | w\n a | 2").assert_is("""
        output | k | v | w
        all    |   | 1 |
    """)


def test_a_pair_that_the_condition_fails_on_is_set_aside_and_others_go_on():
    app = rr.App("shop", pages=4)
    left, right = sides(app)
    condition = "cast(v as int) < cast(w as int)"
    left.join(right, on="k", within="1 minute", how="left", where=condition).to("out")
    driver = Driver(app)
    out = driver.run(
        left="""
            at    | k | v
            12:00 | a | 1
            12:00 | a | one
            12:00 | a | 3
        """,
        right="""
            at    | k | w
            12:00 | a | 2
            12:00 | a | 0
        """,
    )
    out.of("out").assert_is("k | v | w\n a | 1 | 2")
    letters = out.of("dead")
    assert [(line["value"]["topic"], line["value"]["offset"]) for line in letters] == [("left", 1)]
    assert letters[0]["value"]["cause"].startswith("Conversion Error: Could not convert string")
    assert json.loads(letters[0]["value"]["row"])["v"] == "one"
    driver.end().assert_is("""
        k | v   | w
        a | one |
        a | 3   |
    """)


def test_a_stream_is_joined_with_itself():
    app = rr.App("shop", pages=4)
    left, _ = sides(app)
    left.join(left, on="k", within="1 minute", prefix="next_", where='"at" < next_at').to("out")
    Driver(app).run(
        left="""
        at       | k | v
        12:00    | a | 1
        12:00:30 | a | 2
        ----
        12:01    | a | 3
        12:01    | b | 4
        ----
        12:01:31 | a | 5
    """
    ).of("out").assert_is("""
        k | v | next_v | next_at
        a | 1 | 2      | 12:00:30
        a | 1 | 3      | 12:01
        a | 2 | 3      | 12:01
        a | 3 | 5      | 12:01:31
    """)


def test_a_table_is_joined_with_itself():
    app = rr.App("shop", pages=4)
    people = app.table("people", schema="id string, boss string, name string", key="id")
    bosses = people.select("id", boss_name="name")
    people.join(bosses, on={"boss": "id"}, how="left", prefix="its_").select(
        "id", "name", boss="its_boss_name"
    ).to("out")
    driver = Driver(app)
    driver.run(
        people="""
        id | boss | name
        a  |      | Ann
        b  | a    | Bob
    """
    ).assert_is("""
        +- | id | name | boss
        +  | a  | Ann  |
        +  | b  | Bob  | Ann
    """)
    driver.send("people", None, key="a")
    driver.batch().assert_is("""
        +- | id | name | boss
        -  | a  | Ann  |
        -  | b  | Bob  | Ann
        +  | b  | Bob  |
    """)


def test_several_columns_with_other_names_and_widths_within_bounds_on_either_side():
    app = rr.App("shop", pages=4)
    left = app.stream("left", schema="k string, n int, at timestamp", time="at")
    right = app.stream("right", schema="k string, m bigint, w string, at timestamp", time="at")
    on = {"k": "k", "n": "m"}
    joined = left.join(right.select("k", "m", "w"), on=on, before="10 seconds", after="20 seconds")
    joined.to("out")
    Driver(app).run(
        left="""
            at       | k | n
            12:00:30 | a | 1
            12:00:30 | a | 2
        """,
        right="""
            at       | k | m | w
            12:00:19 | a | 1 | too early
            12:00:20 | a | 1 | first
            12:00:50 | a | 1 | last
            12:00:51 | a | 1 | too late
            12:00:30 | b | 1 | another k
            12:00:30 | a | 2 | two
        """,
    ).assert_is("""
        k | n | m | w
        a | 1 | 1 | first
        a | 2 | 2 | two
        a | 1 | 1 | last
    """)
