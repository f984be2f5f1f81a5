"""The topics of aggregates: made as they have to be, and refused if they would lose events."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun.compiler.shape import Shape
from riverrun.errors import CheckpointError, NoTopic, TopicError
from riverrun.far import AnyPath
from riverrun.kafka import admin
from riverrun.kafka.answers import HOUR
from riverrun.kafka.compaction import POLICY, compacted
from riverrun.kernels.program import Program
from riverrun.operators.decide.spec import RULES, Decide
from riverrun.runtime.batches import Batches

FOR_EVER = {POLICY: "delete", "retention.ms": "-1", "retention.bytes": "-1"}
REPLIES = {POLICY: "delete", "retention.ms": str(24 * HOUR), "segment.ms": str(6 * HOUR)}
PARTITIONS = 4


def ensure(program: Program, client: Mapping[str, str]) -> None:
    """Makes topics of aggregates that are missing, and checks those of events."""
    for step in program.steps:
        if isinstance(step.does, Decide):
            topics = step.does.topics
            _make(client, topics.commands, {})
            _make(client, topics.events, FOR_EVER)
            _make(client, topics.replies, REPLIES)
            _require_for_ever(client, topics.events, step.does)


def require_finished(folder: AnyPath, before: Shape | None, program: Program) -> None:
    """A batch is run again by the rules that it was begun with: states of others are never read.

    Not so the batch in which rules are new: it reads the events from the first one on, and makes
    states of them by whatever rules there are. Rules that fail on an event could never finish it.
    """
    batches = Batches(folder)
    if before is None or batches.begun() <= batches.committed():
        return
    for step in program.steps:
        if not isinstance(step.does, Decide):
            continue
        was = before["settings"].get(step.name, {}).get(RULES)
        if was not in (None, step.does.rules.version) and not _begins(batches, step.does):
            raise CheckpointError(
                f"the last batch was begun with other rules of {step.name!r}",
                where=folder,
                got=f"batch {batches.begun()} is not finished: its rules are {was}, now "
                f"{step.does.rules.version}",
                hint="finish it with the version that began it, `riverrun run … --once`; or start "
                "over with --fresh: states are made of the events, and commands that were decided "
                "take no effect again; but what follows the events begins empty, see "
                "docs/event-sourcing.md",
            )


def _begins(batches: Batches, step: Decide) -> bool:
    """Whether the last batch is the first one of its rules."""
    batches.look()
    number, topic = batches.begun(), step.topics.events
    if number == 0:
        return True
    if not {number - 1, number} <= batches.known():
        return False
    return batches.at(number - 1).histories.get(topic) != batches.at(number).histories.get(topic)


def warn_of_fresh(program: Program) -> list[str]:
    """What is not made of the events when a program starts over."""
    deciding = [step.name for step in program.steps if isinstance(step.does, Decide)]
    others = [step.name for step in program.steps if not isinstance(step.does, Decide)]
    if not deciding or not others:
        return []
    return [
        f"states of {', '.join(deciding)} are made of the events; {', '.join(others)} begin empty, "
        "and what they read is read again"
    ]


def _make(client: Mapping[str, str], topic: str, config: dict[str, str]) -> None:
    try:
        admin.describe(client, topic)
    except NoTopic:
        admin.create_topic(client, topic, partitions=PARTITIONS, config=config)


def _require_for_ever(client: Mapping[str, str], topic: str, step: Decide) -> None:
    """Events are never rewritten, and never deleted."""
    found = admin.settings(client, topic)
    wrong = {
        name: found[name] for name in ("retention.ms", "retention.bytes") if found[name] != "-1"
    }
    if compacted(found):
        wrong[POLICY] = found[POLICY]
    if wrong:
        listed = ", ".join(f"{name} is {value}" for name, value in wrong.items())
        wanted = " ".join(f"{name}={FOR_EVER[name]}" for name in wrong)
        raise TopicError(
            f"the topic {topic!r} would lose events of {step.name!r}",
            where=step.at,
            got=listed,
            hint=f"events are kept for ever: `riverrun topics alter {topic} {wanted}`",
        )
