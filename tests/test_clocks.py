"""Whose time counts: producers, punctuations, and events that are too far ahead."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from thorough import examples
from timed import NOON, PlainClock, counted

NOON_TIME = datetime.fromisoformat(NOON)

# producers


def test_the_slowest_producer_holds_the_clock_back_whatever_its_partition():
    driver = counted(producer="device")
    driver.run(
        t="""
        at    | device | _partition
        12:00 | a      | 0
        12:01 | b      | 0
        12:09 | a      | 1
    """
    ).assert_is("+- | device")
    driver.run(
        t="""
        at    | device | _partition
        12:06 | b      | 1
    """
    ).assert_is("""
        +- | window_start | device | n
        +  | 12:00        | a      | 1
        +  | 12:00        | b      | 1
    """)


def test_producers_come_go_and_return():
    driver = counted(producer="device", idle="1 minute")
    driver.run(
        t="""
        at    | device
        12:00 | a
        12:00 | b
        -----
        12:06 | a
    """
    ).assert_is("+- | device")
    driver.tick += 60_000_000
    driver.run(
        t="""
        at    | device
        12:07 | a        # b has been silent for a minute
    """
    ).assert_is("""
        +- | window_start | device | n
        +  | 12:00        | a      | 1
        +  | 12:00        | b      | 1
    """)
    driver.run(
        t="""
        at    | device
        12:01 | b        # late: the clock has passed it
        12:06 | b        # in time, and holds the clock back again
        12:20 | a
    """
    ).assert_is("""
        output       | at    | device
        devices.late | 12:01 | b
    """)
    driver.tick += 60_000_000
    driver.run(
        t="""
        at    | device
        12:21 | a
    """
    ).assert_is("""
        +- | window_start | device | n
        +  | 12:05        | a      | 2
        +  | 12:05        | b      | 1
    """)


def test_when_all_producers_are_silent_the_windows_close_with_the_wall_clock():
    driver = counted(producer="device", idle="10 seconds")
    driver.run(
        t="""
        at       | device
        12:03    | a
        12:04:30 | b
    """
    )
    assert driver.pass_time("20 seconds") == []
    driver.pass_time("10 seconds").assert_is("""
        +- | window_start | device | n
        +  | 12:00        | a      | 1
        +  | 12:00        | b      | 1
    """)


def test_a_record_without_a_producer_is_a_dead_letter():
    driver = counted(producer="device")
    driver.run(
        t="""
        at    | device
        12:00 | a
        13:00 |
        13:00 | null
    """
    ).of("dead").assert_is("""
        step   | cause
        decode | no producer: device is missing
        decode | no producer: device is missing
    """)
    assert driver.outputs["out"] == []


def test_the_key_of_a_record_or_a_number_can_name_its_producer():
    driver = counted(producer="_key")
    driver.run(
        t="""
        at    | device | _key
        12:00 | a      | 0
        12:09 | a      | 1/0
        12:09 | a      |
    """
    ).of("dead").assert_is("""
        cause
        no producer: _key is missing
    """)
    assert driver.status.holders["devices"]["held_by"] == "t:0"
    numbered = counted("at timestamp, device bigint", producer="device")
    numbered.run(t="at | device\n 12:00 | 7")
    assert numbered.status.holders["devices"]["held_by"] == "t:7"


devices = st.tuples(st.sampled_from("abc"), st.integers(0, 1500), st.integers(0, 2))
batches = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 9, 30]),
        st.lists(devices, max_size=5),
        st.sampled_from(["", "", "crash", "restart"]),
    ),
    max_size=8,
)
"""Seconds that pass, then events: device, seconds after noon, partition; then a mishap."""


@settings(deadline=None, max_examples=examples(15))
@given(batches)
def test_random_producers_are_late_when_plain_python_says_so(batches):
    driver = counted(producer="device", lateness="5 seconds", idle="10 seconds", pages=3)
    plain, lines, late = PlainClock(lateness=5, idle=10), [], []
    for passed, events, mishap in batches:
        driver.tick += passed * 1_000_000
        for device, after, partition in events:
            at = (NOON_TIME + timedelta(seconds=after)).isoformat()
            driver.send("t", {"device": device, "at": at}, partition=partition)
            late += [(device, after)] if after // 300 * 300 + 300 <= plain.now else []
        if mishap:
            getattr(driver, mishap)()
        lines += driver.batch()
        highs = {d: max(a for e, a, _ in events if e == d) for d, _, _ in events}
        plain.batch(driver.tick // 1_000_000, highs)
    lines += driver.end()
    found = [line["value"] for line in driver.outputs["devices.late"]]
    assert sorted((row["device"], seconds(row["at"])) for row in found) == sorted(late)
    assert driver.status.rows.get("devices", 0) == sum(len(events) for _, events, _ in batches)
    assert driver.replay() == lines


def seconds(text):
    return (datetime.fromisoformat(text) - NOON_TIME).total_seconds()


# punctuation


TICKS = {"punctuation": "kind = 'tick'", "lateness": "1 minute"}


def test_a_punctuation_is_no_row_and_moves_the_clock_to_exactly_its_time():
    driver = counted(**TICKS)
    out = driver.run(
        t="""
        at       | device | kind
        12:01    | a      |
        12:05:30 | a      |        # lateness keeps the clock at 12:04:30
        -----
        12:04:59 |        | tick
        -----
        12:05    |        | tick   # nothing before 12:05 any more
        12:05    |        | tick
        12:03    |        | tick
        -----
        12:04    | a      |
    """
    )
    out.assert_is("""
        output       | device | +-
        out          | a      | +
        devices.late | a      | +
    """)
    assert driver.status.rows == {"devices": 3}
    assert driver.status.events == 7


def test_punctuations_are_per_producer():
    driver = counted(producer="device", **TICKS)
    driver.run(
        t="""
        at    | device | kind
        12:01 | a      |
        12:01 | b      |
        12:05 | a      | tick
    """
    ).assert_is("+- | device")
    driver.run(
        t="""
        at    | device | kind
        12:05 | b      | tick
    """
    ).assert_is("""
        +- | window_start | device | n
        +  | 12:00        | a      | 1
        +  | 12:00        | b      | 1
    """)


def test_a_punctuation_is_activity():
    driver = counted(idle="10 seconds", **TICKS)
    driver.run(
        t="""
        at    | device | kind | _partition
        12:01 | a      |      | 0
        12:01 | a      |      | 1
    """
    )
    for _ in range(3):
        driver.tick += 9_000_000
        driver.run(
            t="""
            at    | device | kind | _partition
            12:01 |        | tick | 0
            12:30 |        | tick | 1
        """
        ).assert_is("+- | device")
    assert driver.status.holders["devices"] == {"held_by": "t/0", "idle": []}


def test_a_condition_that_fails_on_a_record_sets_it_aside():
    out = counted(punctuation="cast(kind as int) = 1").run(
        t="""
        at    | device | kind
        12:00 | a      | x
        12:00 | a      | 0
        12:06 |        | 1
    """
    )
    assert "Could not convert string 'x'" in out.of("dead")[0]["value"]["cause"]
    out.of("out").assert_is("""
        device | n
        a      | 1
    """)


# max_ahead


def test_an_event_of_2099_does_not_close_other_peoples_windows():
    driver = counted(now=NOON)
    driver.run(
        t="""
        at                   | device
        12:00                | a
        2099-01-01T00:00:00Z | b
        12:03                | a
    """
    ).assert_is("""
        output | step      | cause
        dead   | max_ahead | its time 2099-01-01T00:00:00Z is more than 1 day ahead of \
the wall clock, 2026-01-01T12:00:00Z
    """)
    driver.run(
        t="""
        at    | device
        12:06 | a
    """
    ).assert_is("""
        +- | window_start | device | n
        +  | 12:00        | a      | 2
    """)


def test_without_a_wall_clock_the_records_timestamp_bounds_its_time():
    driver = counted(max_ahead="1 hour")
    driver.run(
        t="""
        at       | device | _timestamp
        13:00    | a      | 12:00
        13:00:01 | a      | 12:00
    """
    ).assert_is("""
        cause
        its time 2026-01-01T13:00:01Z is more than 1 hour ahead of the record's timestamp, \
2026-01-01T12:00:00Z
    """)
    driver.send("t", {"at": "2099-01-01T00:00:00Z", "device": "a"})  # it has no timestamp
    driver.batch()
    assert driver.status.dead == 1


def test_max_ahead_can_be_switched_off():
    driver = counted(now=NOON, max_ahead=None)
    driver.run(
        t="""
        at                   | device
        12:00                | a
        2099-01-01T00:00:00Z | b
    """
    ).of("out").assert_is("""
        device | n
        a      | 1
    """)


def test_punctuations_are_bounded_too():
    driver = counted(now=NOON, **TICKS)
    out = driver.run(
        t="""
        at                   | device | kind
        12:00                | a      |
        2099-01-01T00:00:00Z |        | tick
    """
    )
    assert [line["value"]["step"] for line in out] == ["max_ahead"]


def test_the_wall_clock_of_the_batch_decides_also_when_it_is_run_again():
    driver = counted(now="2025-12-31T12:00:00Z")
    early = driver.run(t="at | device\n 12:00 | a\n 12:01 | b")
    early.of("dead").assert_is("""
        offset | step
        1      | max_ahead
    """)
    late = driver.pass_time("1 hour")
    late += driver.run(t="at | device\n 12:01 | b")
    late += driver.end()
    assert late.of("dead") == []
    assert driver.replay() == [*early, *late]


@pytest.mark.parametrize("time", ["infinity", "-infinity"])
def test_a_time_without_end_is_a_dead_letter(time):
    driver = counted()
    driver.send("t", {"at": time, "device": "a"})
    [letter] = driver.batch()
    assert letter["value"]["cause"] == f"at is not a TIMESTAMP: {time}"


@pytest.mark.parametrize("options", [{}, {"time": "_timestamp"}, {"time": rr.append_time()}])
def test_a_records_timestamp_beyond_all_times_does_not_stop_the_job(options):
    driver = counted(**options)
    driver.send("t", {"at": NOON, "device": "a"}, {"device": "b"}, timestamp=2**63 - 1)
    driver.send("t", {"at": NOON, "device": "a"}, timestamp=1_767_268_800_000)
    causes = [line["value"]["cause"] for line in driver.batch().of("dead")]
    out_of_range = "no time: the record's timestamp is out of range"
    assert causes == ([out_of_range] * 2 if options else ["no time: at is missing"])
    assert [line["value"]["n"] for line in driver.end()] == [1 if options else 2]


def test_a_number_beyond_all_times_is_a_dead_letter():
    driver = counted("at timestamp_ms, device string")
    driver.send("t", {"at": 99999999999999999, "device": "a"}, {"at": 0, "device": "a"})
    [letter] = driver.batch()
    assert letter["value"]["cause"] == "at is not a TIMESTAMP_MS: 99999999999999999"
