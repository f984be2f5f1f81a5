"""A program as a version that runs beside the current one: each result has a place of its own.

Sinks that tell others something are mute: what they would have told is in a topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from riverrun.compiler.scratch import free_names, refuse_beside
from riverrun.kernels.program import ReadTopic
from riverrun.plan.nodes import Node, Output, Plan
from riverrun.plan.rows import changes, rewritten
from riverrun.sinks.kafka.sink import Topic
from riverrun.versions import CURRENT, Version


def versioned(plan: Plan, version: Version) -> Plan:
    return replace(plan, name=version.application, outputs=versioned_outputs(plan.outputs, version))


def versioned_outputs(outputs: tuple[Output, ...], version: Version) -> tuple[Output, ...]:
    """The outputs in their order, each to its place beside the current one."""
    refuse_beside(outputs)
    topics = _muted(outputs, version)
    changed = rewritten(outputs, lambda node: _renamed(node, version))
    return tuple(_checked(each, version, topics) for each in changed)


def published_outputs(outputs: tuple[Output, ...], version: Version) -> tuple[Output, ...]:
    """The outputs of a version that is public, each to where the program says. Topics of the
    application stay the version's own: dead letters, late rows. Those of the current one are so by
    their names; what is in its outboxes is sent."""
    if version.name == CURRENT:
        return outputs
    return tuple(
        replace(each, sink=each.sink.beside(version) or each.sink)
        if (each.sink.kafka_topic() or "").startswith(f"{version.of}.")
        else each
        for each in outputs
    )


def _muted(outputs: tuple[Output, ...], version: Version) -> Mapping[str, str]:
    """The topics of what is told nobody, by the name of the output."""
    mute = [each for each in outputs if each.sink.beside(version) is None]
    topics: Iterator[str] = free_names(
        (each.sink.name for each in mute), f"{version.application}.mute"
    )
    return {each.name: topic for each, topic in zip(mute, topics, strict=True)}


def _renamed(node: Node, version: Version) -> Node:
    if isinstance(node, ReadTopic) and node.own:
        return replace(node, topic=version.topic(node.topic))
    return node


def _checked(output: Output, version: Version, topics: Mapping[str, str]) -> Output:
    sink = output.sink.beside(version) or Topic(topics[output.name])
    sink.check(output.input.schema, table=changes(output.input), where=output.at)
    return replace(output, sink=sink)
