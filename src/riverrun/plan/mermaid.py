"""A program as a flowchart in Mermaid."""

from __future__ import annotations

from riverrun.plan.derive import inputs_of
from riverrun.plan.describe import Topology, operation
from riverrun.plan.facts import aggregate_window_text, call, keys_text, step_facts
from riverrun.plan.nodes import Aggregate, Node, Process, Source, StepNode
from riverrun.sinks.kafka.dead import dead_output

SHAPES = {"source": '[/"{}"/]', "step": '[["{}"]]', "output": '(["{}"])'}


def as_mermaid(topology: Topology) -> str:
    """A flowchart: what is shared is drawn once."""
    names = {id(node): f"n{number}" for number, node in enumerate(topology.nodes)}
    lines = ["flowchart LR"]
    for node in topology.nodes:
        lines.append(f"    {names[id(node)]}{_box(node)}")
        lines += [f"    {names[id(each)]} --> {names[id(node)]}" for each in inputs_of(node)]
    for number, output in enumerate(topology.outputs):
        lines.append(f"    out{number}{SHAPES['output'].format(_safe(output.name))}")
        lines.append(f"    {names[id(output.input)]} --> out{number}")
    dead = SHAPES["output"].format(_safe(dead_output(topology.name).name))
    lines.append(f"    dead{dead}")
    failing = [node for node in topology.nodes if isinstance(node, Source | Process)]
    lines += [f"    {names[id(node)]} -.-> dead" for node in failing]
    return "\n".join(lines)


def _box(node: Node) -> str:
    if isinstance(node, Source):
        return SHAPES["source"].format(_safe(node.topic))
    if isinstance(node, StepNode):
        by = f"by {keys_text(node)}"
        return SHAPES["step"].format("<br/>".join(map(_safe, [node.name, by, *_box_facts(node)])))
    return f'["{_safe(operation(node))}"]'


def _box_facts(node: StepNode) -> list[str]:
    if not isinstance(node, Aggregate):
        return [f"{name} {text}" for name, text in step_facts(node)]
    calls = [f"{each.name} = {call(each)}" for each in node.aggregations]
    return calls if node.window.kind == "all" else [f"per {aggregate_window_text(node)}", *calls]


def _safe(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace('"', "&quot;")
    return escaped.replace("<", "&lt;").replace(">", "&gt;")
