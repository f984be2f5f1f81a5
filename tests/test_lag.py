"""How far reading is behind: rates, retention, the group that Kafka's tools see, the command."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Producer

import riverrun as rr
from riverrun.cli.lag import warning
from riverrun.kafka import admin
from riverrun.kafka.backlog import Backlog, Retention, backlogs
from riverrun.kafka.lag import LAG, LagBook, Rates, noted
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition
from riverrun.sources import kafka as sources_kafka
from riverrun.sources.kafka import KafkaPlanner
from riverrun.sources.pacing import Pacer
from riverrun.sources.source import Circumstances

A = Partition("a", 0)


def backlog(**changes):
    facts = {
        "partition": A, "read": 100, "start": 0, "end": 1_100, "behind_seconds": 50.0,
        "rate_in": 10.0, "rate_out": 110.0,
    }  # fmt: skip
    return Backlog(**facts | changes)


def test_rates_are_of_the_last_minute():
    rates = Rates()
    assert rates.of(A) is None
    for second in range(200):
        rates.note(second, {A: second * 10 if second < 100 else 1000 + (second - 100) * 30})
    assert rates.of(A) == pytest.approx(30)
    assert rates.of(Partition("b", 0)) is None
    assert len(rates.samples) < 70


def test_samples_in_quick_succession_are_one():
    rates = Rates()
    for hundredth in range(1000):
        rates.note(hundredth / 100, {A: hundredth})
    assert len(rates.samples) <= 12
    assert rates.of(A) == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize(
    ("facts", "seconds"),
    [
        ({}, 10.0),
        ({"read": 1_100}, 0.0),
        ({"rate_out": 10.0}, None),
        ({"rate_out": 0.0}, None),
        ({"rate_in": None}, None),
    ],
)
def test_the_time_to_catch_up_is_that_of_the_rates(facts, seconds):
    assert backlog(**facts).catch_up_seconds == seconds


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, None),
        ({"retention": Retention(seconds=60)}, "will be deleted in about 10.0 s"),
        ({"retention": Retention(seconds=63)}, None),
        ({"retention": Retention(seconds=40)}, "will be deleted in about 0.0 s"),
        ({"retention": Retention(seconds=60), "read": 1_100}, None),
        ({"start": 90, "retention": Retention(bytes=1)}, "will be deleted in about 1.0 s"),
        ({"start": 0, "retention": Retention(bytes=1)}, None),
        ({"start": 10, "read": 600, "retention": Retention(bytes=1)}, None),
        ({"start": 150}, "50 unread records have been deleted"),
    ],
)
def test_a_warning_comes_before_retention_deletes_unread_records(facts, text):
    found = warning(backlog(**facts))
    assert found == text or (found is not None and found.endswith(str(text)))


def planner(broker, topic, file, **options):
    app = rr.App(f"{topic}-app")
    app.stream(topic, schema="n int").to(f"{topic}-out")
    program, topics = app.program(), KafkaTopics(broker)
    book = LagBook(program.name, topics.admin, file)
    pacer = Pacer(options["most"], None)
    return KafkaPlanner(Circumstances(program, pacer, lambda: None, file.parent), topics, book)


def send(broker, topic, count, **options):
    producer = Producer(broker)
    for number in range(count):
        producer.produce(topic, str(number), partition=number % 2, **options)
    assert producer.flush(10) == 0


@pytest.mark.broker
def test_the_offsets_of_committed_batches_are_those_of_the_consumer_group(
    broker, broker_settings, riverrun
):
    admin.create_topic(broker, "lagging", partitions=2)
    send(broker, "lagging", 100, timestamp=int((time.time() - 90) * 1000))
    folder = broker_settings.home / "runs" / "lagging-app" / "status"
    folder.mkdir(parents=True)
    plan = planner(broker, "lagging", folder / LAG, most=40)
    plan.stop_at_end()
    first = plan.next(plan.first())
    second = plan.next(first)
    assert plan.book is not None
    plan.book.close()
    assert admin.group_offsets(broker, "lagging-app") == {("lagging", 0): 20, ("lagging", 1): 20}
    found = noted(folder / LAG)
    assert found is not None
    assert found["partitions"]["lagging/0"]["read"] == second.ends[Partition("lagging", 0)] == 40

    rows = json.loads(riverrun("lag", "lagging-app", "--json").out)
    assert [(row["topic"], row["partition"], row["read"], row["behind"]) for row in rows] == [
        ("lagging", 0, 20, 30),
        ("lagging", 1, 20, 30),
    ]
    assert all(85 < row["behind_seconds"] < 120 for row in rows)
    outcome = riverrun("lag", "lagging-app", "--fail-above", "59")
    assert outcome.code == 1
    assert outcome.out.splitlines()[-1].split() == ["lagging-app", "total", "60"]
    assert riverrun("lag", "lagging-app", "--fail-above", "60").code == 0
    assert "lagging-app" in riverrun("lag").out

    third = plan.next(second)
    assert plan.next(third) is third
    rows = json.loads(riverrun("lag", "lagging-app", "--json").out)
    assert [(row["behind"], row["behind_seconds"]) for row in rows] == [(0, 0.0), (0, 0.0)]
    assert [row["catch_up_seconds"] for row in rows] == [0.0, 0.0]


@pytest.mark.broker
def test_what_retention_will_delete_is_told_from_the_settings_of_the_topic(broker, tmp_path):
    config = {"retention.ms": "100000"}
    admin.create_topic(broker, "short-lived", partitions=2, config=config)
    send(broker, "short-lived", 10, timestamp=int((time.time() - 90) * 1000))
    plan = planner(broker, "short-lived", tmp_path / LAG, most=4)
    plan.next(plan.first())
    assert plan.book is not None
    plan.book.close()
    [first, _] = backlogs(broker, "short-lived-app", None)
    assert first.deleted_in_seconds == pytest.approx(10, abs=5)
    assert first.rate_out is None, "nobody here knows of the job"


@pytest.mark.broker
def test_a_clock_that_jumps_neither_stops_batches_nor_goes_back(broker, tmp_path, monkeypatch):
    admin.create_topic(broker, "jumping", partitions=2)
    send(broker, "jumping", 40)
    plan = planner(broker, "jumping", tmp_path / LAG, most=10)
    end, ticks, day = plan.first(), [], 86_400_000_000
    for moment in (10 * day, 11 * day, 9 * day, 10 * day):
        monkeypatch.setattr(sources_kafka, "_now", lambda moment=moment: moment)
        end = plan.next(end)
        ticks.append(end.tick // day)
    assert ticks == [10, 11, 11, 11]
    assert sum(end.ends.values()) == 40


@pytest.mark.broker
def test_an_application_that_never_ran_is_one_clear_error(broker, riverrun):
    outcome = riverrun("lag", "nobody")
    assert outcome.code == 2
    assert "nothing is known of the application 'nobody'" in outcome.err


@pytest.mark.broker
def test_a_broker_that_is_away_does_not_stop_the_job(tmp_path):
    topics = KafkaTopics({"bootstrap.servers": "127.0.0.1:1"})
    book = LagBook("away", topics.admin, tmp_path / "missing" / LAG)
    views = Partition("views", 0)
    book.stands({views: 3})
    book.plans({views: 3}, {views: 9}, batch=0, targets={})
    book.close()
    assert noted(book.file) is None
