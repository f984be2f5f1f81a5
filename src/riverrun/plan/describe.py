"""A program as people read it: sources, steps and outputs, each with the user's own line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun.durations import UNITS, duration_text
from riverrun.errors import Location
from riverrun.formats import JSON, Format
from riverrun.plan.compile import (
    DEAD_SCHEMA,
    dead_output,
    with_late_outputs,
    with_settled_tables,
)
from riverrun.plan.derive import changes, inputs_of, key_of, nodes_of
from riverrun.plan.facts import columns_text, keys_text, plain, step_facts, window_text
from riverrun.plan.nodes import (
    Aggregate,
    Emitted,
    Explode,
    Join,
    KeyBy,
    Late,
    Node,
    Output,
    Process,
    Select,
    Source,
    SparkStep,
    StepNode,
    Where,
    WithColumns,
)
from riverrun.program import Aggregation
from riverrun.schema import Schema, quoted
from riverrun.sinks import Topic

MAX_AHEAD = UNITS["day"]


@dataclass(frozen=True)
class Topology:
    """A program to be described: its outputs, those that riverrun adds included."""

    name: str
    pages: int
    outputs: tuple[Output, ...]
    """Without dead letters, which come from everywhere."""
    own: int
    """How many of the outputs the program declares itself."""

    @property
    def nodes(self) -> list[Node]:
        return nodes_of(self.outputs)

    @property
    def sources(self) -> list[Source]:
        return [node for node in self.nodes if isinstance(node, Source)]

    @property
    def steps(self) -> list[StepNode]:
        return [node for node in self.nodes if isinstance(node, StepNode)]


def topology(name: str, pages: int, outputs: tuple[Output, ...]) -> Topology:
    every = with_late_outputs(name, with_settled_tables(outputs))
    return Topology(name, pages, every, len(outputs))


def as_text(topology: Topology, folder: Path) -> str:
    """Blocks of lines; files are shown as seen from `folder`."""
    blocks = [
        [f"{topology.name} ({topology.pages} pages)"],
        *(_source_block(source, folder) for source in topology.sources),
        *(_step_block(step, folder) for step in topology.steps),
        *(_output_block(topology, number, folder) for number in range(len(topology.outputs))),
        _dead_block(topology),
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _source_block(source: Source, folder: Path) -> list[str]:
    pace = source.pace
    return [
        _headline(f"source {source.topic}", source.at, folder),
        _field("schema", columns_text(source.schema)),
        _field("key", source.key or ", ".join(source.table_key) or "none"),
        _field("time", str(source.time)),
        _field("lateness", f"{duration_text(pace.lateness)}, idle {duration_text(pace.idle)}"),
        *(_field(name, text or "none") for name, text in _unusual(source).items()),
        _field("start", source.start),
    ]


def _unusual(source: Source) -> dict[str, str | None]:
    """What a source says beyond the defaults."""
    found: dict[str, str | None] = _format(source.format)
    if source.producer is not None:
        found["producer"] = source.producer
    if source.punctuation is not None:
        found["punctuation"] = source.punctuation
    if source.max_ahead != MAX_AHEAD:
        found["max_ahead"] = None if source.max_ahead is None else duration_text(source.max_ahead)
    return found | _policy(source)


def _format(format: Format) -> dict[str, str | None]:
    return {} if format == JSON else {"format": format.name}


def _policy(node: Source | StepNode | Output) -> dict[str, str | None]:
    """What happens to rows that fail, where the program says so."""
    said = node.on_error != ("stop" if _always_stops(node) else "set aside")
    return {"on_error": node.on_error} if said else {}


def _always_stops(node: Source | StepNode | Output) -> bool:
    inputs = (node.input,) if isinstance(node, Output) else inputs_of(node)
    return any(map(changes, inputs[:1]))


def _step_block(step: StepNode, folder: Path) -> list[str]:
    return [
        _headline(f"step {step.name}", step.at, folder),
        *_paths_into(step, folder),
        _field("keys", keys_text(step)),
        *(_field(name, text) for name, text in step_facts(step)),
        *(_field(name, str(text)) for name, text in _policy(step).items()),
    ]


def _paths_into(step: StepNode, folder: Path) -> Iterator[str]:
    if not isinstance(step, Join):
        yield from _paths_text(step.input, folder)
        return
    for side, node in (("left", step.left), ("right", step.right)):
        yield from _paths_text(node, folder, side)


def _output_block(topology: Topology, number: int, folder: Path) -> list[str]:
    output = topology.outputs[number]
    kind = "table" if changes(output.input) else "stream"
    by = "" if number < topology.own else ", by default"
    return [
        _headline(f"output {output.name} ({kind}{by})", output.at, folder),
        *_paths_text(output.input, folder),
        _field("columns", columns_text(output.input.schema)),
        _field("key", ", ".join(key_of(output.input)) or "none"),
        _field("to", output.sink.text),
        *(_field(name, str(text)) for name, text in _written(output).items()),
    ]


def _written(output: Output) -> dict[str, str | None]:
    """What an output says beyond the defaults."""
    sink = output.sink
    return (_format(sink.format) if isinstance(sink, Topic) else {}) | _policy(output)


def _dead_block(topology: Topology) -> list[str]:
    dead = dead_output(topology.name)
    processed = any(isinstance(step, Process) for step in topology.steps)
    return [
        f"output {dead.name} (stream, by default)",
        _field(
            "from",
            "records that cannot be read, or that an expression fails on"
            + (", and events that a processor fails on" if processed else ""),
        ),
        _field("columns", columns_text(DEAD_SCHEMA)),
        _field("key", ", ".join(dead.key)),
        _field("to", dead.sink.text),
    ]


def _headline(title: str, at: Location, folder: Path) -> str:
    return f"{title}  # {_place(at, folder)}"


def _field(name: str, text: str) -> str:
    return f"  {name:<9} {text}"


def _place(at: Location, folder: Path) -> str:
    path = Path(at.file)
    return f"{path.relative_to(folder) if path.is_relative_to(folder) else path}:{at.line}"


def paths(node: Node) -> Iterator[tuple[Node, list[Node]]]:
    """Every way from a source or a step to this node, with the stateless steps passed on it."""
    if isinstance(node, Source | StepNode):
        yield node, []
        return
    for each in inputs_of(node):
        for origin, passed in paths(each):
            yield origin, [*passed, node]


def _paths_text(node: Node, folder: Path, word: str = "from") -> Iterator[str]:
    for number, (origin, passed) in enumerate(paths(node)):
        yield _field(f"and {word}" if number else word, _origin(origin))
        for each in passed:
            yield _field("", f"{operation(each)}  # {_place(each.at, folder)}")


def _origin(node: Node) -> str:
    return node.topic if isinstance(node, Source) else str(getattr(node, "name", ""))


def operation(node: Node) -> str:
    """A stateless step in the program's own words."""
    match node:
        case Where():
            words = f"where {plain(node.condition)}"
        case Select() | WithColumns():
            word = "select" if isinstance(node, Select) else "with_columns"
            words = f"{word} {', '.join(_computed(*pair) for pair in node.columns)}"
        case Explode():
            words = f"explode {node.column}"
        case KeyBy():
            words = f"key_by {', '.join(node.columns)}"
        case SparkStep():
            words = f"spark {node.name}"
        case Emitted():
            words = f"output {node.output}"
        case _:
            words = _late_rows(node) if isinstance(node, Late) else "union"
    return words


def _late_rows(node: Late) -> str:
    return "late rows" if node.side == "left" else "late rows of the right side"


def _computed(name: str, expression: str) -> str:
    return name if expression == quoted(name) else f"{name} = {plain(expression)}"


def as_dict(topology: Topology) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": topology.name,
        "pages": topology.pages,
        "sources": [_source_dict(source) for source in topology.sources],
        "steps": [_step_dict(step) for step in topology.steps],
        "outputs": [
            *(_output_dict(each, n >= topology.own) for n, each in enumerate(topology.outputs)),
            _dead_dict(topology.name),
        ],
    }


def _source_dict(source: Source) -> dict[str, Any]:
    return {
        "topic": source.topic,
        "schema": _schema_dict(source.schema),
        "key": source.key or list(source.table_key) or None,
        "time": str(source.time),
        "lateness": duration_text(source.pace.lateness),
        "idle": duration_text(source.pace.idle),
        **_unusual(source),
        "start": source.start,
        "at": str(source.at),
    }


def _step_dict(step: StepNode) -> dict[str, Any]:
    sides = ("left", "right") if isinstance(step, Join) else ("from",)
    feeding = zip(sides, inputs_of(step), strict=True)
    found: dict[str, Any] = {
        "name": step.name,
        **{side: _paths_dict(node) for side, node in feeding},
        "keys": keys_text(step).split(", "),
    }
    if isinstance(step, Aggregate):
        timed = step.window.kind != "all"
        found |= {
            "window": window_text(step.window) if timed else None,
            "updatable": duration_text(step.updatable) if timed else None,
            "emit": step.emit,
            "aggregates": [_aggregate_dict(each) for each in step.aggregations],
        }
    else:
        found |= dict(step_facts(step))
    return {**found, **_policy(step), "at": str(step.at)}


def _aggregate_dict(aggregation: Aggregation) -> dict[str, Any]:
    """What it computes over what, and the options that it has."""
    found = vars(aggregation)
    shown = ("name", "kind", "expression", "type")
    options = ("fractions", "k", "weight", "values", "compared_to")
    return {each: found[each] for each in (*shown, *(o for o in options if found[o]))}


def _output_dict(output: Output, by_default: bool) -> dict[str, Any]:
    return {
        "name": output.name,
        "kind": "table" if changes(output.input) else "stream",
        "default": by_default,
        "from": _paths_dict(output.input),
        "columns": _schema_dict(output.input.schema),
        "key": list(key_of(output.input)),
        "to": output.sink.text,
        **_written(output),
        "at": str(output.at),
    }


def _dead_dict(app: str) -> dict[str, Any]:
    dead = dead_output(app)
    described = {"name": dead.name, "kind": "stream", "default": True, "from": []}
    key, columns = list(dead.key), _schema_dict(DEAD_SCHEMA)
    return described | {"columns": columns, "key": key, "to": dead.sink.text, "at": None}


def _schema_dict(schema: Schema) -> list[dict[str, str]]:
    return [{"name": each.name, "type": each.type} for each in schema.visible.columns]


def _paths_dict(node: Node) -> list[dict[str, Any]]:
    return [
        {
            "origin": _origin(origin),
            "steps": [{"does": operation(each), "at": str(each.at)} for each in passed],
        }
        for origin, passed in paths(node)
    ]
