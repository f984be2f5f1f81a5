"""What a batch reads when there is more than fits: tables first, the rest in order of time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.partitions import Partition
from riverrun.sources.admission import Admitted, Times, admit, in_order_of_time

FIRST = {"views": ("users",)}
USERS, VIEWS, OTHERS = (Partition(topic, 0) for topic in ("users", "views", "others"))


def admitted(begin, ends, most, *, first=FIRST, targets=None, times=None) -> Admitted:
    return admit(begin, ends, most, first=first, targets=targets or {}, times=times or Times())


def test_what_fits_is_read_at_once():
    ends = {USERS: 10, VIEWS: 20}
    assert admitted({USERS: 0, VIEWS: 0}, ends, 100) == (ends, {})


def test_a_table_is_loaded_up_to_the_offset_that_was_its_end_when_the_backlog_was_found():
    begin = {USERS: 0, VIEWS: 0}
    batch = admitted(begin, {USERS: 250, VIEWS: 1000}, 100)
    assert batch == ({USERS: 90, VIEWS: 0}, {USERS: 250})
    # more records of the table came: they are not waited for
    batch = admitted(batch.ends, {USERS: 900, VIEWS: 1000}, 100, targets=batch.targets)
    assert batch == ({USERS: 180, VIEWS: 0}, {USERS: 250})
    batch = admitted(batch.ends, {USERS: 900, VIEWS: 1000}, 100, targets=batch.targets)
    assert batch == ({USERS: 250, VIEWS: 30}, {})


def test_a_table_that_grew_meanwhile_is_loaded_again_before_more_is_read():
    batch = admitted({USERS: 250, VIEWS: 30}, {USERS: 900, VIEWS: 1000}, 100)
    assert batch == ({USERS: 340, VIEWS: 30}, {USERS: 900})


def test_what_waits_for_no_table_goes_on_while_one_is_loaded():
    begin = {USERS: 0, VIEWS: 0, OTHERS: 0}
    batch = admitted(begin, {USERS: 1000, VIEWS: 1000, OTHERS: 1000}, 100)
    assert batch == ({USERS: 90, VIEWS: 0, OTHERS: 10}, {USERS: 1000})


def test_a_table_that_is_not_read_holds_nobody():
    """It is paused: its end is where it stands, whatever its target was."""
    batch = admitted({USERS: 5, VIEWS: 0}, {USERS: 5, VIEWS: 1000}, 100, targets={USERS: 50})
    assert batch == ({USERS: 5, VIEWS: 100}, {})


def test_tables_that_wait_for_others_come_after_them():
    teams = Partition("teams", 0)
    first = {"views": ("users",), "users": ("teams",)}
    begin = {teams: 0, USERS: 0, VIEWS: 0}
    batch = admitted(begin, {teams: 200, USERS: 10, VIEWS: 10}, 100, first=first)
    assert batch == ({teams: 90, USERS: 0, VIEWS: 0}, {teams: 200, USERS: 10})
    batch = admitted({teams: 190, USERS: 0, VIEWS: 0}, {teams: 200, USERS: 10, VIEWS: 10}, 100,
                     first=first, targets=batch.targets)  # fmt: skip
    assert batch == ({teams: 200, USERS: 10, VIEWS: 10}, {})


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), min_size=1, max_size=8),
    st.integers(1, 40),
)
def test_whatever_arrives_everything_is_read_and_no_row_meets_a_table_that_is_not_loaded(
    arrivals, most
):
    """`arrivals`: records of the table and of the stream that come before each batch."""
    ends, at, targets = {USERS: 0, VIEWS: 0}, {USERS: 0, VIEWS: 0}, {}
    wanted, number = 0, 0
    while number < len(arrivals) or at != ends:
        users, views = arrivals[number] if number < len(arrivals) else (0, 0)
        number += 1
        ends = {USERS: ends[USERS] + users, VIEWS: ends[VIEWS] + views}
        if not targets:
            wanted = ends[USERS]
        batch = admitted(at, ends, most, targets=targets)
        assert batch.ends != at or at == ends
        if batch.ends[VIEWS] > at[VIEWS]:
            assert batch.ends[USERS] >= wanted
        at, targets = batch


def test_a_partition_that_is_ahead_waits_for_those_behind_it():
    a, b, c = (Partition("t", number) for number in range(3))
    begin, ends = {a: 0, b: 0, c: 0}, {a: 1000, b: 1000, c: 1000}
    times = Times({a: 100, b: 105, c: 200}, reach=10)
    assert in_order_of_time(begin, ends, 100, times) == {a: 50, b: 50, c: 0}
    # what is behind fits: there is room for the one that is ahead
    assert in_order_of_time(begin, {a: 30, b: 30, c: 1000}, 100, times) == {a: 30, b: 30, c: 40}


def test_a_partition_whose_time_is_not_known_neither_waits_nor_is_waited_for():
    a, b, dead = (Partition("t", number) for number in range(3))
    times = Times({a: 100, b: 10_000}, reach=1)
    planned = in_order_of_time(dict.fromkeys((a, b, dead), 0), {a: 60, b: 60, dead: 60}, 60, times)
    assert planned == {a: 30, b: 0, dead: 30}


def test_times_are_the_highest_that_were_read_and_tell_how_far_one_batch_comes():
    a, b = Partition("t", 0), Partition("t", 1)
    assert Times.after({}, {a: 5}) == Times({a: 5}, None)
    assert Times.after({a: 5, b: 7}, {a: 9}) == Times({a: 9, b: 7}, 4)
    assert Times.after({a: 5}, {}) == Times({a: 5}, None)


def test_tables_that_rows_meet_are_loaded_first_and_no_others():
    app = rr.App("shop")
    views = app.stream("views", schema="user string, page string")
    users = app.table("users", key="user", schema="user string, team string")
    pages = app.table("pages", key="page", schema="page string, at timestamp", time="at")
    known = views.join(users, on="user").join(pages, on="page", as_of="event time")
    known.to("known")
    teams = app.table("teams", key="team", schema="team string, name string")
    users.join(teams, on="team", prefix="team_").to("both")
    assert app.program().loading.first == {"views": ("users",)}


def test_a_table_does_not_hold_what_it_is_made_of():
    app = rr.App("shop")
    views = app.stream("views", schema="user string, page string")
    last = views.to_table("user")
    views.join(last, on="user", prefix="last_").to("twice")
    counts = views.group_by("user").agg(n=rr.count()).through("counts")
    views.join(counts, on="user").to("counted")
    loading = app.program().loading
    assert loading.first == {}
    assert loading.not_first == {
        ("views", "counts"): "the program writes it itself",
        ("views", "views"): "the table is made of the same topic",
    }


def test_topics_that_are_tables_for_each_other_do_not_wait_for_ever():
    app = rr.App("shop")
    a = app.stream("a", schema="k string, x int")
    b = app.stream("b", schema="k string, y int")
    a.join(b.to_table("k"), on="k").to("ab")
    b.join(a.to_table("k"), on="k").to("ba")
    loading = app.program().loading
    assert loading.first == {}
    assert set(loading.not_first) == {("a", "b"), ("b", "a")}
