"""Where partitions end, asked of a broker that has just started."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from riverrun.kafka import admin
from riverrun.kafka.topics import AWAY

PLACE = TopicPartition("clicks", 0)


class Answering:
    """A client that gives what librdkafka gives: no broker can be made to answer so."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def list_offsets(self, asked: dict[TopicPartition, Any], **options: Any) -> dict[Any, Any]:
        found: Future[Any] = Future()
        found.set_result(SimpleNamespace(offset=self.offset))
        return dict.fromkeys(asked, found)


def test_an_offset_that_is_not_known_yet_is_asked_for_again_and_no_end() -> None:
    client: Any = Answering(OFFSET_INVALID)
    with pytest.raises(KafkaException) as caught:
        admin.list_offsets(client, {PLACE: OffsetSpec.latest()})
    assert caught.value.args[0].code() in AWAY


@pytest.mark.parametrize("offset", [0, 17, -1])
def test_any_other_is_told_as_it_is(offset: int) -> None:
    """-1 is the answer where no record is that late."""
    client: Any = Answering(offset)
    assert admin.list_offsets(client, {PLACE: OffsetSpec.latest()}) == {PLACE: offset}
