"""A batch that is half written, and what may have changed when it is run again."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

import riverrun as rr
from parts import EVALUATOR, part, table
from riverrun.clock import Now
from riverrun.delivery.outbox import Outbox
from riverrun.errors import CheckpointError
from riverrun.kafka import admin
from riverrun.kernels.lots import LotReader
from riverrun.partitions import Partition, Range
from riverrun.sinks.kafka.transactions import KafkaExactlyOnce
from riverrun.sources.kafka import KafkaSource
from running import Run, kill_between_write_and_commit, last_commit, produce, records
from running import table as rows_of

pytestmark = pytest.mark.broker

PROGRAM = """
import riverrun as rr
app = rr.App("halves")
orders = app.stream("halves-orders", schema="id bigint, amount bigint", key="id")
orders.where("amount >= 0").to("halves-out")
"""


@pytest.mark.spark
def test_code_changed_over_a_half_written_batch_is_refused_until_it_is_told_what_to_keep(
    broker, broker_settings, tmp_path, once
):
    home, file = broker_settings.home, tmp_path / "halves.py"
    file.write_text(PROGRAM)
    admin.create_topic(broker, "halves-orders", partitions=2)
    sent = [{"id": n, "amount": n % 10} for n in range(40_000)]
    produce(broker, "halves-orders", sent, partitions=2)
    while True:
        with Run(file, "--max-events", "2000", home=home) as run:
            if kill_between_write_and_commit(run, broker, "halves", home):
                break
    file.write_text(PROGRAM.replace("amount >= 0", "amount >= 5"))
    changed = once(file, code=2)
    assert "was written before, with other results" in changed.error()
    assert "--keep-written" in changed.error()
    once(file, "--keep-written")
    found = [json.loads(value)["id"] for _, value in records(broker, "halves-out")]
    assert len(found) == len(set(found)), "nothing is doubled"
    missing = {each["id"] for each in sent} - set(found)
    assert all(sent[number]["amount"] < 5 for number in missing), "only what the new version drops"
    assert missing


COUNTED = """
import riverrun as rr
app = rr.App("counted", pages=4)
orders = app.stream("counted-orders", schema="id bigint, account bigint")
orders.group_by("account").agg(n=rr.count()).to("counted-out")
"""


@pytest.mark.spark
def test_state_of_a_batch_that_was_not_committed_is_not_built_upon(
    broker, broker_settings, tmp_path, once
):
    home, file = broker_settings.home, tmp_path / "counted.py"
    file.write_text(COUNTED)
    admin.create_topic(broker, "counted-orders", partitions=2)
    sent = 0
    while not newer_state(home, "counted"):
        orders = [{"id": n, "account": n % 50} for n in range(sent, sent + 10_000)]
        produce(broker, "counted-orders", orders, partitions=2)
        sent += len(orders)
        with Run(file, "--max-events", "500", home=home) as run:
            kill_between_write_and_commit(run, broker, "counted", home)
    for each in newer_state(home, "counted"):  # as if another program had written it
        each.write_bytes(b"")
    once(file)
    produce(broker, "counted-orders", [{"id": sent, "account": 0}])
    once(file)
    found = {row["account"]: row["n"] for row in rows_of(broker, "counted-out").values()}
    assert found == {n: sent // 50 + (n == 0) for n in range(50)}


def newer_state(home, app):
    """Of batches after the last one that was committed; they are counted from one there."""
    found = (home / "checkpoints" / app / "query" / "state").rglob("*.pages")
    return [each for each in found if int(each.name.split("-")[0]) > last_commit(home, app) + 1]


def test_a_row_that_moves_to_another_group_while_its_batch_is_half_written(broker):
    """ann moves from Berlin to Paris: the groups are in two tasks, and one of them is killed."""
    admin.create_topic(broker, "moving-cities", config={"cleanup.policy": "compact"})
    sink = KafkaExactlyOnce(broker)
    sink.take_over("moving", 1)
    berlin, paris = part("moving", 0), part("moving", 0, task=1)
    sink.deliver(berlin, [table("moving-cities", (1, "Berlin", 2))], EVALUATOR)
    sink.deliver(paris, [table("moving-cities", (1, "Paris", 7))], EVALUATOR)
    leaves = [table("moving-cities", (-1, "Berlin", 2), (1, "Berlin", 1))]
    comes = [table("moving-cities", (-1, "Paris", 7), (1, "Paris", 8))]
    sink.deliver(part("moving", 1), leaves, EVALUATOR)  # and here it is killed
    heir = KafkaExactlyOnce(broker)
    heir.take_over("moving", 2)
    for task, changes in ((0, leaves), (1, comes)):
        heir.deliver(part("moving", 1, task=task, run=2), changes, EVALUATOR)
    found = {city: row["n"] for city, row in rows_of(broker, "moving-cities").items()}
    assert found == {"Berlin": 1, "Paris": 8}
    assert len(records(broker, "moving-cities")) == 4, "each change is written once"


def test_a_compacted_source_that_is_read_again_is_noticed(broker):
    """Between a half-written batch and its second run, compaction removes rows of the source."""
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "500",
        "min.compaction.lag.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    admin.create_topic(broker, "compacted-users", config=config)
    for city in ("Rome", "Oslo", "Bern"):
        _put(broker, "compacted-users", f"ann lives in {city}")
    app = rr.App("compacted")
    app.stream("compacted-users", schema="text string").to("compacted-out")
    program = app.program()
    sink = KafkaExactlyOnce(broker)
    sink.prepare([output for output in program.outputs if output.name == "compacted-out"])
    sink.take_over("compacted", 1)
    before = _read(broker, program)
    assert [rows.num_rows for _, rows in before] == [3]
    sink.deliver(part("compacted", 0), before, EVALUATOR)
    _let_compact(broker, "compacted-users")
    give_up = time.monotonic() + 120
    while sum(rows.num_rows for _, rows in _read(broker, program)) == 3:
        assert time.monotonic() < give_up, "the broker does not compact"
        _put(broker, "compacted-users", "tick", key="other")
        time.sleep(0.5)
    with pytest.raises(CheckpointError, match="with other results"):
        KafkaExactlyOnce(broker).deliver(part("compacted", 0), _read(broker, program), EVALUATOR)
    fresh = part("compacted", 0, checkpoint="c2", run=2)
    KafkaExactlyOnce(broker).deliver(fresh, _read(broker, program), EVALUATOR)
    texts = [json.loads(value)["text"] for _, value in records(broker, "compacted-out")]
    assert texts.count("ann lives in Bern") == 2, "the last row of a key is never compacted"
    assert texts.count("ann lives in Rome") == 1


def _let_compact(broker, topic):
    at_once = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
    client = AdminClient(broker)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[at_once])
    client.incremental_alter_configs([resource])[resource].result()


def _put(broker, topic, text, key="ann"):
    producer = Producer(broker)
    producer.produce(topic, json.dumps({"text": text}), key)
    assert producer.flush(10) == 0


def _read(broker, program):
    """The rows of the first three offsets, as a task would write them."""
    source = KafkaSource(broker)
    reader, outbox = LotReader(program), Outbox(program, EVALUATOR, source.originals)
    for lot in source.lots([Range(Partition("compacted-users", 0), 0, 3)], frozenset()):
        for chunk in reader.read(lot, Now(0, False, None)).chunks:
            outbox.add(chunk)
    return list(outbox.outputs())
