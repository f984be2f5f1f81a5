"""Sources hold what every source must hold."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from riverrun.kafka import admin
from riverrun.kafka.sender import Sender
from riverrun.partitions import Range
from riverrun.sources.files import FileTopics, MemoryTopics
from riverrun.sources.kafka import KafkaSource
from riverrun.testing.contracts.sources import SourceContract


class TestMemory(SourceContract):
    def source(self, held):
        topics = MemoryTopics()
        for partition, records in held.items():
            for record in records:
                topics.append(partition.topic, record)
            topics.cut()
        return topics

    def lost(self, source, partition):
        return Range(partition, 30, 40)


class TestFiles(SourceContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.files = tmp_path

    def source(self, held):
        lines = [_line(record) for records in held.values() for record in records]
        [topic] = {partition.topic for partition in held}
        file = self.files / f"{topic}.jsonl"
        file.write_text("\n".join([*lines[:20], "", *lines[20:]]))
        return FileTopics({topic: file}, ended=False)

    def lost(self, source, partition):
        return Range(partition, 30, 40)


def _line(record):
    return json.dumps(
        {
            "value": json.loads(record.value), "key": record.key.decode(),
            "timestamp": record.timestamp, "partition": record.partition,
            "headers": dict(record.headers),
        }
    )  # fmt: skip


@pytest.mark.broker
class TestKafka(SourceContract):
    @pytest.fixture(autouse=True)
    def connected(self, broker):
        self.client = broker

    def source(self, held):
        [topic] = {partition.topic for partition in held}
        admin.create_topic(self.client, topic, partitions=len(held))
        sender = Sender(self.client, topic)
        for records in held.values():
            for record in records:
                sender.send(record)
        sender.flush()
        return KafkaSource(self.client)

    def lost(self, source, partition):
        client = AdminClient(self.client)  # answers come only as long as it is there
        for each in client.delete_records([TopicPartition(*partition, 5)]).values():
            each.result(10)
        return Range(partition, 2, 10)
