"""Log compaction: what it leaves is the table, and what it may take is told before."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Producer

import riverrun as rr
from riverrun.durations import UNITS
from riverrun.kafka import admin, compaction
from riverrun.kafka.compaction import Left, left
from riverrun.partitions import Partition, Range
from riverrun.runtime.compaction import compaction_warnings
from riverrun.sinks.kafka.transactions import KafkaExactlyOnce
from riverrun.sources.kafka import KafkaSource
from riverrun.testing import Driver

pytestmark = pytest.mark.broker

QUICK = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1",
    "min.compaction.lag.ms": "0",
}
NOBODY = "tick"


def _put(broker, topic, rows, *, transactional=False):
    """Rows by key; None deletes."""
    own = {"transactional.id": f"{topic}-{time.time_ns()}"} if transactional else {}
    producer = Producer({**broker, **own})
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    for key, row in rows:
        value = None if row is None else json.dumps({"id": key, "city": row})
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0
    if transactional:
        producer.commit_transaction(30)


def _until_cleaned(broker, topic, good):
    """New segments make the cleaner run; a key of nobody makes them."""
    give_up = time.monotonic() + 120
    while not good(counts := left(broker, topic, lambda done, total: None)[0]):
        assert time.monotonic() < give_up, f"the broker does not compact: {counts.facts()}"
        _put(broker, topic, [(NOBODY, str(time.time_ns()))])
        time.sleep(0.5)
    return counts


def _read_again(broker, topic, cuts, reader):
    """What a new consumer makes of the topic alone, read in ranges that end at these offsets."""
    app = rr.App("again")
    app.table(topic, schema="id string, city string", key="id").to("copy")
    driver, source = Driver(app), KafkaSource(broker, reader)
    for start, end in zip([0, *cuts], cuts, strict=False):
        for lot in source.lots([Range(Partition(topic, 0), start, end)], frozenset()):
            for record in lot.records.to_pylist():
                driver.send(topic, record["__value"], key=record["__key"].decode())
        driver.batch()
    assert not driver.outputs["dead"]
    return {row["id"]: row["city"] for row in driver.table("copy") if row["id"] != NOBODY}


def test_the_compacted_log_alone_gives_the_whole_table(broker, riverrun):
    """Many versions, deletions, transactions; then the cleaner has run, and marks have expired."""
    topic, expected = "gone-users", {}
    admin.create_topic(broker, topic, config={"cleanup.policy": "compact"})
    for turn in range(12):
        rows = [(f"u{n}", f"city {turn}-{n}") for n in range(0, 40, 1 + turn % 3)]
        rows += [(f"u{n}", None) for n in range(turn, 40, 13)]
        _put(broker, topic, rows, transactional=turn % 2 == 0)
        expected |= dict(rows)
    gone = {key for key, city in expected.items() if city is None}
    expected = {key: city for key, city in expected.items() if city is not None}
    before = left(broker, topic, lambda done, total: None)[0]
    assert before.superseded > 150
    assert gone
    assert before.tombstones > len(gone)

    admin.alter_topic(broker, topic, QUICK)
    counts = _until_cleaned(
        broker, topic, lambda c: c.records < 60 and c.keys <= len(expected) + 1 and not c.tombstones
    )
    end = admin.describe(broker, topic).partitions[0].end
    assert counts.records < end // 3
    for reader in ("direct", "public"):
        for cuts in ([end], [*range(7, end, 7), end]):  # most ranges lie in gaps
            assert _read_again(broker, topic, cuts, reader) == expected

    described = json.loads(riverrun("topics", "describe", topic, "--count", "--json").out)
    assert described["records"] < described["span"]
    assert described["settings"]["delete.retention.ms"] == "1"
    assert described["tombstones"] == 0
    shown = riverrun("topics", "describe", topic, "--count").out
    assert "offsets without a record = " in shown
    assert "min.cleanable.dirty.ratio = 0.01\n" in shown
    assert "max.compaction.lag.ms = 9223372036854775807 (the broker's)\n" in shown


def test_what_is_left_is_counted_by_key():
    class Message:
        def __init__(self, key, value):
            self.key, self.value = lambda: key, lambda: value

    counts = Left()
    for key, value in ((b"a", b"1"), (b"b", b"22"), (b"a", None), (None, b"333"), (b"a", b"4")):
        counts.add(Message(key, value))
    assert counts.facts() == {
        "records": 5, "keys": 2, "tombstones": 1, "bytes": 11, "superseded": 2,
        "superseded_bytes": 3,
    }  # fmt: skip


def test_topics_of_tables_that_are_made_keep_records_for_a_day_or_as_the_settings_say(
    broker, monkeypatch, tmp_path
):
    app = rr.App("made")
    views = app.stream("made-views", schema="page string")
    views.group_by("page").agg(n=rr.count()).to("made-counts")
    views.to("made-copy")
    outputs = [each for each in app.program().outputs if each.name != "dead"]
    KafkaExactlyOnce(broker).prepare(outputs)
    settings = admin.settings(broker, "made-counts")
    assert settings["min.compaction.lag.ms"] == str(UNITS["day"] // 1000)
    assert admin.settings(broker, "made-copy")["cleanup.policy"] == "delete"
    admin.delete_topic(broker, "made-counts")
    KafkaExactlyOnce(broker, 5000).prepare(outputs)
    assert admin.settings(broker, "made-counts")["min.compaction.lag.ms"] == "5000"


def joined(history="7 days"):
    app = rr.App("warned")
    clicks = app.stream("warned-clicks", schema="user string, at timestamp", time="at")
    users = app.table("warned-users", schema="user string, city string", key="user")
    clicks.join(users, on="user", as_of="event time", history=history).to("warned-out")
    return app


def test_topics_that_compaction_may_take_too_much_from_are_told(broker, riverrun, tmp_path):
    admin.create_topic(broker, "warned-clicks")
    admin.create_topic(broker, "warned-users", config={"cleanup.policy": "compact"})
    program = joined().program()
    found = compaction_warnings(program, broker)
    assert len(found) == 2
    assert found[0].startswith("the topic warned-users is compacted at once: a batch that is run")
    assert "joins versions of warned-users, which is compacted at once" in found[1]
    file = tmp_path / "app.py"
    file.write_text(
        """
import riverrun as rr
app = rr.App("warned")
users = app.table("warned-users", schema="user string, city string", key="user")
users.to("warned-copy")
"""
    )
    assert (
        "warning: the topic warned-users is compacted at once" in riverrun("check", str(file)).out
    )
    [warning] = json.loads(riverrun("check", str(file), "--json").out)["warnings"]
    command = warning.partition("`riverrun ")[2].partition("`")[0].split()
    assert riverrun(*command).out == "warned-users: min.compaction.lag.ms = 86400000\n"
    assert "warning" not in riverrun("check", str(file)).out
    [left_over] = compaction_warnings(program, broker)
    assert "which is compacted after 1 day" in left_over
    assert compaction_warnings(joined("1 hour").program(), broker) == []


def test_settings_of_a_topic_are_changed_and_given_back(broker, riverrun):
    admin.create_topic(broker, "altered")
    out = riverrun("topics", "alter", "altered", "segment.ms=60000", "cleanup.policy=compact").out
    assert out == "altered: segment.ms = 60000\naltered: cleanup.policy = compact\n"
    back = riverrun("topics", "alter", "altered", "segment.ms=", "--json")
    assert json.loads(back.out) == {"altered": "altered", "config": {"cleanup.policy": "compact"}}
    assert "is the broker's" in riverrun("topics", "alter", "altered", "cleanup.policy=").out
    for wrong, fact in (
        (("altered", "segment.ms=soon"), "Kafka refuses"),
        (("altered", "nonsense=1"), "Kafka refuses"),
        (("altered", "segment.ms"), "a topic setting is NAME=VALUE"),
        (("nowhere", "segment.ms=60000"), "there is no topic 'nowhere'"),
    ):
        outcome = riverrun("topics", "alter", *wrong)
        assert outcome.code == 2
        assert fact in outcome.err
    assert admin.describe(broker, "altered").config == {}


def test_what_decides_is_shown_by_policy():
    both = {"cleanup.policy": "compact,delete", "retention.ms": "1", "min.compaction.lag.ms": "2"}
    assert compaction.deciding(both) == both
    only = {"cleanup.policy": "delete", "retention.ms": "1", "min.compaction.lag.ms": "2"}
    assert list(compaction.deciding(only)) == ["cleanup.policy", "retention.ms"]
