"""What pages answer to questions, as a topic that is kept for an hour.

The control log has the questions: it is kept for ever, and read by everyone. Answers are larger,
and of use to whoever asked, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from riverrun.control import answer_topic
from riverrun.errors import NoTopic, TopicError
from riverrun.kafka import admin
from riverrun.kafka.browse import Browser
from riverrun.kafka.records import Record
from riverrun.kafka.sender import Sender

HOUR = 3_600_000
KEPT = {
    "cleanup.policy": "delete",
    "retention.ms": str(HOUR),
    "segment.ms": str(HOUR // 4),
    "retention.bytes": str(1 << 30),
    "segment.bytes": str(64 << 20),
}


_senders: dict[tuple[object, ...], Sender] = {}


class AnswerTopic:
    def __init__(self, client: Mapping[str, str], application: str) -> None:
        self.client, self.topic = client, answer_topic(application)

    def make(self) -> None:
        with suppress(TopicError):  # somebody else has made it meanwhile
            admin.create_topic(self.client, self.topic, partitions=1, config=KEPT)

    def send(self, parts: list[bytes]) -> None:
        """With a producer that stays open: to open one takes longer than to answer."""
        key = (self.topic, *sorted(self.client.items()))
        sender = _senders.pop(key, None) or Sender(self.client, self.topic)
        for part in parts:
            sender.send(Record(part))
        sender.flush()
        _senders[key] = sender  # one that has failed is not used again

    def opened(self) -> Browser:
        """A reader, at the end of what is there. Use it in a `with` block."""
        try:
            return Browser(self.client, self.topic)
        except NoTopic:
            self.make()
            return Browser(self.client, self.topic)
