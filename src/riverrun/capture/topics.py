"""The topics of a capture: made by us, compacted where that loses nothing."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun.capture.catalog import TableFacts
from riverrun.capture.envelopes import transaction_topic
from riverrun.capture.ledger import LARGEST
from riverrun.kafka import admin

COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": str(7 * 24 * 3600 * 1000)}
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def make(client: Mapping[str, str], name: str, partitions: Mapping[str, int]) -> None:
    """The topic that tells of transactions, unless it is there."""
    if transaction_topic(name) not in partitions:
        admin.create_topic(client, transaction_topic(name), partitions=1, config=KEPT)


def make_for(
    client: Mapping[str, str], topic: str, facts: TableFacts, *, partitions: int, lag: int
) -> None:
    """The topic of a table. Compaction would lose values that later changes leave out. For the
    lag, in milliseconds, it leaves all alone: a batch that is run again finds its input."""
    compacted = {**COMPACTED, "min.compaction.lag.ms": str(lag)}
    config = {**(KEPT if facts.incomplete else compacted), "max.message.bytes": str(LARGEST)}
    admin.create_topic(client, topic, partitions=partitions, config=config)


def keep(client: Mapping[str, str], topic: str, facts: TableFacts) -> None:
    """A topic that is there keeps what readers need: a table may be made again, with columns whose
    values compaction would lose."""
    if facts.incomplete and "compact" in admin.settings(client, topic)["cleanup.policy"]:
        admin.alter_topic(client, topic, KEPT)


def known(client: Mapping[str, str]) -> dict[str, int]:
    """All topics, with how many partitions they have."""
    cluster = admin.connect(client).list_topics(timeout=admin.PATIENCE.total_seconds())
    return {name: len(topic.partitions) for name, topic in cluster.topics.items()}
