"""What a table knows of its records, and what its key is called."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.errors import ProgramError
from riverrun.testing import Driver

USERS = """
    _timestamp | _partition | id  | city
    10:00      | 1          | ann | rome
    11:00      | 1          | ann | oslo
    ------
    12:00      | 1          | ann | oslo
"""
RECORD = ["_partition", "_offset", "_timestamp"]


def users_of(app: rr.App, **options) -> rr.Table:
    return app.table("users", schema="id string, city string", key="id", **options)


def test_what_kafka_knows_of_a_tables_record_is_a_column_where_the_program_asks_for_it():
    app = rr.App("shop")
    users_of(app, record=RECORD).select("id", "city", "_offset", seen="_timestamp").to("out")
    driver = Driver(app)
    driver.run(users=USERS).assert_is("""
        +- | id  | city | _offset | seen
        +  | ann | oslo | 1       | 2026-01-01T11:00:00Z
        -  | ann | oslo | 1       | 2026-01-01T11:00:00Z
        +  | ann | oslo | 2       | 2026-01-01T12:00:00Z
    """)
    driver.send("users", None, key="ann", partition=1)
    driver.batch().assert_is("+- | id | _offset\n - | ann | 2")


def test_a_record_that_says_what_is_there_changes_nothing_unless_it_is_asked_for():
    app = rr.App("shop")
    users_of(app).to("out")
    assert len(Driver(app).run(users=USERS)) == 1


@pytest.mark.parametrize(
    "options", [{}, {"as_of": "event time"}, {"how": "left"}], ids=["latest", "then", "left"]
)
def test_a_join_of_a_stream_tells_which_record_of_the_table_it_met(options):
    app = rr.App("shop")
    views = app.stream("views", schema="id string")
    users = users_of(app, record=RECORD)
    met = users.select("id", version="_partition || '/' || _offset")
    views.join(met, on="id", **options).to("out")
    driver = Driver(app)
    driver.run(users=USERS)
    lines = driver.run(views="_timestamp | id\n13:00 | ann") + driver.pass_time("1 minute")
    assert [line["value"]["version"] for line in lines] == ["1/2"]


def test_a_join_of_two_tables_tells_the_records_that_it_met():
    app = rr.App("shop")
    people = app.table("people", schema="id string", key="id", record="_offset")
    users = users_of(app, record="_offset")
    people.join(users, on="id", prefix="user_").to("out")
    driver = Driver(app)
    driver.run(people="id\nann", users=USERS)
    [row] = driver.table("out")
    assert (row["_offset"], row["user__offset"]) == (0, 2)


def test_what_kafka_does_not_know_cannot_be_asked_for():
    with pytest.raises(ProgramError, match="what Kafka knows of a record"):
        users_of(rr.App("shop"), record="_age")


def test_the_key_of_a_table_can_be_renamed():
    app = rr.App("shop")
    users = users_of(app).select("id as user", "city")
    assert users.key == ("user",)
    users.to("copy")
    views = app.stream("views", schema="user string")
    views.join(users, on="user", how="left").to("seen")
    views.join(users, on="user", as_of="event time", how="left", name="then").to("then")
    driver = Driver(app)
    driver.run(users=USERS).of("copy").assert_is("+- | user | city\n + | ann | oslo")
    driver.send("users", None, key="ann")
    driver.batch().of("copy").assert_is("+- | user | city\n - | ann | oslo")
    driver.run(views="_timestamp | user\n13:00 | ann").of("seen").assert_is("user | city\nann |")


def test_a_key_that_is_renamed_is_the_key_of_what_is_written():
    app = rr.App("shop")
    users_of(app).select("id as user", "city").where("city = 'oslo'").to("copy")
    [line] = Driver(app).run(users=USERS)
    assert line["key"] == "ann"


def test_a_table_without_its_key_is_refused():
    users = users_of(rr.App("shop"))
    with pytest.raises(ProgramError, match="keeps its key columns, 'id' is one"):
        users.select("city")
    with pytest.raises(ProgramError, match="keeps its key columns, 'id' is one"):
        users.select("id as user", "city as id")


def test_a_stream_can_be_written_without_a_key():
    app = rr.App("shop")
    views = app.stream("views", schema="user string, page string", key="user")
    views.to("keyed")
    views.key_by().to("free")
    lines = Driver(app).run(views="user | page\nann | /a")
    assert {line["output"]: line["key"] for line in lines} == {"keyed": "ann", "free": None}


def test_rows_are_grouped_by_structs():
    app = rr.App("shop")
    views = app.stream("views", schema="at struct(x bigint, y bigint)")
    views.group_by("at", name="places").agg(n=rr.count()).to("out")
    driver = Driver(app)
    for x, y in ((1, 2), (1, 2), (2, 1)):
        driver.send("views", {"at": {"x": x, "y": y}})
    driver.batch()
    found = {(row["at"]["x"], row["at"]["y"]): row["n"] for row in driver.table("out")}
    assert found == {(1, 2): 2, (2, 1): 1}


def test_structs_and_lists_are_keys_of_tables():
    app = rr.App("shop")
    views = app.stream("views", schema="place struct(x bigint, y bigint), tags string[], n bigint")
    views.to_table("place", name="last").to("last")
    views.deduplicate("place", within="1 hour", name="once").to("once")
    views.to_table("tags", name="tagged").to("tagged")
    driver = Driver(app)
    for n in (1, 2):
        driver.send("views", {"place": {"x": 1, "y": None}, "tags": ["a", "b"], "n": n})
    driver.batch()
    assert [row["n"] for row in driver.table("last")] == [2]
    assert len(driver.outputs["once"]) == 1
    assert [row["n"] for row in driver.table("tagged")] == [2]
