"""What a batch reads when there is more than fits: tables first, the rest in order of time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.partitions import Partition
from riverrun.sources.admission import LOOK, REST, Admitted, admit, in_order_of_time
from riverrun.sources.course import BELIEVED, FURTHER, Arrivals, Course

FIRST = {"views": ("users",)}
USERS, VIEWS, OTHERS = (Partition(topic, 0) for topic in ("users", "views", "others"))


A, B, C = (Partition("t", number) for number in range(3))
NOW = 10**15


def admitted(begin, ends, most, *, first=FIRST, targets=None, course=None) -> Admitted:
    """Of partitions without times, unless a course tells."""
    course = course or Course(read=set(begin))
    found = admit(begin, ends, most, first=first, targets=targets or {}, course=course)
    assert not found.look
    return found


def course_of(**moves) -> Course:
    """Partitions by their letter: the first high, then records and how far time came with them."""
    course, names = Course(), {"a": A, "b": B, "c": C}
    highs = {names[name]: high for name, (high, _, _) in moves.items()}
    course.note(dict.fromkeys(highs, 0), highs, NOW)
    course.note(
        {names[name]: records for name, (_, records, _) in moves.items()},
        {names[name]: high + moved for name, (high, _, moved) in moves.items()}, NOW,
    )  # fmt: skip
    return course


def test_what_fits_is_read_at_once():
    ends = {USERS: 10, VIEWS: 20}
    assert admitted({USERS: 0, VIEWS: 0}, ends, 100) == (ends, {}, False)


def test_a_table_is_loaded_up_to_the_offset_that_was_its_end_when_the_backlog_was_found():
    begin = {USERS: 0, VIEWS: 0}
    batch = admitted(begin, {USERS: 250, VIEWS: 1000}, 100)
    assert batch == ({USERS: 90, VIEWS: 0}, {USERS: 250}, False)
    # more records of the table came: they are not waited for
    batch = admitted(batch.ends, {USERS: 900, VIEWS: 1000}, 100, targets=batch.targets)
    assert batch == ({USERS: 180, VIEWS: 0}, {USERS: 250}, False)
    batch = admitted(batch.ends, {USERS: 900, VIEWS: 1000}, 100, targets=batch.targets)
    assert batch == ({USERS: 250, VIEWS: 30}, {}, False)


def test_a_table_that_grew_meanwhile_is_loaded_again_before_more_is_read():
    batch = admitted({USERS: 250, VIEWS: 30}, {USERS: 900, VIEWS: 1000}, 100)
    assert batch == ({USERS: 340, VIEWS: 30}, {USERS: 900}, False)


def test_what_waits_for_no_table_goes_on_while_one_is_loaded():
    begin = {USERS: 0, VIEWS: 0, OTHERS: 0}
    batch = admitted(begin, {USERS: 1000, VIEWS: 1000, OTHERS: 1000}, 100)
    assert batch == ({USERS: 90, VIEWS: 0, OTHERS: 10}, {USERS: 1000}, False)


def test_a_table_that_is_not_read_holds_nobody():
    """It is paused: its end is where it stands, whatever its target was."""
    batch = admitted({USERS: 5, VIEWS: 0}, {USERS: 5, VIEWS: 1000}, 100, targets={USERS: 50})
    assert batch == ({USERS: 5, VIEWS: 100}, {}, False)


def test_tables_that_wait_for_others_come_after_them():
    teams = Partition("teams", 0)
    first = {"views": ("users",), "users": ("teams",)}
    begin = {teams: 0, USERS: 0, VIEWS: 0}
    batch = admitted(begin, {teams: 200, USERS: 10, VIEWS: 10}, 100, first=first)
    assert batch == ({teams: 90, USERS: 0, VIEWS: 0}, {teams: 200, USERS: 10}, False)
    batch = admitted({teams: 190, USERS: 0, VIEWS: 0}, {teams: 200, USERS: 10, VIEWS: 10}, 100,
                     first=first, targets=batch.targets)  # fmt: skip
    assert batch == ({teams: 200, USERS: 10, VIEWS: 10}, {}, False)


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
        at, targets, _ = batch


def test_partitions_are_read_up_to_the_same_time():
    course = course_of(a=(0, 100, 1000), b=(0, 300, 1000), c=(5000, 100, 1000))
    begin, ends = {A: 100, B: 300, C: 100}, {A: 9000, B: 9000, C: 9000}
    # a hundred records of A and three hundred of B lead as far; C is there already
    assert in_order_of_time(begin, ends, 400, course) == ({A: 200, B: 600, C: 100}, {}, False)
    # from there on all three go on
    found = in_order_of_time(begin, ends, 2500, course).ends
    assert found == {A: 700, B: 2100, C: 200}


def test_what_is_left_of_a_partition_is_all_that_it_gives():
    course = course_of(a=(0, 100, 1000), b=(0, 100, 1000))
    found = in_order_of_time({A: 100, B: 100}, {A: 130, B: 9000}, 1000, course).ends
    assert found == {A: 130, B: 1070}


def test_a_partition_with_few_records_is_ahead_rather_than_behind():
    course = course_of(a=(0, 1000, 1000), b=(-899_500, 1, 900_000))
    found = in_order_of_time({A: 1000, B: 1}, {A: 9000, B: 50}, 500, course).ends
    assert found == {A: 1499, B: 2}


def test_a_few_records_of_each_partition_tell_first_how_its_time_goes():
    course, ends = Course(), {A: 90_000, B: 90_000, C: 200}
    course.note({A: 0, B: 0, C: 0}, {}, NOW)
    first = in_order_of_time({A: 0, B: 0, C: 0}, ends, 50_000, course)
    assert first == ({A: LOOK, B: LOOK, C: 200}, {}, True)
    course.note(first.ends, {A: 1000, B: 8000, C: 10}, NOW)
    second = in_order_of_time(first.ends, ends, 50_000, course)
    assert second == ({A: 2 * LOOK, B: 2 * LOOK, C: 200}, {}, True)
    course.note(second.ends, {A: 2000, B: 9000, C: 10}, NOW)
    third = in_order_of_time(second.ends, ends, 50_000, course)
    # the clock of A may go from 2000 to 18,000: that is how far it is believed
    assert third == ({A: (2 + FURTHER) * LOOK, B: 11 * LOOK, C: 200}, {}, False)


def test_what_fits_or_is_alone_needs_no_look():
    assert in_order_of_time({A: 0, B: 0}, {A: 50, B: 50}, 100, Course()).ends == {A: 50, B: 50}
    assert in_order_of_time({A: 0, B: 7}, {A: 5000, B: 7}, 100, Course()).ends == {A: 100, B: 7}


def test_partitions_without_a_time_that_can_be_followed_give_their_share():
    course = course_of(a=(0, 100, 1000), b=(0, 100, 0))
    course.read |= {C}  # dead letters only
    begin, ends = {A: 100, B: 100, C: 0}, {A: 600, B: 600, C: 500}
    found = in_order_of_time(begin, ends, 300, course)
    assert found == ({A: 200, B: 200, C: 100}, {}, False)


def test_a_few_records_without_a_time_do_not_wait_for_many_with_one():
    course = course_of(a=(0, 100, 1000))
    course.read |= {B}
    found = in_order_of_time({A: 100, B: 0}, {A: 5_000_000, B: 3}, 300, course).ends
    assert found == {A: 400, B: 3}


def test_an_event_from_the_future_does_not_hold_its_partition_back():
    course = Course()
    course.note({A: 0}, {}, NOW)
    course.note({A: 100}, {A: NOW + BELIEVED + 1}, NOW)
    assert not course.highs
    assert not course.unknown(A)
    course.note({A: 200}, {A: NOW}, NOW)
    assert course.highs == {A: NOW}


def test_how_time_goes_is_told_by_the_last_batches_most():
    course = course_of(a=(0, 100, 1000))
    course.note({A: 300}, {A: 9000}, NOW)
    assert course.paces[A] == (200 + 50, 8000 + 500)
    course.note({A: 300}, {A: 9000}, NOW)  # nothing was read of it
    assert course.paces[A] == (250, 8500)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30)), min_size=1, max_size=4),
    st.integers(1, 200),
)
def test_every_backlog_is_read_to_its_end(partitions, most):
    """Of each partition: how many records, and how far apart in time they are."""
    ends = {Partition("t", n): count for n, (count, _) in enumerate(partitions)}
    apart = {Partition("t", n): far for n, (_, far) in enumerate(partitions)}
    course, at, batches = Course(), dict.fromkeys(ends, 0), 0
    while at != ends:
        course.note(at, {p: place * apart[p] for p, place in at.items() if place}, NOW)
        found = in_order_of_time(at, ends, most, course).ends
        assert all(at[p] <= found[p] <= ends[p] for p in ends)
        assert found != at
        assert sum(found.values()) - sum(at.values()) <= most + most // REST + len(ends)
        at, batches = found, batches + 1
    assert batches <= 20 + 4 * sum(ends.values()) / most


def test_the_last_record_came_when_the_end_was_first_seen_there():
    arrivals = Arrivals()
    arrivals.note({A: 50, B: 50}, 1000)
    arrivals.note({A: 50, B: 60, C: 5}, 2000)
    read = {A: 50, B: 60, C: 4}
    assert arrivals.of_last({A: 0, B: 0, C: 0}, read, 2000) == {A: 1000}
    assert arrivals.of_last({A: 50, B: 0, C: 0}, read, 3000) == {B: 2000}


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
