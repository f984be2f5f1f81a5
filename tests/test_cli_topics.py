"""`riverrun topics`: list, create, describe, delete."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Producer

pytestmark = pytest.mark.usefixtures("broker")


def test_a_topic_is_created_listed_described_and_deleted(riverrun):
    created = riverrun("topics", "create", "life", "--partitions", "2")
    assert created.out == "created topic life with 2 partitions\n"
    assert riverrun("topics").out.splitlines()[0].split() == [
        *("topic", "partitions", "offsets", "settings")
    ]
    assert "life" in riverrun("topics", "list").out
    assert riverrun("topics", "describe", "life").out.splitlines()[1].split() == ["0", "0", "0"]
    assert riverrun("topics", "delete", "life", "--yes").out == "deleted topic life\n"
    assert "life" not in riverrun("topics").out


def test_a_compacted_topic_shows_its_settings(riverrun):
    riverrun("topics", "create", "prices", "--compact", "--config", "segment.ms=60000")
    described = json.loads(riverrun("topics", "describe", "prices", "--json").out)
    assert described == {
        "name": "prices",
        "partitions": 1,
        "span": 0,
        "config": {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": "86400000",
            "segment.ms": "60000",
        },
        "settings": {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": "86400000",
            "max.compaction.lag.ms": "9223372036854775807",
            "delete.retention.ms": "86400000",
            "min.cleanable.dirty.ratio": "0.5",
            "segment.ms": "60000",
            "segment.bytes": "1073741824",
        },
        "offsets": [{"number": 0, "start": 0, "end": 0}],
    }


def test_records_are_counted_over_all_partitions(riverrun):
    riverrun("topics", "create", "counted", "--partitions", "3")
    riverrun("produce", "counted", stdin='{"a": 1}\n' * 5)
    listed = json.loads(riverrun("topics", "--json").out)
    assert {topic["name"]: topic["span"] for topic in listed}["counted"] == 5


def _counted(riverrun, topic):
    return json.loads(riverrun("topics", "describe", topic, "--count", "--json").out)


def test_what_is_counted_is_what_can_be_read(broker, riverrun):
    riverrun("topics", "create", "committed")
    producer = Producer({**broker, "transactional.id": "counting"})
    producer.init_transactions(30)
    for number in range(3):
        producer.begin_transaction()
        producer.produce("committed", str(number))
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if number else producer.abort_transaction(30)
    give_up = time.monotonic() + 20  # the mark of the last transaction may come a moment later
    while (described := _counted(riverrun, "committed"))["span"] < 6 and time.monotonic() < give_up:
        time.sleep(0.1)
    assert (described["records"], described["span"]) == (2, 6)
    assert len(riverrun("tail", "committed", "--from", "earliest", "-n", "9").out.splitlines()) == 2
    assert "records = 2\n" in riverrun("topics", "describe", "committed", "--count").out


def test_topics_of_kafka_itself_are_listed_only_on_request(riverrun):
    riverrun("topics", "create", "read")
    riverrun("tail", "read")
    plain, internal = (
        riverrun("topics", "--json"),
        riverrun("topics", "list", "--internal", "--json"),
    )
    assert not any(topic["name"].startswith("__") for topic in json.loads(plain.out))
    assert len(json.loads(internal.out)) >= len(json.loads(plain.out))


@pytest.mark.parametrize("action", ["describe", "delete"])
def test_a_missing_topic_is_one_clear_error(action, riverrun):
    outcome = riverrun("topics", action, "nowhere")
    assert outcome.code == 2
    assert outcome.err.startswith("error: there is no topic 'nowhere' [RR202]\n  hint: ")


def test_a_topic_that_exists_is_one_clear_error(riverrun):
    riverrun("topics", "create", "twice")
    outcome = riverrun("topics", "create", "twice")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: topic 'twice' exists already [RR202]")


def test_what_kafka_refuses_is_said_in_its_words(riverrun):
    outcome = riverrun("topics", "create", "odd", "--config", "colour=blue")
    assert outcome.code == 2
    assert "got: Unknown topic config name: colour" in outcome.err


def test_more_partitions_than_there_can_be_are_refused(riverrun):
    outcome = riverrun("topics", "create", "wide", "--partitions", "99999999")
    assert outcome.code == 2
    assert outcome.err.startswith("error: Kafka refuses [RR201]\n  where: topic 'wide'\n")
    assert "num_partitions out of expected range" in outcome.err


def test_a_setting_without_a_value_is_one_clear_error(riverrun):
    outcome = riverrun("topics", "create", "odd", "--config", "colour")
    assert outcome.code == 2
    assert outcome.err.startswith("error: a topic setting is NAME=VALUE [RR103]")


def test_a_topic_is_not_deleted_without_a_yes(riverrun):
    riverrun("topics", "create", "precious")
    outcome = riverrun("topics", "delete", "precious", stdin="n\n")
    assert outcome.code == 130
    assert "precious" in riverrun("topics").out
