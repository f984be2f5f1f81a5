"""A program as it is run beside itself: under another name, with topics of its own for all results.

What it reads is read as it is, but for topics that it writes itself: those are its own again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from riverrun.errors import InputError
from riverrun.kernels.program import ReadTopic
from riverrun.operators.decide.spec import Decide
from riverrun.plan.nodes import Node, Output
from riverrun.plan.rows import nodes_of, rewritten, steps_of
from riverrun.sinks.kafka.sink import Topic

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST = 249


def scratch_outputs(outputs: tuple[Output, ...], into: str) -> tuple[Output, ...]:
    """The outputs, each to a topic whose name begins with `into`. Nothing else is written, whatever
    they were: databases, files, other people's servers."""
    refuse_beside(outputs)
    names = free_names((output.sink.name for output in outputs), into)
    changed = rewritten(outputs, lambda node: _renamed(node, into))
    return tuple(
        replace(output, sink=_topic(output, name), label=None)
        for output, name in zip(changed, names, strict=True)
    )


def refuse_beside(outputs: tuple[Output, ...]) -> None:
    """What cannot run twice at once."""
    for step in steps_of(outputs):
        if isinstance(step.does, Decide):
            raise InputError(
                "a program that decides commands cannot be run beside itself",
                where=step.at,
                got=f"the aggregate {step.name!r}",
                hint="`riverrun rebuild-state` makes its states anew of the events, and "
                "`riverrun history … --replay-decisions` decides its commands again",
            )
    for source in read_from_others(outputs):
        if source.personal:
            raise InputError(
                "a program with personal columns cannot be run beside itself",
                where=source.at,
                got=f"the topic {source.topic!r}",
                hint="results would be sealed by keys that `riverrun forget` does not know of",
            )


def read_from_others(outputs: tuple[Output, ...]) -> list[ReadTopic]:
    """What a program reads and does not write itself."""
    read = (node for node in nodes_of(outputs) if isinstance(node, ReadTopic))
    return [node for node in read if not node.own]


def _renamed(node: Node, into: str) -> Node:
    if isinstance(node, ReadTopic) and node.own:
        return replace(node, topic=f"{into}.{node.topic}")
    return node


def _topic(output: Output, name: str) -> Topic:
    if type(output.sink) is Topic:  # others send what they hold to somebody
        return replace(output.sink, name=name)
    return Topic(name)


def free_names(sinks: Iterable[str], into: str) -> Iterator[str]:
    """A topic for each sink, by its name."""
    given = set[str]()
    for each in sinks:
        plain = f"{into}.{NOT_IN_NAMES.sub('-', each)}"[: LONGEST - 4]
        name = next(n for n in (plain, *(f"{plain}-{i}" for i in range(2, 999))) if n not in given)
        given.add(name)
        yield name
