"""Which topics are loaded before others are read: those of tables that are joined as they stand."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from riverrun.kernels.program import Loading, ReadTopic
from riverrun.plan.nodes import Node, Step
from riverrun.plan.rows import inputs_of


def loading(steps: Iterable[Step], own_topics: Collection[str]) -> Loading:
    found, waits = Loading(), set()
    for topic, table in sorted({pair for step in steps for pair in _pairs(step)}):
        if table in own_topics:
            found.not_first[topic, table] = "the program writes it itself"
        elif topic == table:
            found.not_first[topic, table] = "the table is made of the same topic"
        else:
            waits.add((topic, table))
    for topic, table in sorted(waits):
        if topic in _after(table, waits):
            found.not_first[topic, table] = "each of them is a table for the other"
        else:
            found.first[topic] = (*found.first.get(topic, ()), table)
    return found


def _pairs(step: Step) -> Iterable[tuple[str, str]]:
    """Topics whose rows meet a table, and those that the table is made of."""
    ways = list(zip(step.does.inputs, step.inputs, strict=True))
    rows = {topic for way, node in ways if not way.loaded_first for topic in _topics(node)}
    for way, node in ways:
        if way.loaded_first:
            yield from ((topic, table) for topic in rows for table in _topics(node))


def _topics(node: Node) -> set[str]:
    """Topics whose records become rows of the node; not those of tables that rows meet."""
    if isinstance(node, ReadTopic):
        return {node.topic}
    nodes = inputs_of(node)
    if isinstance(node, Step):
        ways = zip(node.does.inputs, nodes, strict=True)
        nodes = tuple(each for way, each in ways if not way.loaded_first)
    return {topic for each in nodes for topic in _topics(each)}


def _after(topic: str, pairs: Collection[tuple[str, str]]) -> set[str]:
    """All that a topic would wait for, in any number of steps."""
    found: set[str] = set()
    left = [topic]
    while left:
        mine = left.pop()
        more = {table for waiting, table in pairs if waiting == mine} - found
        found |= more
        left += more
    return found
