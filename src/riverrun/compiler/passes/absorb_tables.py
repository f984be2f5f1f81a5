"""A table that a join keeps for itself needs no step that keeps it as well.

The join takes the table's versions as they come, or those that a step makes of them; the table's
own step stays where something else uses it.
"""

from __future__ import annotations

from dataclasses import replace

from riverrun.plan.nodes import Node, Plan, Select, Step, Versions, Where, WithColumns
from riverrun.plan.rows import rewritten


def absorb_tables(plan: Plan) -> Plan:
    return replace(plan, outputs=rewritten(plan.outputs, _absorbing))


def _absorbing(node: Node) -> Node:
    if not isinstance(node, Step):
        return node
    ways = zip(node.does.inputs, node.inputs, strict=True)
    inputs = tuple(_versions(each) if way.takes == "versions" else each for way, each in ways)
    return node if inputs == node.inputs else replace(node, inputs=inputs)


def _versions(node: Node) -> Node:
    """The rows of a table as versions."""
    if isinstance(node, Where | Select | WithColumns):
        return replace(node, input=_versions(node.input))
    assert isinstance(node, Step)
    if does := node.does.telling_versions():
        return replace(node, does=does)
    return Versions(node.inputs[0], node.does, node.at)
