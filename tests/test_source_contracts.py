"""Sources hold what every source must hold."""

from __future__ import annotations

import json
import shutil

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from archives import archive
from riverrun.archive.folder import TopicArchive
from riverrun.archive.held import Archived, Held
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


@pytest.mark.broker
class TestArchive(TestKafka):
    """Half of each partition is read from an archive."""

    @pytest.fixture(autouse=True)
    def connected(self, broker, tmp_path):
        self.client, self.root = broker, tmp_path / "archive"

    def source(self, held):
        super().source(held)
        [topic] = {partition.topic for partition in held}
        archive(self.client, self.root, topic)
        archived = Archived.of(self.root, {each: Held(((0, 15),), 15) for each in held})
        return KafkaSource(self.client, archived=archived)

    def lost(self, source, partition):
        archive = TopicArchive(self.root, partition.topic)
        shutil.rmtree(archive.partition(partition.number))
        return Range(partition, 2, 10)
