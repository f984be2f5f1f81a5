"""A backfill is right and fast: in order of event time, with few rows waiting, and no window that
closes early. What is read of each partition is planned as for Kafka; Spark is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import riverrun as rr
from backfilling import Backfill
from riverrun.cli.live import LiveView
from riverrun.cli.progress import Lines
from riverrun.delivery.status import last_status, note_status
from riverrun.kafka.lag import to_go
from riverrun.kafka.records import Record
from riverrun.kernels.messages import Status
from riverrun.partitions import Partition
from riverrun.sources.files import MemoryTopics
from year import EMPTY, PARTITIONS, Year, program

START, HOUR, DAY = 1_735_689_600_000, 3_600_000, 86_400_000


def topics_of(records: Mapping[tuple[str, int], list[int]]) -> MemoryTopics:
    """Records by partition, each of its time in hours."""
    topics = MemoryTopics()
    for (topic, number), hours in records.items():
        for hour in hours:
            value = f'{{"k": "a", "at": {START + hour * HOUR}}}'
            topics.append(topic, Record(value.encode(), None, 0, number, {}))
    return topics


def counted_by_day(topics: MemoryTopics, partitions: dict[str, int], folder, **how) -> Backfill:
    """How many rows each day has, of all topics together."""
    app = rr.App("counted", pages=1)
    streams = [app.stream(t, schema="k string, at timestamp_ms", time="at") for t in partitions]
    every = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
    every.group_by("k", name="days").window(rr.tumbling("1 day")).agg(n=rr.count()).to("days")
    return Backfill(app, "days", topics, partitions, folder, **how)


def days_of(run: Backfill) -> dict[int, int]:
    """Rows of each day; one that was told twice would have closed early."""
    found = {int(row["window_start"].timestamp() * 1000 - START) // DAY: row for row in run.rows}
    assert len(found) == len(run.rows)
    return {day: row["n"] for day, row in sorted(found.items())}


@pytest.mark.parametrize("most", [60, 100_000])
def test_a_partition_without_records_holds_nothing_back(tmp_path, monkeypatch, most):
    topics = topics_of({("a", 0): [*range(240)], ("a", 1): [*range(240)]})
    run = counted_by_day(topics, {"a": 3}, tmp_path, most=most).run(monkeypatch)
    assert days_of(run) == dict.fromkeys(range(10), 48)
    assert not run.late


@pytest.mark.parametrize("most", [60, 100_000])
def test_a_topic_that_starts_later_waits_for_the_others(tmp_path, monkeypatch, most):
    topics = topics_of({("a", 0): [*range(2400)], ("later", 0): [*range(1200, 2400)]})
    run = counted_by_day(topics, {"a": 1, "later": 1}, tmp_path, most=most).run(monkeypatch)
    assert days_of(run) == {day: 24 if day < 50 else 48 for day in range(100)}
    assert not run.late
    if most == 60:
        # of the later one only a look was read until the others got there
        before = [b for b in run.batches if b.ends[Partition("a", 0)] < 1000]
        assert len(before) > 5
        assert max(b.ends[Partition("later", 0)] for b in before) <= 120


@pytest.mark.parametrize("most", [60, 100_000])
def test_a_topic_that_ended_holds_nothing_back_once_it_is_read(tmp_path, monkeypatch, most):
    """Though it was read just now, by the wall clock."""
    topics = topics_of({("a", 0): [*range(2400)], ("ended", 0): [*range(600)]})
    how = {"most": most, "took": 1000}
    run = counted_by_day(topics, {"a": 1, "ended": 1}, tmp_path, **how).run(monkeypatch)
    assert days_of(run) == {day: 48 if day < 25 else 24 for day in range(100)}
    assert not run.late
    if most == 60:
        clock = START * 1000 + 40 * DAY * 1000
        ticks = [b.tick for b in run.batches if (b.clocks or {}).get("days", 0) >= clock]
        assert len(ticks) > 20, "days close as they are read, not when all is read"


def test_a_run_that_goes_on_does_not_wait_for_a_topic_that_was_silent_before_it_was_read(
    tmp_path, monkeypatch
):
    """Its end has not moved for longer than `idle`, 10 seconds, while the others were read."""
    topics = topics_of({("a", 0): [*range(2400)], ("ended", 0): [*range(1200)]})
    how = {"most": 60, "once": False, "close": False, "took": 1_000_000}
    partitions = {"a": 1, "ended": 1}
    run = counted_by_day(topics, partitions, tmp_path, **how).run(monkeypatch, batches=50)
    ended, a = Partition("ended", 0), Partition("a", 0)
    [read] = [b for b in run.batches if b.came]
    assert read.came.keys() == {ended}
    after = run.batches[run.batches.index(read) + 2]
    # the clock as it stood before that batch: it followed the other topic at once
    assert after.clocks["days"] > (START + 1220 * HOUR) * 1000
    assert after.ends[a] < 1400
    assert not run.late


def test_a_load_after_which_more_may_come_keeps_its_windows_open(tmp_path, monkeypatch):
    """Without --close what is read next of a topic is not late because the others are further."""
    topics = topics_of({("a", 0): [*range(240)], ("b", 0): [*range(48)]})
    how = {"most": 100_000, "close": False}
    run = counted_by_day(topics, {"a": 1, "b": 1}, tmp_path, **how).run(monkeypatch)
    assert days_of(run) == {0: 48}
    assert run.batches[-1].over == []


@pytest.fixture(scope="module")
def year() -> Year:
    return Year(50_000)


@pytest.fixture(scope="module")
def topics(year: Year) -> MemoryTopics:
    found = MemoryTopics()
    for topic, count in PARTITIONS.items():
        for number in range(count):
            rows = year.values(topic, number)
            for value, key, at in zip(*(c.to_pylist() for c in rows.columns), strict=True):
                found.append(f"y-{topic}", Record(value.encode(), key.encode(), at, number, {}))
    return found


@pytest.mark.parametrize("most", [4_000, 15_000])
def test_a_year_of_three_topics_is_what_duckdb_makes_of_it(
    tmp_path, monkeypatch, year, topics, most
):
    """`make replay-year` is the long form, on Kafka and Spark."""
    assert Partition(f"y-{EMPTY[0]}", EMPTY[1]) not in topics.records
    assert 0.18 < year.out_of_order() < 0.22
    partitions = {f"y-{topic}": count for topic, count in PARTITIONS.items()}
    run = Backfill(program("y"), "y-days", topics, partitions, tmp_path, most).run(monkeypatch)
    names = ("region", "n", "amount", "priced", "taxed", "mixed")
    found = [
        (int(row["window_start"].timestamp() * 1000), *(row[name] for name in names))
        for row in run.rows
    ]
    assert len(found) == len(set(found))
    assert set(found) == year.days()
    assert not run.late
    assert 0 < max(run.waited) < 0.05 * year.events


def lag(left: int, rate_out: float | None, rate_in: float | None = 0.0) -> dict[str, Any]:
    facts = {"read": 100, "end": 100 + left, "rate_out": rate_out, "rate_in": rate_in}
    idle = {"read": 7, "end": 7, "rate_out": 0.0, "rate_in": 0.0}
    return {"partitions": {"a/0": facts, "a/1": idle}, "loading": {}}


@pytest.mark.parametrize(
    ("noted", "seconds"),
    [
        (lag(9000, 100.0), 90),
        (lag(9000, 100.0, 40.0), 150),
        (lag(9000, 100.0, 100.0), None),
        (lag(9000, None, None), None),
    ],
)
def test_the_time_to_go_is_what_is_left_by_the_rates_of_the_last_minute(noted, seconds):
    assert to_go(noted) == seconds


def test_a_run_that_catches_up_tells_how_long_and_how_many_rows_wait(capsys):
    note = {
        "batch": 3, "events": 500, "written": {}, "late": {}, "dead": 0, "shown": [], "clocks": {},
        "holders": {}, "rows": {}, "alerts": [], "tick": 0, "waiting": {"priced": 40, "days": 2},
        "lag": lag(9000, 100.0),
    }  # fmt: skip
    LiveView("shop").show(note)
    told = capsys.readouterr().out
    assert ", 9,000 behind, about 1 min 30 s to go, 42 rows waiting, late 0" in told


def test_off_a_terminal_a_line_tells_now_and_then_how_far_it_is(capsys):
    now = [0.0]
    tell = Lines("records", lambda: now[0])
    for at, done in ((20, 1000), (25, 2000), (31, 12_000), (39, 20_000), (41, 32_000)):
        now[0] = at
        tell(done, 100_000)
    assert capsys.readouterr().err.splitlines() == [
        "12,000 of 100,000 records, 12%, about 88 s to go",
        "32,000 of 100,000 records, 32%, about 34 s to go",
    ]


def test_a_status_keeps_the_most_that_waited(tmp_path):
    for number, waiting in enumerate([{"a": 5}, {"a": 9, "b": 2}, {"a": 1}]):
        note_status(tmp_path, {}, (number, Status(waiting=waiting), []))
    status = last_status(tmp_path)
    assert status is not None
    assert (status["waiting"], status["most_waiting"]) == ({"a": 1}, 11)
