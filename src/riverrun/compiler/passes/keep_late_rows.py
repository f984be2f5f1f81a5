"""Late rows that the program does not use itself are kept in a topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from riverrun.plan.nodes import Late, Output, Plan, Step
from riverrun.plan.rows import nodes_of, steps_of
from riverrun.sinks.kafka.sink import Topic


def keep_late_rows(plan: Plan) -> Plan:
    late = (node for node in nodes_of(plan.outputs) if isinstance(node, Late))
    used = {(id(node.input), node.number) for node in late}
    added = (each for step in steps_of(plan.outputs) for each in _outputs(plan.name, step, used))
    return replace(plan, outputs=(*plan.outputs, *added))


def _outputs(app: str, step: Step, used: set[tuple[int, int]]) -> Iterator[Output]:
    for number, way in enumerate(step.does.inputs):
        if way.late and (id(step), number) not in used:
            name = ".".join(filter(None, (step.name, way.port, "late")))
            late = Late(step, number, step.at)
            yield Output(late, Topic(f"{app}.{name}"), step.at, name, added=True)
