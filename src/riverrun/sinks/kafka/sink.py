"""A Kafka topic as a sink."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from riverrun.arguments import checked
from riverrun.errors import ProgramError, caller
from riverrun.formats import JSON, Format, format_of
from riverrun.kafka.names import TOPIC_RULE, may_be_topic
from riverrun.outputs import Delivery, Destination, Guarantee, Places, Sink
from riverrun.schema import METADATA, Schema
from riverrun.versions import Version

HEADERS = dict(METADATA)["_headers"]


@dataclass(frozen=True)
class Topic(Sink):
    """A Kafka topic."""

    name: str
    partitions: int | None = None
    headers: str | None = None
    """The column that holds the headers of records."""
    format: Format = field(default=JSON, repr=False)

    @property
    def text(self) -> str:
        word = "partition" if self.partitions == 1 else "partitions"
        count = f" ({self.partitions} {word})" if self.partitions else ""
        return f"topic {self.name}{count}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return delivery

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        check_topic(self.name, where)
        if self.headers is None:
            return
        columns.require(self.headers, where)
        found = columns.type_of(self.headers)
        if table or found != HEADERS:
            raise ProgramError(
                f"{self.headers!r} cannot be the headers of records",
                where=where,
                got="rows of a table have none" if table else f"it is {found}",
                hint=f"headers are of a stream, in a column of type {HEADERS}",
            )

    def destination(self, places: Places) -> Destination:
        # the language and the test driver do without Kafka's client
        from riverrun.sinks.kafka.records import KafkaAtLeastOnce  # noqa: PLC0415
        from riverrun.sinks.kafka.transactions import KafkaExactlyOnce  # noqa: PLC0415

        client, lag = dict(places.kafka), places.compaction_lag
        if places.delivery == "exactly once":
            return KafkaExactlyOnce(client, lag, places.writer)
        return KafkaAtLeastOnce(client, lag)

    def place(self) -> Hashable:
        """All topics are written in one transaction."""
        return Topic

    def beside(self, version: Version) -> Topic:
        return replace(self, name=version.topic(self.name))

    def kafka_topic(self) -> str:
        return self.name

    def written_in(self) -> Format:
        return self.format

    def carried(self) -> Mapping[str, str]:
        return {"__headers": self.headers} if self.headers else {}


@checked
def topic(
    name: str,
    *,
    partitions: int | None = None,
    headers: str | None = None,
    format: str | Format = "json",
) -> Topic:
    """A Kafka topic to write to, created with this many partitions when it is missing.

    `headers` is a column of texts by name that becomes the headers of a stream's records; with
    "_headers", they are those of the record that a row came from. `format` is "json", or one of
    your own.
    """
    if partitions is not None and partitions < 1:
        raise ProgramError("a topic has at least one partition", where=caller(), got=partitions)
    return Topic(name, partitions, headers, format_of(format, caller()))


def check_topic(name: str, where: object) -> None:
    if not may_be_topic(name):
        raise ProgramError(TOPIC_RULE, where=where, got=repr(name))
