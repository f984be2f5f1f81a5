"""What compaction may take from a program: told before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from riverrun.durations import UNITS, duration_text
from riverrun.errors import NoTopic
from riverrun.kafka import admin
from riverrun.kafka.compaction import LAG, compacted
from riverrun.kernels.program import Program
from riverrun.operators.joins.versions import VersionJoin
from riverrun.partitions import real

LEAST = UNITS["hour"]
"""A job that has failed is started again within this time, or somebody knows why not."""


def compaction_warnings(program: Program, client: Mapping[str, str]) -> list[str]:
    """One text for each topic that may lose what the program counts on."""
    topics = {real(source.topic) for source in program.sources if source.files is None}
    lags = {topic: _lag(client, topic) for topic in sorted(topics)}
    found = {topic: lag for topic, lag in lags.items() if lag is not None}
    return [*_without_lag(found), *_without_versions(program, found)]


def _lag(client: Mapping[str, str], topic: str) -> int | None:
    """Microseconds that records stay; None of a topic that is not compacted, or not there yet."""
    try:
        settings = admin.settings(client, topic)
    except NoTopic:
        return None
    return int(settings[LAG]) * 1000 if compacted(settings) else None


def _without_lag(lags: dict[str, int]) -> Iterator[str]:
    for topic, lag in lags.items():
        if lag < LEAST:
            yield (
                f"the topic {topic} is compacted {_after(lag)}: a batch that is run again may not "
                f"find what it has read; `riverrun topics alter {topic} {LAG}=86400000` keeps "
                "records for a day"
            )


def _without_versions(program: Program, lags: dict[str, int]) -> Iterator[str]:
    for step in program.steps:
        if not isinstance(step.does, VersionJoin):
            continue
        for topic in map(real, step.awaited):
            if topic in lags and lags[topic] < step.does.history:
                yield (
                    f"{step.name} joins versions of {topic}, which is compacted "
                    f"{_after(lags[topic])}: of events that are older, the versions of then may be "
                    f"gone; `riverrun topics alter {topic} {LAG}={step.does.history // 1000}` "
                    "keeps those of its history"
                )


def _after(lag: int) -> str:
    return f"after {duration_text(lag)}" if lag else "at once"
