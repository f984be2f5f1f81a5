"""Changes of one key that come from several pages are brought together before they are written."""

from __future__ import annotations

from dataclasses import replace

from riverrun.operators.gather import gathered
from riverrun.plan.nodes import Output, Plan, Step
from riverrun.plan.rows import scattered


def gather_changes(plan: Plan) -> Plan:
    made: dict[int, Step] = {}

    def brought_together(output: Output) -> Output:
        node = output.input
        if not scattered(node):
            return output
        if id(node) not in made:
            made[id(node)] = gathered(node, f"{output.name}.settled", output.at)
        return replace(output, input=made[id(node)])

    return replace(plan, outputs=tuple(map(brought_together, plan.outputs)))
