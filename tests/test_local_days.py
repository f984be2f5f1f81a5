"""Windows that are moved, weeks, and the days of a time zone, of 23 and 25 hours."""

from __future__ import annotations

import pytest

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver

HOUR = 3_600_000_000


def counted(window, updatable="0 seconds", emit="ready", **options):
    """Rows and their rate per window, to `out`."""
    app = rr.App("shop", pages=2)
    sales = app.stream("sales", schema="shop string, at timestamp", time="at", **options)
    grouped = sales.group_by("shop", name="shops").window(window, updatable=updatable, emit=emit)
    grouped.agg(n=rr.count(), rate=rr.rate()).to("out")
    return Driver(app)


def bounds(window, *times):
    """The windows that events at these times come out in: start, end, count."""
    driver = counted(window)
    driver.send("sales", *({"shop": "s", "at": time} for time in times))
    driver.batch()
    driver.end()
    rows = sorted((row["window_start"], row["window_end"], row["n"]) for row in driver.table("out"))
    return [(start[:16], end[:16], n) for start, end, n in rows]


def test_windows_begin_at_multiples_of_their_size_unless_an_offset_moves_them():
    noon = "2026-01-01T12:04:00Z"
    assert bounds(rr.tumbling("1 hour"), noon) == [("2026-01-01T12:00", "2026-01-01T13:00", 1)]
    moved = rr.tumbling("1 hour", offset="15 minutes")
    assert bounds(moved, noon) == [("2026-01-01T11:15", "2026-01-01T12:15", 1)]


def test_an_offset_longer_than_the_window_moves_by_the_rest():
    assert rr.tumbling("1 hour", offset="90 minutes") == rr.tumbling("1 hour", offset="30 minutes")


def test_a_day_of_business_may_begin_at_six():
    window = rr.tumbling("1 day", offset="6 hours")
    assert bounds(window, "2026-01-02T05:59:59Z", "2026-01-02T06:00:00Z") == [
        ("2026-01-01T06:00", "2026-01-02T06:00", 1),
        ("2026-01-02T06:00", "2026-01-03T06:00", 1),
    ]


@pytest.mark.parametrize("week", ["7 days", "1 week"])
def test_weeks_begin_on_monday(week):
    assert bounds(rr.tumbling(week), "2026-01-04T23:59:59Z", "2026-01-05T00:00:00Z") == [
        ("2025-12-29T00:00", "2026-01-05T00:00", 1),
        ("2026-01-05T00:00", "2026-01-12T00:00", 1),
    ]


def test_a_week_may_begin_on_sunday():
    window = rr.tumbling("1 week", offset="6 days")
    assert bounds(window, "2026-01-01T12:00:00Z") == [("2025-12-28T00:00", "2026-01-04T00:00", 1)]


def test_a_local_day_has_23_hours_when_the_clocks_go_forward():
    window = rr.tumbling("1 day", timezone="Europe/Berlin")
    times = ["2026-03-28T22:59:59Z", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z"]
    assert bounds(window, *times, "2026-03-29T22:00:00Z") == [
        ("2026-03-27T23:00", "2026-03-28T23:00", 1),
        ("2026-03-28T23:00", "2026-03-29T22:00", 2),
        ("2026-03-29T22:00", "2026-03-30T22:00", 1),
    ]


def test_a_local_day_has_25_hours_when_they_go_back():
    window = rr.tumbling("1 day", timezone="Europe/Berlin")
    times = ["2026-10-24T22:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
    assert bounds(window, *times, "2026-10-25T22:59:59Z", "2026-10-25T23:00:00Z") == [
        ("2026-10-24T22:00", "2026-10-25T23:00", 4),
        ("2026-10-25T23:00", "2026-10-26T23:00", 1),
    ]


def test_a_local_week_begins_on_monday_at_midnight_and_may_have_167_hours():
    window = rr.tumbling("1 week", timezone="Europe/Berlin")
    assert bounds(window, "2026-03-29T12:00:00Z") == [("2026-03-22T23:00", "2026-03-29T22:00", 1)]


def test_a_rate_is_per_second_that_the_day_really_had():
    driver = counted(rr.tumbling("1 day", timezone="Europe/Berlin"))
    times = ["2026-03-29T12:00:00Z", "2026-06-01T12:00:00Z", "2026-10-25T12:00:00Z"]
    driver.send("sales", *({"shop": "s", "at": time} for time in times))
    driver.batch()
    driver.end()
    rates = [1 / row["rate"] / 3600 for row in driver.table("out")]
    assert rates == pytest.approx([23, 24, 25])


@pytest.mark.parametrize(
    ("zone", "time", "start", "end"),
    [
        # half and quarter hours
        ("Asia/Kolkata", "2026-01-01T18:29:00Z", "2025-12-31T18:30", "2026-01-01T18:30"),
        ("Asia/Kathmandu", "2026-01-01T18:15:00Z", "2026-01-01T18:15", "2026-01-02T18:15"),
        ("Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-04T13:00", "2026-04-05T13:30"),
        # the clocks go from 00:00 to 01:00: the day has no midnight and begins at one
        ("Africa/Cairo", "2026-04-24T10:00:00Z", "2026-04-23T22:00", "2026-04-24T21:00"),
        ("Asia/Beirut", "2026-03-29T10:00:00Z", "2026-03-28T22:00", "2026-03-29T21:00"),
        # they go from 24:00 back to 23:00: the day before has 25 hours
        ("Africa/Cairo", "2026-10-29T20:30:00Z", "2026-10-28T21:00", "2026-10-29T22:00"),
        ("Africa/Cairo", "2026-10-29T21:30:00Z", "2026-10-28T21:00", "2026-10-29T22:00"),
        ("Asia/Beirut", "2026-10-24T21:30:00Z", "2026-10-23T21:00", "2026-10-24T22:00"),
        # midnight comes twice: the first one counts
        ("America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00", "2026-11-02T05:00"),
        ("America/Havana", "2026-11-01T03:59:59Z", "2026-10-31T04:00", "2026-11-01T04:00"),
        # before 1970, and a zone far from UTC
        ("America/New_York", "1969-12-31T12:00:00Z", "1969-12-31T05:00", "1970-01-01T05:00"),
        ("Pacific/Kiritimati", "2026-01-01T10:00:00Z", "2026-01-01T10:00", "2026-01-02T10:00"),
    ],
)
def test_a_day_is_what_the_zone_calls_a_day(zone, time, start, end):
    assert bounds(rr.tumbling("1 day", timezone=zone), time) == [(start, end, 1)]


def test_a_day_that_a_zone_left_out_has_no_window():
    """Samoa went from 29 to 31 December 2011."""
    window = rr.tumbling("1 day", timezone="Pacific/Apia")
    assert bounds(window, "2011-12-30T09:59:59Z", "2011-12-30T10:00:00Z") == [
        ("2011-12-29T10:00", "2011-12-30T10:00", 1),
        ("2011-12-30T10:00", "2011-12-31T10:00", 1),
    ]


def test_the_last_seven_local_days_hop_from_midnight_to_midnight():
    window = rr.hopping("7 days", "1 day", timezone="Europe/Berlin")
    found = bounds(window, "2026-03-29T12:00:00Z")
    assert len(found) == 7
    assert found[0] == ("2026-03-22T23:00", "2026-03-29T22:00", 1)
    assert found[-1] == ("2026-03-28T23:00", "2026-04-04T22:00", 1)


def test_a_short_day_is_ready_an_hour_earlier():
    driver = counted(rr.tumbling("1 day", timezone="Europe/Berlin"))
    driver.run(
        sales="""
        at                   | shop
        2026-03-29T12:00:00Z | s
        2026-03-29T21:59:59Z | t
    """
    ).assert_is("window_start | shop")
    driver.run(sales="at | shop\n 2026-03-29T22:00:00Z | t").assert_is("""
        window_start         | window_end           | shop | n
        2026-03-28T23:00:00Z | 2026-03-29T22:00:00Z | s    | 1
        2026-03-28T23:00:00Z | 2026-03-29T22:00:00Z | t    | 1
    """)


STORY = """
    at                   | shop
    2026-03-29T12:00:00Z | s
    2026-03-29T22:00:00Z | s      # 29 March is over
    -----
    2026-03-29T21:00:00Z | s      # a straggler
    -----
    2026-03-29T23:00:00Z | s      # one hour later: it closes
    -----
    2026-03-29T21:00:00Z | s      # late
    2026-03-29T22:00:00Z | s      # of the next day
    -----
    2026-04-02T00:00:00Z | s
"""


def test_local_days_are_corrected_and_closed_like_any_window():
    out = counted(rr.tumbling("1 day", timezone="Europe/Berlin"), updatable="1 hour").run(
        sales=STORY
    )
    out.of("out").assert_is("""
        +- | window_start         | window_end           | n | revision
        +  | 2026-03-28T23:00:00Z | 2026-03-29T22:00:00Z | 1 | 0
        -  | 2026-03-28T23:00:00Z | 2026-03-29T22:00:00Z | 1 | 0
        +  | 2026-03-28T23:00:00Z | 2026-03-29T22:00:00Z | 2 | 1
        +  | 2026-03-29T22:00:00Z | 2026-03-30T22:00:00Z | 3 | 0
    """)
    out.of("shops.late").assert_is("at\n 2026-03-29T21:00:00Z")


@pytest.mark.parametrize("emit", ["ready", "changes", "final"])
@pytest.mark.parametrize("size", ["1 day", "2 days"])
def test_crashes_restarts_and_replays_change_nothing(emit, size):
    window = rr.hopping(size, "1 day", timezone="Africa/Cairo")
    lines = assert_mishaps_change_nothing(
        lambda: counted(window, updatable="1 hour", emit=emit), "sales", STORY
    )
    assert lines.of("out") != []
