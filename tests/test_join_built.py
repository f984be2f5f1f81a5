"""Joins and tables as they are built: every mistake at its own line, and keys of every form."""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest

import riverrun as rr

CLICKS = "user string, page string, n int, tags string[], at timestamp"


def clicks(app=None, topic="clicks"):
    return (app or rr.App("shop", pages=4)).stream(topic, schema=CLICKS, time="at")


def users(app=None, **options):
    app = app or rr.App("shop", pages=4)
    return app.table("users", schema="id string, country string", key="id", **options)


def rates(app=None):
    schema = "region string, day date, rate double"
    return (app or rr.App("shop", pages=4)).table("rates", schema=schema, key=["region", "day"])


def counted():
    return clicks(topic="views").group_by("user").agg(views=rr.count())


def raw(topic="clicks"):
    return rr.App("shop", pages=4).stream(
        topic, schema="raw map(string, int), at timestamp", time="at"
    )


def near(**options):
    """Two streams, which need a time and a prefix."""
    given = {"on": "user", "within": "1 minute", "prefix": "other_"} | options
    return clicks().join(clicks(topic="views"), **given)


def enriched(left=None, **options):
    return (left or clicks()).join(users(), **{"on": {"user": "id"}} | options)


def then(**options):
    return enriched(as_of="event time", **options)


table = rr.App("shop").table

MISTAKES = {
    # two sides
    "join needs a stream or a table": lambda: clicks().join("users", on="user"),
    "join needs a stream or a": lambda: users().join(None, on="id"),
    "a table cannot be joined with a stream": lambda: users().join(clicks(), on={"id": "user"}),
    # columns to join by
    "on names the columns to join by": lambda: enriched(on=[]),
    "on names the columns to join": lambda: enriched(on=None),
    "on names the columns to": lambda: enriched(on=[1]),
    "the left side of the join has no column 'usr'": lambda: enriched(on={"usr": "id"}),
    "the right side of the join has no column 'idd'": lambda: enriched(on={"user": "idd"}),
    "the right side of the join has no column 'user'": lambda: enriched(on="user"),
    "the columns of a join have different types": lambda: enriched(on={"n": "id"}),
    "the columns of a join have": lambda: near(on={"user": "at"}),
    "rows cannot be joined by 'raw', which is MAP(": lambda: raw().join(
        raw("views"), on="raw", within="1 minute", prefix="other_"
    ),
    "a stream is joined with a table by the": lambda: enriched(on={"user": "country"}),
    "a stream is joined with a table by": lambda: clicks().join(rates(), on={"user": "region"}),
    # how, and names
    "how is one of inner, left, right, full": lambda: near(how="outer"),
    "how is one of inner, left": lambda: enriched(how="right"),
    "how is one of inner": lambda: then(how="full"),
    "both sides of the join have a column 'page'": lambda: near(prefix=None),
    "both sides of the join have a column 'ID'": lambda: (
        clicks().with_columns(ID="n").join(users(), on={"user": "id"})
    ),
    "a prefix has letters, digits and _": lambda: near(prefix="other."),
    "a prefix has letters, digits": lambda: near(prefix="__"),
    "a step's name has letters": lambda: near(name="two words"),
    # time
    "a join of two streams needs a time": lambda: near(within=None),
    "within is both before and after": lambda: near(before="1 minute"),
    "a duration cannot be read": lambda: near(within=timedelta(seconds=-1)),
    "within, before, after, where and time are for": lambda: enriched(within="1 minute"),
    "within, before, after, where and time are": lambda: enriched(where="country = 'NO'"),
    "within, before, after, where": lambda: then(after="1 minute"),
    "time is one of later": lambda: near(time="middle"),
    "as_of, history and corrections are for a stream": lambda: near(as_of="latest"),
    "as_of, history and corrections are for": lambda: near(corrections=True),
    'as_of is one of "latest", "event time"': lambda: enriched(as_of="yesterday"),
    "only a join as of event time has corrections": lambda: enriched(corrections=True),
    "only a join as of event time has": lambda: enriched(as_of="latest", corrections=True),
    "a duration cannot be": lambda: then(history="long"),
    "only a table of a topic, or one made with to_table()": lambda: clicks().join(
        counted(), on="user", as_of="event time"
    ),
    "the name 'users_version' is taken": lambda: then(
        left=clicks().with_columns(users_version="n")
    ),
    "the name 'event' is taken": lambda: then(
        left=clicks().with_columns(event="n"), corrections=True
    ),
    # conditions and rows that fail
    "a condition must be true or false": lambda: near(where="n + other_n"),
    "there is no column 'm'": lambda: near(where="m > n"),
    'on_error is one of "set aside"': lambda: enriched(on_error="panic"),
    "this stream has no late rows": lambda: enriched().late,
    "this stream has no late": lambda: then().late_right,
    # tables of topics
    "a topic's name has letters": lambda: table("my table", schema="id int", key="id"),
    "the schema cannot be read": lambda: table("t", schema="id intt", key="id"),
    "a table needs a key": lambda: table("t", schema="id int", key=[]),
    "there is no column 'idd'": lambda: table("t", schema="id int", key="idd"),
    "the column 'id' is given twice": lambda: table("t", schema="id int", key=["id", "id"]),
    "'id' is MAP(VARCHAR, INTEGER), and cannot be a key": lambda: table(
        "t", schema="id map(string, int)", key="id"
    ),
    "the time column 'id' is": lambda: table("t", schema="id int", key="id", time="id"),
    "on_loss is one of": lambda: table("t", schema="id int", key="id", on_loss="cry"),
    "on_error is one of": lambda: table("t", schema="id int", key="id", on_error="cry"),
    "a duration cannot": lambda: table("t", schema="id int", key="id", idle="long"),
    # tables of streams
    "a table needs a": lambda: clicks().to_table(),
    "there is no column 'id'": lambda: clicks().to_table("id"),
    "the column 'user' is given twice": lambda: clicks().to_table("user", "user"),
    "a condition must be true or": lambda: clicks().to_table("user", delete="n"),
    "there is no column 'gone'": lambda: clicks().to_table("user", delete="gone"),
    "a step's name has": lambda: clicks().to_table("user", name="two words"),
    "on_error is one": lambda: clicks().to_table("user", on_error="cry"),
    # rankings and changes
    "only the rows of a table can be ranked": lambda: clicks().group_by("user").top(3, by="n"),
    "a ranking has at least one place": lambda: counted().group_by("views").top(0, by="user"),
    "there is no column 'm2'": lambda: counted().group_by("views").top(1, by="m2"),
    "the name 'user' is taken": lambda: counted().group_by("views").top(1, by="user", place="user"),
    "rows are ranked by a value that can be ordered": lambda: (
        clicks().to_table("user").group_by("page").bottom(1, by="tags")
    ),
    "the name 'op' is taken": lambda: users().with_columns(op="1").changes(),
    "a step's name": lambda: users().changes(name="two words"),
    "a table keeps its key columns, 'id' is one": lambda: users().with_columns(id="upper(id)"),
}


@pytest.mark.parametrize("fact", MISTAKES)
def test_a_mistake_is_an_error_at_its_own_line(fact):
    with pytest.raises(rr.ProgramError) as caught:
        MISTAKES[fact]()
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.file == __file__


def test_an_error_of_a_join_names_the_line_of_the_join():
    with pytest.raises(rr.ProgramError) as caught:
        clicks().join(users(), on={"usr": "id"})
    assert caught.value.where.line == inspect.currentframe().f_lineno - 1
    assert caught.value.hint == "did you mean 'user'? columns: user, page, n, tags, at"


HINTS = {
    "cast one, e.g. the left: .with_columns(n='cast(\"n\" as varchar)')": lambda: enriched(
        on={"n": "id"}
    ),
    'rename it with .select(…), or give the right side\'s a prefix="…"': lambda: near(prefix=None),
    "put the stream first: stream.join(table, …)": lambda: users().join(clicks(), on="id"),
    "rows of the table without an event are no events: join two tables for that": lambda: enriched(
        how="full"
    ),
}


@pytest.mark.parametrize("hint", HINTS)
def test_a_mistake_says_what_to_do(hint):
    with pytest.raises(rr.ProgramError) as caught:
        HINTS[hint]()
    assert caught.value.hint == hint


def test_no_time_at_all_apart_is_a_time():
    assert (
        near(within=timedelta(0)).node.does.before == near(within="0 seconds").node.does.after == 0
    )


def test_joins_of_the_same_two_need_names():
    app = rr.App("shop")
    stream, people = clicks(app), users(app)
    stream.join(people, on={"user": "id"}).to("a")
    stream.join(people, on={"user": "id"}, how="left").to("b")
    with pytest.raises(rr.ProgramError, match="two steps are called 'clicks_join_users'"):
        app.program()


def test_a_topic_is_a_stream_or_a_table_and_declared_once():
    app = rr.App("shop")
    clicks(app, "users").join(users(app), on={"user": "id"}).to("a")
    with pytest.raises(rr.ProgramError, match="the topic 'users' is read twice"):
        app.program()


def test_late_rows_cannot_be_joined_in_time_again():
    app = rr.App("shop")
    late = clicks(app).deduplicate("page", within="1 hour").late
    late.join(clicks(app, "views").select("user"), on="user", within="1 s", name="again").to("a")
    with pytest.raises(rr.ProgramError, match="the step 'again' is fed with late rows"):
        app.program()


@pytest.mark.parametrize(
    ("how", "key"),
    [("inner", ("id",)), ("left", ("id",)), ("right", ("id", "name")), ("full", ("id", "name"))],
)
def test_the_key_of_joined_tables_tells_their_rows_apart(how, key):
    app = rr.App("shop")
    orders = app.table("orders", schema="id int, user string", key="id")
    people = app.table("people", schema="name string, age int", key="name")
    assert orders.join(people, on={"user": "name"}, how=how).key == key
    other = {"right": ("id",), "inner": ("id",)}.get(how, ("name", "id"))
    assert people.join(orders, on={"name": "user"}, how=how).key == other


def test_columns_that_are_joined_by_are_one_column_if_they_have_one_name():
    app = rr.App("shop")
    left = app.stream("l", schema="k int, v int")
    right = app.stream("r", schema="k bigint, v int")
    joined = left.join(right, on="k", within="1 s", prefix="right_")
    assert joined.columns == ("k", "v", "right_v")
    assert joined.node.schema.type_of("k") == "BIGINT"
    renamed = left.join(right, on={"v": "k"}, within="1 s", prefix="right_")
    assert renamed.columns == ("k", "v", "right_k", "right_v")
