"""What topics have against a program, told before it runs.

Nothing is run. Of each topic the last records are read through the program's own reader, and what
comes of them is thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from riverrun.clock import Now
from riverrun.durations import duration_text
from riverrun.errors import JobError, NoTopic
from riverrun.kafka import admin
from riverrun.kafka.compaction import POLICY, compacted
from riverrun.kafka.permissions import allowed
from riverrun.kernels.first_look import never_given
from riverrun.kernels.lots import LotReader
from riverrun.kernels.messages import Status
from riverrun.kernels.program import Program, ReadTopic
from riverrun.operators.aggregate import Aggregate
from riverrun.operators.joins.versions import VersionJoin
from riverrun.partitions import Partition, Range, real
from riverrun.sources.kafka import KafkaSource

RETENTION = "retention.ms"
SAMPLE = 100
"""Records of each partition that are tried."""


@dataclass
class Findings:
    problems: list[str] = field(default_factory=list)
    """The program would not run, or not do what it says."""
    warnings: list[str] = field(default_factory=list)


def topic_findings(program: Program, client: Mapping[str, str]) -> Findings:
    found = Findings()
    reader = LotReader(program)
    for source in program.sources:
        if source.files is not None:
            continue
        topic = real(source.topic)
        try:
            settings = admin.settings(client, topic)
        except NoTopic:
            if not source.own and not source.shared and source.captured is None:
                found.problems.append(
                    f"the topic {topic} does not exist: `riverrun topics create {topic}` makes it"
                )
            continue
        found.problems += _forbidden(client, topic, "READ", "read")
        found.warnings += _too_short(program, source, settings)
        _try_records(reader, source, client, found)
    for topic in sorted(_written(program)):
        found.problems += _forbidden(client, topic, "WRITE", "written")
    return found


def _written(program: Program) -> set[str]:
    named = (output.sink.kafka_topic() for output in program.outputs)
    return {topic for topic in named if topic is not None}


def _forbidden(client: Mapping[str, str], topic: str, operation: str, word: str) -> Iterator[str]:
    granted = allowed(client, topic)
    if granted is not None and operation not in granted:
        yield (
            f"the topic {topic} may not be {word}: the brokers do not allow {operation} to "
            "this client"
        )


def _too_short(program: Program, source: ReadTopic, settings: Mapping[str, str]) -> Iterator[str]:
    """Records that are deleted while the program may still need them."""
    kept = int(settings[RETENTION]) * 1000
    if "delete" not in settings[POLICY] or kept < 0:
        return
    topic = real(source.topic)
    if source.table_key and not compacted(settings):
        yield (
            f"the topic {topic} is read as a table, and deletes records after "
            f"{duration_text(kept)}: a program that starts anew does not find older rows; "
            f"`riverrun topics alter {topic} {POLICY}=compact` keeps the last of each key"
        )
    for needed, why in _needed(program, source):
        if kept < needed:
            yield (
                f"the topic {topic} deletes records after {duration_text(kept)}, and {why} takes "
                f"{duration_text(needed)}: a job that was down, or starts anew, finds less; "
                f"`riverrun topics alter {topic} {RETENTION}={needed // 1000}`"
            )


def _needed(program: Program, source: ReadTopic) -> Iterator[tuple[int, str]]:
    """How long records matter, and to what."""
    yield source.pace.lateness, "lateness"
    for step in program.steps:
        if isinstance(step.does, VersionJoin) and source.topic in step.awaited:
            yield step.does.history, f"the history of {step.name}"
        if isinstance(step.does, Aggregate) and source.topic in step.paces:
            size = getattr(step.does.window, "size", 0)
            yield size + step.does.updatable + source.pace.lateness, f"a window of {step.name}"


def _try_records(
    reader: LotReader, source: ReadTopic, client: Mapping[str, str], found: Findings
) -> None:
    """Whether the last records are what the schema says."""
    topic = admin.describe(client, real(source.topic))
    ranges = [
        Range(Partition(source.topic, each.number), max(each.start, each.end - SAMPLE), each.end)
        for each in topic.partitions
        if each.end > each.start
    ]
    now = Now(tick=time.time_ns() // 1000, wall=True, first=True)
    with_headers = frozenset({source.topic} if "_headers" in source.metadata else ())
    told = Status()
    try:
        for lot in KafkaSource(client).lots(ranges, with_headers):
            told.add(reader.read(lot, now).counts)
    except JobError as error:
        found.problems.append(f"{topic.name}: {error.fact}: {error.got}")
        return
    for cause, times in told.causes.items():
        found.warnings.append(
            f"of the last {told.events} records of {topic.name}, {times}: {cause}"
        )
    for text in never_given(reader.program, vars(told)):
        found.warnings.append(text.replace("of the first batch", f"of the last {told.events}"))
