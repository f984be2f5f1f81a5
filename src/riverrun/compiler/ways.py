"""How records get to the outputs of a program: from which topics, by which steps."""

from __future__ import annotations

from collections.abc import Mapping

from riverrun.edges import Edge
from riverrun.kernels.program import Program
from riverrun.outputs import Ways


def ways(program: Program) -> dict[str, Ways]:
    """By the name of the output."""
    reached = {output.name: _back(program, output.edge) for output in program.outputs}
    writers = {output.sink.kafka_topic(): output.name for output in program.outputs}
    through = {topic: reached[writers[topic]][0] for topic in program.own_topics}
    steps = {topic: reached[writers[topic]][1] for topic in program.own_topics}
    found = {}
    for name, (topics, passed) in reached.items():
        closed, hops = _closed(topics, through)
        own = sorted(closed & through.keys())
        before = set().union(passed, *(steps[topic] for topic in own))
        found[name] = Ways(tuple(sorted(closed)), tuple(own), hops, tuple(sorted(before)))
    return found


def _back(program: Program, target: Edge) -> tuple[set[str], set[str]]:
    """Topics and steps that an edge is reached from without another topic between."""
    origins: dict[Edge, set[Edge]] = {}
    for branch in program.branches:
        origins.setdefault(branch.target, set()).add(branch.origin)
    inputs = {step.name: step.input_edges for step in program.steps}
    spark = {each.output: each.input for each in program.spark_steps}
    topics: set[str] = set()
    steps, seen, left = set(), set(), [target]
    while left:
        edge = left.pop()
        if edge in seen:
            continue
        seen.add(edge)
        if edge.kind == "source":
            # what is read once holds nothing that is written later
            topics |= {edge.name} - program.histories.keys()
        elif edge in spark:
            left.append(spark[edge])
        elif edge.name in inputs and edge.kind not in ("step", "out"):
            steps.add(edge.name)
            left += inputs[edge.name]
        left += origins.get(edge, ())
    return topics, steps


def _closed(topics: set[str], through: Mapping[str, set[str]]) -> tuple[set[str], int]:
    """Also what gets there by topics of the program's own; and how many of these are in a row."""
    found, hops, fresh = set(topics), 0, topics
    while fresh & through.keys():
        hops += 1
        reached = set().union(*(through[topic] for topic in fresh & through.keys()))
        fresh = reached - found
        found |= reached
    return found, hops
