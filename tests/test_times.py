"""When an event happened: repaired device clocks, append time, processing time."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.testing import Driver
from timed import FIVE, NOON, counted


def repaired(schema="device string, at timestamp, sent_at timestamp", **options):
    app = rr.App("iot", pages=2)
    time = rr.device_time(occurred="at", sent="sent_at", **options)
    stream = app.stream("t", schema=schema, time=time)
    stream.to("all")
    stream.group_by("device", name="devices").window(FIVE).agg(n=rr.count()).to("out")
    return Driver(app)


def test_a_device_whose_clock_is_wrong_by_hours_is_put_right():
    out = repaired().run(
        t="""
        device | at       | sent_at  | _timestamp
        right  | 12:00    | 12:01    | 12:01
        slow   | 09:00    | 09:01    | 12:01
        fast   | 17:00    | 17:00:10 | 12:00:10
        right  | 12:06    | 12:06    | 12:06
    """
    )
    out.of("all").assert_is("""
        device | event_time | clock_offset | clock_suspect
        right  | 12:00      | 0            | false
        slow   | 12:00      | 10800000     | false
        fast   | 12:00      | -18000000    | false
        right  | 12:06      | 0            | false
    """)
    out.of("out").assert_is("""
        window_start | device | n
        12:00        | fast   | 1
        12:00        | right  | 1
        12:00        | slow   | 1
    """)


def test_an_offset_that_cannot_be_is_flagged_and_not_believed():
    driver = repaired(max_offset="6 hours")
    driver.run(
        t="""
        device | at                   | sent_at              | _timestamp
        edge   | 06:00                | 06:00                | 12:00
        far    | 05:59:59             | 05:59:59             | 12:00
        future | 2099-01-01T00:00:00Z | 2099-01-01T00:00:00Z | 12:00
        odd    | 12:00:01             | 12:00                | 12:00
    """
    ).assert_is("""
        output | device | event_time | clock_offset   | clock_suspect
        all    | edge   | 12:00      | 21600000       | false
        all    | far    | 12:00      | 21601000       | true
        all    | future | 12:00      | -2303640000000 | true
        all    | odd    | 12:00      | 0              | true
    """)


def test_a_gateway_can_say_when_it_received_a_record():
    schema = "device string, at timestamp, sent_at timestamp, gateway timestamp_ms"
    driver = repaired(schema, received="gateway")
    driver.run(
        t="""
        device | at    | sent_at | gateway
        a      | 11:00 | 11:01   | 12:01
    """
    ).assert_is("""
        device | event_time | gateway | clock_offset
        a      | 12:00      | 12:01   | 3600000
    """)


def test_what_is_missing_for_a_device_time_is_told():
    driver = repaired()
    driver.run(
        t="""
        device | at    | sent_at | _timestamp
        a      |       | 12:00   | 12:00
        a      | 12:00 |         | 12:00
        a      | 12:00 | 12:00   | 1970-01-01T00:00:00Z
    """
    ).assert_is("""
        step   | cause
        decode | no time: the record has no timestamp
        decode | no time: at is missing
        decode | no time: sent_at is missing
    """)


def test_clocks_beyond_all_ranges_do_not_stop_the_job():
    driver = repaired()
    far, low = "290000-01-01T00:00:00Z", "290000-01-01 (BC) 00:00:00Z"
    for at, sent in [(far, low), (low, far), ("infinity", "infinity"), (low, NOON)]:
        value = {"device": "a", "at": at, "sent_at": sent}
        driver.send("t", value, timestamp=1_767_268_800_000)
    assert driver.batch() != []
    assert len(driver.outputs["all"]) + driver.status.dead == 4


def test_append_time_is_the_records_timestamp():
    driver = counted("device string", time=rr.append_time())
    driver.run(
        t="""
        device | _timestamp
        a      | 12:00
        a      | 12:05
    """
    ).assert_is("""
        window_start | device | n
        12:00        | a      | 1
    """)


def test_processing_time_is_that_of_the_batch_and_a_replay_gives_the_same():
    driver = counted("device string", time=rr.processing_time(), now=NOON)
    lines = driver.run(t="device | _timestamp\n a | 2020-01-01T00:00:00Z\n b |")
    lines += driver.pass_time("4 minutes")
    lines += driver.run(t="device\n a")
    lines += driver.pass_time("1 minute")
    lines.assert_is("""
        window_start | device | n | revision
        12:00        | a      | 2 | 0
        12:00        | b      | 1 | 0
    """)
    lines += driver.run(t="device\n a")
    assert driver.status.late == {"devices": 0}
    assert driver.replay() == lines


def test_processing_time_survives_crashes_and_restarts():
    driver = counted("device string", time=rr.processing_time(), now=NOON)
    driver.send("t", {"device": "a"})
    driver.crash()
    assert driver.batch() == []
    driver.restart()
    driver.pass_time("5 minutes").assert_is("""
        window_start | device | n
        12:00        | a      | 1
    """)


SCHEMA = "device string, at timestamp, tags string[], clock_offset bigint"
read = rr.App("iot").stream
MISTAKES = {
    "there is no column 'divice'": lambda: read("t", schema=SCHEMA, producer="divice"),
    "'tags' is VARCHAR[], and cannot": lambda: read("t", schema=SCHEMA, producer="tags"),
    "there is no column 'kind'": lambda: read("t", schema=SCHEMA, punctuation="kind = 1"),
    "a condition must be true or false": lambda: read("t", schema=SCHEMA, punctuation="device"),
    "now() cannot be used": lambda: read("t", schema=SCHEMA, punctuation='now() > "at"'),
    "a duration cannot be read": lambda: read("t", schema=SCHEMA, max_ahead="a day"),
    "time is a column, an expression, or made by": lambda: read("t", schema=SCHEMA, time=5),
    "the column name 'clock_offset' is": lambda: read(
        "t", schema=SCHEMA, time=rr.device_time(occurred="at", sent="at")
    ),
    "there is no column 'sent'": lambda: read(
        "t", schema="at timestamp", time=rr.device_time(occurred="at", sent="sent")
    ),
    "the time column 'n' is BIGINT": lambda: read(
        "t", schema="at timestamp, n bigint", time=rr.device_time(occurred="at", sent="n")
    ),
    "lateness has no meaning with": lambda: read(
        "t", schema=SCHEMA, time=rr.processing_time(), lateness="1 s"
    ),
    "producer has no meaning with": lambda: read(
        "t", schema=SCHEMA, time=rr.processing_time(), producer="device"
    ),
    "late_alert is a share": lambda: (
        read("t", schema=SCHEMA).group_by("device").window(FIVE, late_alert=1)
    ),
}


@pytest.mark.parametrize("fact", MISTAKES)
def test_a_mistake_is_an_error_at_its_own_line(fact):
    mistake = MISTAKES[fact]
    with pytest.raises(rr.ProgramError) as caught:
        mistake()
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.file == __file__
    first = mistake.__code__.co_firstlineno
    assert first <= caught.value.where.line <= first + 1
