"""The table that a compacted topic holds: of each key its last record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import duckdb
import pyarrow as pa

from riverrun.errors import BrokerError
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.topics import KafkaTopics
from riverrun.outputs import OutputSpec
from riverrun.partitions import Partition, Range

PIECE = 200_000
"""Offsets that are read together."""
ROWS = 50_000
PATIENCE = 180.0
PAUSE = 0.005


class Compacted:
    def __init__(self, client: Mapping[str, str], output: OutputSpec) -> None:
        topic = output.sink.kafka_topic()
        assert topic is not None
        self.output, self.topic = output, topic
        self.topics, self.reader = KafkaTopics(client), RangeReader(client)

    def settled(self) -> list[Range]:
        count = self.topics.facts([self.topic])[self.topic].partitions
        return settled(self.topics, [Partition(self.topic, number) for number in range(count)])

    def rows(self, ranges: list[Range]) -> Iterator[pa.Table]:
        """The rows that are there, as the output's format reads them."""
        for records in self.records(ranges):
            read = self.output.format.read_back(records, self.output.schema, self.output.key)
            yield read.select(list(self.output.schema.names))

    def records(self, ranges: list[Range]) -> Iterator[pa.Table]:
        """`__key` and `__value` of the last record of each key that is there."""
        with duckdb.connect() as connection:
            connection.execute("CREATE TABLE told (key BLOB, value BLOB, place BIGINT)")
            for found in self._read(ranges):
                connection.register("found", found)
                connection.execute("INSERT INTO told SELECT * FROM found")
                connection.unregister("found")
            last = "arg_max_null(value, place) AS __value"
            standing = connection.sql(
                f"SELECT key AS __key, {last} FROM told GROUP BY key HAVING __value IS NOT NULL"
            )
            reader: pa.RecordBatchReader = standing.to_arrow_reader(ROWS)
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def _read(self, ranges: list[Range]) -> Iterator[pa.Table]:
        for partition, start, end in ranges:
            cuts = range(start, end, PIECE)
            pieces = [[Range(partition, cut, min(cut + PIECE, end))] for cut in cuts]
            for found in self.reader.read(pieces):
                for records in found.values():
                    told = records.select(["__key", "__value", "__offset"])
                    yield told.rename_columns(["key", "value", "place"])


def settled(topics: KafkaTopics, partitions: list[Partition]) -> list[Range]:
    """All that is in them now, once each transaction that has written of it is over."""
    ends = topics.ends(partitions, committed=False)
    give_up = time.monotonic() + PATIENCE
    while any(end < ends[each] for each, end in topics.ends(partitions).items()):
        if time.monotonic() > give_up:
            raise BrokerError("a transaction does not end", where=partitions[0].topic)
        time.sleep(PAUSE)
    starts = topics.starts(partitions)
    return [Range(each, starts[each], ends[each]) for each in partitions]
