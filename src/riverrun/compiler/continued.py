"""A program that goes on with the state of another version: what is younger, what was renamed.

What follows from two shapes is noted with the second, so that the third knows of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from riverrun.compiler.functions import functions_of
from riverrun.compiler.shape import Shape
from riverrun.kernels.sql import shared_evaluator
from riverrun.kernels.younger import since
from riverrun.operators.aggregate import Aggregate
from riverrun.plan.nodes import Node, Plan, Step
from riverrun.plan.rows import rewritten

NOTED = "continued"


@dataclass(frozen=True)
class Continued:
    """What state knows that its program does not tell."""

    since: dict[str, dict[str, int]] = field(default_factory=dict)
    """Generations of the aggregates that are younger than the state of their step, by step."""
    last: dict[str, int] = field(default_factory=dict)
    """The last generation of each step."""
    was: dict[str, str] = field(default_factory=dict)
    """Former names of steps."""


def continued(before: Shape | None, now: Shape) -> Continued:
    """How a program goes on with a checkpoint that it fits."""
    if before is None:
        return Continued()
    known, made = Continued(**before.get(NOTED, {})), Continued()
    for name, facts in now["steps"].items():
        old = former(name, before, now)
        if old is None:
            continue
        if (was := now["was"].get(name, known.was.get(name))) is not None:
            made.was[name] = was
        last, ages = known.last.get(old, 0), known.since.get(old, {})
        had = by_name(before["steps"][old])
        new = {each for each, fact in by_name(facts).items() if had.get(each) != fact}
        found = {each: last + 1 if each in new else ages.get(each, 0) for each in by_name(facts)}
        if younger := {each: age for each, age in found.items() if age}:
            made.since[name] = younger
        if last := last + 1 if new else last:
            made.last[name] = last
    return made


def former(name: str, before: Shape, now: Shape) -> str | None:
    """The step of the checkpoint whose state the step has; None if it starts empty."""
    if name in before["steps"]:
        return name
    was = now["was"].get(name)
    return was if was in before["steps"] and was not in now["steps"] else None


def by_name(step: Mapping[str, Any]) -> dict[str, Any]:
    """The aggregates of a step, as a checkpoint has them; it may be one without any."""
    return {each["name"]: each for each in step.get("aggregates", ())}


def going_on(plan: Plan, how: Continued) -> Plan:
    """The plan, with what its checkpoint says of its steps."""
    evaluator = shared_evaluator(functions_of(plan.outputs))

    def change(node: Node) -> Node:
        if not isinstance(node, Step):
            return node
        if (was := how.was.get(node.name)) is not None:
            node = replace(node, was=was)
        ages = how.since.get(node.name)
        if not ages or not isinstance(node.does, Aggregate):
            return node
        rows = node.inputs[0].schema
        younger = tuple(
            since(each, ages[each.name], rows, evaluator) if each.name in ages else each
            for each in node.does.aggregations
        )
        return replace(node, does=replace(node.does, aggregations=younger))

    return replace(plan, outputs=rewritten(plan.outputs, change))
