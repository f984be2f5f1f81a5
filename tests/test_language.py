"""The language: every mistake is found when the program is built, at the user's own line."""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest

import riverrun as rr


def views(app=None):
    return (app or rr.App("shop")).stream(
        "views",
        schema="user string, page string, ms bigint, tags string[], at timestamp",
        key="user",
        time="at",
    )


def per_page(name=None, app=None):
    grouped = views(app).group_by("page", name=name).window(rr.tumbling("1 minute"))
    return grouped.agg(n=rr.count())


read = rr.App("shop").stream


def pages():
    return views().group_by("page")


def in_hours():
    return pages().window(rr.tumbling("1 hour"))


SLIDING = rr.sliding("1 minute")


def compared(period, agg=None):
    return rr.compared_to(period, agg or rr.count())


MISTAKES = {
    # sources
    "an application's name starts": lambda: rr.App("2 shops"),
    "pages is a number": lambda: rr.App("shop", pages=0),
    "the schema cannot be read": lambda: read("t", schema="page strin"),
    "the column name '__page' is reserved": lambda: read("t", schema="__page string"),
    "the column name '_key' is reserved": lambda: read("t", schema="_key string"),
    "there is no column 'usr'": lambda: read("t", schema="page string", key="usr"),
    "there is no column 'when'": lambda: read("t", schema="page string", time="when"),
    "the time column 'page' is": lambda: read("t", schema="page string", time="page"),
    # durations
    "a duration cannot be read": lambda: read("t", schema="page string", lateness="5 parsecs"),
    "a window needs a size above zero": lambda: rr.tumbling("0 seconds"),
    # expressions
    "there is no column 'pgae'": lambda: views().where("pgae = '/a'"),
    "an expression cannot be evaluated": lambda: views().where("page ="),
    "sum() cannot be used": lambda: views().where("sum(ms) > 1"),
    "now() cannot be used": lambda: views().where('now() > "at"'),
    "random() cannot be used": lambda: views().select(r="random()"),
    "current_date cannot be used": lambda: views().select(d="current_date"),
    "a subquery cannot be used": lambda: views().select(x="(select 1)"),
    "row_number() cannot be used": lambda: views().select(x="row_number() over ()"),
    "unnest() cannot be used": lambda: views().select(x="unnest(tags)"),
    "an expression is more than one": lambda: views().select(x="1); drop table y; select (1"),
    "an expression gives more than one": lambda: views().select(x="1, 2"),
    "a condition must be true or false": lambda: views().where("ms + 1"),
    # columns
    "select needs at least one": lambda: views().select(),
    "with_columns needs at least": lambda: views().with_columns(),
    "a computed column needs a name": lambda: views().select("ms + 1"),
    "the column 'page' is given twice": lambda: views().select("page", page="ms"),
    "the column name '__x' is reserved": lambda: views().select(__x="ms"),
    "explode needs a list, 'page' is VARCHAR": lambda: views().explode("page"),
    "there is no column 'tag'": lambda: views().explode("tag"),
    "a union needs the same columns": lambda: views().union(views().select("page")),
    "there is no column 'country'": lambda: views().key_by("country"),
    # aggregates
    "group_by needs at least one": lambda: views().group_by(),
    "there is no column 'city'": lambda: views().group_by("city"),
    "a step's name has letters": lambda: views().group_by("page", name="per page"),
    "emit is one of": lambda: views().group_by("page").window(rr.tumbling("1 s"), emit="often"),
    "agg needs at least one": lambda: views().group_by("page").agg(),
    "'n' is not an aggregate": lambda: views().group_by("page").agg(n="count"),
    "sum needs a number": lambda: views().group_by("page").agg(n=rr.sum("user")),
    "avg needs a number": lambda: views().group_by("page").agg(n=rr.avg("at")),
    "max needs a value that can be": lambda: views().group_by("page").agg(n=rr.max("tags")),
    "variance needs a number": lambda: views().group_by("page").agg(n=rr.variance("user")),
    "percentile needs a number": lambda: views().group_by("page").agg(n=rr.median("at")),
    "a percentile is a number from 0 to 1": lambda: rr.percentile("ms", 95),
    "a percentile is a number from 0": lambda: rr.approx_percentile("ms", ["0.5"]),
    "a percentile is a number": lambda: rr.percentile("ms", []),
    "distinct needs a value that can": lambda: views().group_by("page").agg(n=rr.distinct("tags")),
    "top needs a value that can be": lambda: views().group_by("page").agg(n=rr.top("tags")),
    "k is a whole number from 1": lambda: rr.top("page", k=0),
    "k is a whole number": lambda: rr.approx_top("page", k="many"),
    "a weight is a number": lambda: views().group_by("page").agg(n=rr.top("page", weight="user")),
    "rate needs a window": lambda: views().group_by("page").agg(n=rr.rate()),
    "approx_counts needs the values": lambda: rr.approx_counts("page", of="/a"),
    "approx_counts needs text": lambda: pages().agg(n=rr.approx_counts("at", of=["x"])),
    "a value to count is not a VARCHAR": lambda: pages().agg(n=rr.approx_counts("page", of=[1])),
    "there is no column 'mss'": lambda: views().group_by("page").agg(n=rr.sum("mss + 1")),
    "the name 'page' is taken": lambda: views().group_by("page").agg(page=rr.count()),
    "the name '__n' is taken": lambda: views().group_by("page").agg(__n=rr.count()),
    # windows
    "a hop needs a size above zero": lambda: rr.hopping("1 minute", "0 seconds"),
    "a gap needs a size above zero": lambda: rr.session("0 seconds"),
    "a window needs a size above": lambda: rr.sliding(timedelta(0)),
    "a hop is at most the size": lambda: rr.hopping("1 minute", "2 minutes"),
    "with a time zone windows are": lambda: rr.tumbling("1 hour", timezone="Europe/Berlin"),
    "with a time zone windows": lambda: rr.hopping("36 hours", "1 day", timezone="UTC"),
    "with a time zone the offset is": lambda: rr.tumbling("1 day", offset="1 h", timezone="UTC"),
    "there is no such time zone": lambda: rr.tumbling("1 day", timezone="Europe/Atlantis"),
    "window() needs a window": lambda: pages().window("1 minute"),
    "late_alert is a share": lambda: pages().window(rr.tumbling("1 s"), late_alert=1),
    "the name 'window_end' is taken": lambda: in_hours().agg(window_end=rr.count()),
    "the name 'event' is taken": lambda: pages().window(SLIDING).agg(event=rr.count()),
    # comparisons
    "compared_to needs an aggregate": lambda: rr.compared_to("1 day", "n"),
    "an aggregate is compared once": lambda: rr.compared_to("1 h", compared("2 h")),
    "a period to compare with is above": lambda: rr.compared_to("0 days", rr.count()),
    "only tumbling and hopping": lambda: pages().window(SLIDING).agg(n=compared("1 h")),
    "only tumbling and": lambda: pages().agg(n=compared("1 h")),
    "'n' is compared with a moment at": lambda: in_hours().agg(n=compared("90 minutes")),
    "'n' cannot be compared: it is no": lambda: in_hours().agg(n=compared("1 h", rr.max("user"))),
    "the name 'n_ratio' is taken": lambda: in_hours().agg(n=compared("1 h"), n_ratio=rr.count()),
    # deduplicate and mark_seen
    "deduplicate needs at least one": lambda: views().deduplicate(within="1 hour"),
    "deduplicate needs a period above": lambda: views().deduplicate("page", within="0 s"),
    "there is no column 'id'": lambda: views().deduplicate("id", within="1 hour"),
    "a step's name has": lambda: views().deduplicate("page", within="1 h", name="a b"),
    "this stream has no late rows": lambda: views().late,
    "mark_seen needs at least one": lambda: views().mark_seen(),
    "mark_seen needs a capacity": lambda: views().mark_seen("page", capacity=0),
    "mark_seen needs a": lambda: views().mark_seen("page", error=1),
    "the name 'ms' is taken": lambda: views().mark_seen("page", into="ms"),
    "the name '__seen' is taken": lambda: views().mark_seen("page", into="__seen"),
    # tables
    "rows of a table have no window": lambda: per_page().group_by("n").window(SLIDING),
    "last cannot be taken of a table": lambda: per_page().group_by("n").agg(x=rr.last("page")),
    "approx_top cannot be taken of a": lambda: per_page().group_by("n").agg(x=rr.approx_top("n")),
    "rate needs a": lambda: per_page().group_by("n").agg(x=rr.rate()),
    "there is no column 'user'": lambda: per_page().group_by("user"),
    "a table keeps its key columns, 'page'": lambda: per_page().select("n"),
    "a table keeps its key columns, 'window": lambda: per_page().select("page", "n"),
    "a table keeps its key": lambda: per_page().with_columns(page="upper(page)"),
    "there is no column 'm'": lambda: per_page().where("m > 1"),
    "this table has no late rows": lambda: views().group_by("page").agg(n=rr.count()).late,
    "to() needs a topic": lambda: views().to(),
}


@pytest.mark.parametrize("fact", MISTAKES)
def test_a_mistake_is_an_error_at_its_own_line(fact):
    mistake = MISTAKES[fact]
    with pytest.raises(rr.ProgramError) as caught:
        mistake()
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.file == __file__
    assert caught.value.where.line == mistake.__code__.co_firstlineno


def test_an_unknown_column_names_the_columns_that_there_are():
    with pytest.raises(rr.ProgramError) as caught:
        views().where("pgae = '/a'")
    assert caught.value.hint == "did you mean 'page'? columns: user, page, ms, tags, at"


def test_an_error_has_a_fact_a_place_what_was_found_a_hint_and_a_code():
    with pytest.raises(rr.ProgramError) as caught:
        rr.tumbling("5 parsecs")
    line = inspect.currentframe().f_lineno - 1
    assert str(caught.value).splitlines() == [
        "a duration cannot be read [RR101]",
        f"  where: {__file__}:{line}",
        "  got: '5 parsecs'",
        '  hint: write it as "30 seconds", "5 minutes", "1 hour", "7 days", or a timedelta',
    ]


@pytest.mark.parametrize("duration", ["", "5", "minutes", "-5 minutes", "5 minutes!", 5, None])
def test_what_is_not_a_duration_is_refused(duration):
    with pytest.raises(rr.ProgramError, match="a duration cannot be read"):
        rr.tumbling(duration)


def test_a_duration_before_now_is_refused():
    with pytest.raises(rr.ProgramError, match="a duration cannot be read"):
        read("t", schema="page string", lateness=timedelta(seconds=-1))


def fails_to_compile(app, fact):
    with pytest.raises(rr.ProgramError) as caught:
        app.program()
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.file == __file__
    return caught.value.where.line


def test_a_program_without_an_output_is_refused():
    app = rr.App("shop")
    line = inspect.currentframe().f_lineno - 1
    assert fails_to_compile(app, "the application 'shop' has no output") == line


def test_two_steps_of_one_name_are_refused():
    app = rr.App("shop")
    grouped = views(app).group_by("page")
    grouped.agg(n=rr.count()).to("a")
    grouped.agg(n=rr.sum("ms")).to("b")
    line = inspect.currentframe().f_lineno - 1
    assert fails_to_compile(app, "two steps are called 'views_by_page'") == line


def test_two_functions_of_one_name_are_refused():
    app = rr.App("shop")
    stream = views(app)
    stream.spark(lambda df: df, schema="page string").to("a")
    stream.spark(lambda df: df, schema="page string").to("b")
    line = inspect.currentframe().f_lineno - 1
    assert fails_to_compile(app, "two steps are called 'lambda'") == line


def test_two_outputs_of_one_name_are_refused():
    app = rr.App("shop")
    stream = views(app)
    stream.to("a")
    stream.where("ms > 1").to("a")
    line = inspect.currentframe().f_lineno - 1
    assert fails_to_compile(app, "two outputs are called 'a'") == line


@pytest.mark.parametrize("name", ["dead", "pages.late"])
def test_the_names_of_default_outputs_are_taken(name):
    app = rr.App("shop")
    table = per_page("pages", app)
    table.to(name)
    assert fails_to_compile(app, f"two outputs are called {name!r}")


def test_a_topic_that_is_read_twice_is_refused():
    app = rr.App("shop")
    views(app).select("page").union(app.stream("views", schema="page string")).to("a")
    line = inspect.currentframe().f_lineno - 1
    assert fails_to_compile(app, "the topic 'views' is read twice") == line


def test_a_union_with_a_table_is_refused():
    app = rr.App("shop")
    stream = views(app)
    table = stream.group_by("page").agg(n=rr.count())
    stream.select("page", n="ms").union(table).to("a")
    line = inspect.currentframe().f_lineno - 1
    assert fails_to_compile(app, "a union is of streams") == line


def test_late_rows_cannot_be_put_in_windows_again():
    app = rr.App("shop")
    late = per_page(app=app).late.group_by("page", name="again").window(rr.tumbling("1 s"))
    late.agg(n=rr.count()).to("a")
    line = inspect.currentframe().f_lineno - 1
    assert fails_to_compile(app, "the step 'again' is fed with late rows") == line


@pytest.mark.parametrize("again", ["deduplicate", "window"])
def test_late_rows_are_late_for_every_step_that_knows_time(again):
    app = rr.App("shop")
    late = views(app).deduplicate("page", within="1 hour").late.mark_seen("page")
    if again == "deduplicate":
        late.deduplicate("user", within="1 hour", name="again").to("a")
    else:
        late.group_by("page", name="again").window(SLIDING).agg(n=rr.count()).to("a")
    assert fails_to_compile(app, "the step 'again' is fed with late rows")


def test_rows_cannot_be_grouped_by_a_map():
    app = rr.App("shop")
    views(app).with_columns(m="map {'a': 1}").group_by("m").agg(n=rr.count()).to("a")
    line = inspect.currentframe().f_lineno - 1
    assert fails_to_compile(app, "rows cannot be grouped by 'm'") == line


def test_a_column_may_be_called_like_a_word_of_sql():
    stream = rr.App("shop").stream("t", schema="at timestamp, order int, select string", time="at")
    assert stream.select("order", "select").columns == ("order", "select")
    assert stream.group_by("order").agg(at=rr.max("at")).columns == ("order", "at")


def test_steps_have_names_from_the_programs_own_words():
    table = views().group_by("user", "page").window(rr.tumbling("90 s")).agg(n=rr.count())
    assert table.node.name == "views_by_user_page_per_90_seconds"
    assert table.key == ("user", "page", "window_start")
    assert per_page("pages").node.name == "pages"


def test_steps_are_named_after_their_window_and_what_feeds_them():
    def name(window):
        return views().group_by("page").window(window).agg(n=rr.count()).node.name

    assert name(rr.hopping("1 hour", "15 minutes")) == "views_by_page_per_1_hour_every_15_minutes"
    assert name(rr.sliding("90 s")) == "views_by_page_sliding_90_seconds"
    assert name(rr.session("30 minutes")) == "views_by_page_session_30_minutes"
    assert name(rr.all_time()) == "views_by_page"
    once = views().deduplicate("user", "page", within="1 hour")
    assert once.node.name == "views_once_by_user_page"
    assert once.mark_seen("user").node.name == "views_once_by_user_page_seen_by_user"
    assert per_page("pages").group_by("n").agg(x=rr.count()).node.name == "pages_by_n"


def test_two_outputs_are_not_written_to_one_topic():
    app = rr.App("shop")
    views(app).to("shop.dead")
    with pytest.raises(rr.ProgramError, match="written to the topic"):
        app.program()


WORDS = (
    "Aggregate App FrameProcessor Grouped Processor ProgramError Rejected RiverrunError Stream "
    "Table alerts all_time append_time device_time function hopping pattern personal "
    "processing_time queue session sinks sliding tumbling upcast"
)
"""The language's own words. Sinks and what is to come have a namespace of their own."""


def test_the_public_names_are_sorted_and_few():
    assert rr.__all__ == sorted(rr.__all__)
    aggregates = rr._HOMES["riverrun.aggregate"]
    assert sorted(set(rr.__all__) - set(aggregates)) == sorted(WORDS.split())
    assert all(hasattr(rr, name) for name in rr.__all__)
