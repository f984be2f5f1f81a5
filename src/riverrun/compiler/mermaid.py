"""A program as a flowchart in Mermaid."""

from __future__ import annotations

from riverrun.compiler.describe import operation
from riverrun.kernels.program import ReadTopic
from riverrun.plan.nodes import Node, Plan, Step
from riverrun.plan.rows import inputs_of, nodes_of
from riverrun.sinks.kafka.dead import dead_output

SHAPES = {"source": '[/"{}"/]', "step": '[["{}"]]', "output": '(["{}"])'}


def as_mermaid(plan: Plan) -> str:
    """A flowchart: what is shared is drawn once."""
    nodes = nodes_of(plan.outputs)
    names = {id(node): f"n{number}" for number, node in enumerate(nodes)}
    lines = ["flowchart LR"]
    for node in nodes:
        lines.append(f"    {names[id(node)]}{_box(node)}")
        lines += [f"    {names[id(each)]} --> {names[id(node)]}" for each in inputs_of(node)]
    for number, output in enumerate(plan.outputs):
        lines.append(f"    out{number}{SHAPES['output'].format(_safe(output.name))}")
        lines.append(f"    {names[id(output.input)]} --> out{number}")
    dead = SHAPES["output"].format(_safe(dead_output(plan.name).name))
    lines.append(f"    dead{dead}")
    lines += [f"    {names[id(node)]} -.-> dead" for node in nodes if _fails(node)]
    return "\n".join(lines)


def _fails(node: Node) -> bool:
    return isinstance(node, ReadTopic) or (isinstance(node, Step) and bool(node.does.fails_on))


def _box(node: Node) -> str:
    if isinstance(node, ReadTopic):
        return SHAPES["source"].format(_safe(node.topic))
    if isinstance(node, Step):
        lines = [node.name, f"by {', '.join(node.does.key_words())}", *node.does.words().box]
        return SHAPES["step"].format("<br/>".join(map(_safe, lines)))
    return f'["{_safe(operation(node))}"]'


def _safe(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace('"', "&quot;")
    return escaped.replace("<", "&lt;").replace(">", "&gt;")
