"""A program as people read it: sources, steps and outputs, each with the user's own line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_never

from riverrun.durations import UNITS, duration_text
from riverrun.errors import Location
from riverrun.formats import JSON, Format
from riverrun.kernels.program import ReadTopic
from riverrun.outputs import Sink
from riverrun.plan.nodes import (
    Emitted,
    Explode,
    KeyBy,
    Late,
    Map,
    Node,
    Output,
    Plan,
    Select,
    SparkStep,
    Step,
    Union,
    Versions,
    Where,
    WithColumns,
    WithTime,
)
from riverrun.plan.rows import changes, inputs_of, key_of, nodes_of, steps_of
from riverrun.schema import Schema, columns_text, plain, quoted
from riverrun.sinks.kafka.dead import DEAD_SCHEMA, dead_output

MAX_AHEAD = UNITS["day"]


def sources_of(plan: Plan) -> list[ReadTopic]:
    return [node for node in nodes_of(plan.outputs) if isinstance(node, ReadTopic)]


def one_writer(plan: Plan) -> bool:
    """Whether one task writes all results of a batch."""
    return any(step.does.one_writer for step in steps_of(plan.outputs))


def as_text(plan: Plan, folder: Path) -> str:
    """Blocks of lines; files are shown as seen from `folder`. The plan has gone through all
    passes."""
    blocks = [
        [f"{plan.name} ({plan.pages} pages{', one writer' if one_writer(plan) else ''})"],
        *(_source_block(source, folder) for source in sources_of(plan)),
        *(_step_block(step, folder) for step in steps_of(plan.outputs)),
        *(_output_block(plan, output, folder) for output in plan.outputs),
        _dead_block(plan),
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _source_block(source: ReadTopic, folder: Path) -> list[str]:
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


def _unusual(source: ReadTopic) -> dict[str, str | None]:
    """What a source says beyond the defaults."""
    found: dict[str, str | None] = _format(source.format)
    if source.history:
        found["read"] = f"once, to its end, for states of version {source.history}"
    if source.files is not None:
        found["files"] = source.files
    if source.captured is not None:
        found["captured"] = source.captured
    if source.personal:
        found["personal"] = "; ".join(each.text for each in source.personal)
    if source.producer is not None:
        found["producer"] = source.producer
    if source.punctuation is not None:
        found["punctuation"] = source.punctuation
    if source.max_ahead != MAX_AHEAD:
        found["max_ahead"] = None if source.max_ahead is None else duration_text(source.max_ahead)
    return found | _policy(source)


def _format(format: Format) -> dict[str, str | None]:
    return {} if format == JSON else {"format": format.name}


def _policy(node: ReadTopic | Step | Output) -> dict[str, str | None]:
    """What happens to rows that fail, where the program says so."""
    said = node.on_error != ("stop" if _always_stops(node) else "set aside")
    return {"on_error": node.on_error} if said else {}


def _always_stops(node: ReadTopic | Step | Output) -> bool:
    inputs = (node.input,) if isinstance(node, Output) else inputs_of(node)
    return any(map(changes, inputs[:1]))


def _step_block(step: Step, folder: Path) -> list[str]:
    ways = zip(step.does.inputs, step.inputs, strict=True)
    return [
        _headline(f"step {step.name}", step.at, folder),
        *(line for way, node in ways for line in _paths_text(node, folder, way.word)),
        _field("keys", ", ".join(step.does.key_words())),
        *(_field(name, text) for name, text in step.does.words().lines),
        *(_field(name, str(text)) for name, text in _policy(step).items()),
    ]


def _output_block(plan: Plan, output: Output, folder: Path) -> list[str]:
    kind = "table" if changes(output.input) else "stream"
    by = ", by default" if output.added else ""
    return [
        _headline(f"output {output.name} ({kind}{by})", output.at, folder),
        *_paths_text(output.input, folder),
        _field("columns", columns_text(output.input.schema)),
        _field("key", ", ".join(key_of(output.input)) or "none"),
        _field("to", _sink_text(plan, output.sink)),
        *(_field(name, str(text)) for name, text in _written(output).items()),
    ]


def _written(output: Output) -> dict[str, str | None]:
    """What an output says beyond the defaults."""
    return _format(output.sink.written_in()) | _policy(output)


def _dead_block(plan: Plan) -> list[str]:
    dead = dead_output(plan.name)
    failing = dict.fromkeys(step.does.fails_on for step in steps_of(plan.outputs))
    return [
        f"output {dead.name} (stream, by default)",
        _field(
            "from",
            "records that cannot be read, or that an expression fails on"
            + "".join(f", and {each}" for each in failing if each),
        ),
        _field("columns", columns_text(DEAD_SCHEMA)),
        _field("key", ", ".join(dead.key)),
        _field("to", _sink_text(plan, dead.sink)),
    ]


def _sink_text(plan: Plan, sink: Sink) -> str:
    return f"{sink.text}, {sink.guarantee(plan.delivery)}"


def _headline(title: str, at: Location, folder: Path) -> str:
    return f"{title}  # {_place(at, folder)}"


def _field(name: str, text: str) -> str:
    return f"  {name:<9} {text}"


def _place(at: Location, folder: Path) -> str:
    path = Path(at.file)
    return f"{path.relative_to(folder) if path.is_relative_to(folder) else path}:{at.line}"


def paths(node: Node) -> Iterator[tuple[Node, list[Node]]]:
    """Every way from a source or a step to this node, with the stateless steps passed on it."""
    if isinstance(node, ReadTopic | Step):
        yield node, []
        return
    for each in inputs_of(node):
        for origin, passed in paths(each):
            yield origin, [*passed, node]


def _paths_text(node: Node, folder: Path, word: str = "from") -> Iterator[str]:
    for number, (origin, passed) in enumerate(paths(node)):
        yield _field(f"and {word}" if number else word, operation(origin))
        for each in passed:
            yield _field("", f"{operation(each)}  # {_place(each.at, folder)}")


def operation(node: Node) -> str:
    """A stateless step in the program's own words."""
    match node:
        case Where():
            called = node.function
            return f"filter {called.text}" if called else f"where {plain(node.condition)}"
        case Select() | WithColumns():
            word = "select" if isinstance(node, Select) else "with_columns"
            return f"{word} {', '.join(_computed(*pair) for pair in node.columns)}"
        case Explode():
            return f"explode {node.column}"
        case WithTime():
            late = f", lateness {duration_text(node.pace.lateness)}" if node.pace.lateness else ""
            return f"with_time {plain(node.time)}{late}"
        case KeyBy():
            return f"key_by {', '.join(node.columns)}"
        case Map() | SparkStep():
            return f"map {node.function.text}" if isinstance(node, Map) else f"spark {node.name}"
        case Emitted():
            return f"output {node.output}"
        case Late():
            port = node.input.does.inputs[node.number].port
            return f"late rows of the {port} side" if port else "late rows"
        case Versions():
            return f"table by {', '.join(node.table.keys)}"
        case Union():
            return "union"
        case ReadTopic() | Step():
            return node.topic if isinstance(node, ReadTopic) else node.name
        case _:
            assert_never(node)


def _computed(name: str, expression: str) -> str:
    return name if expression == quoted(name) else f"{name} = {plain(expression)}"


def as_dict(plan: Plan) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": plan.name,
        "pages": plan.pages,
        "one_writer": one_writer(plan),
        "sources": [_source_dict(source) for source in sources_of(plan)],
        "steps": [_step_dict(step) for step in steps_of(plan.outputs)],
        "outputs": [*(_output_dict(plan, each) for each in plan.outputs), _dead_dict(plan)],
    }


def _source_dict(source: ReadTopic) -> dict[str, Any]:
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


def _step_dict(step: Step) -> dict[str, Any]:
    ways = zip(step.does.inputs, step.inputs, strict=True)
    return {
        "name": step.name,
        **{way.word: _paths_dict(node) for way, node in ways},
        "keys": step.does.key_words(),
        **step.does.words().data,
        **_policy(step),
        "at": str(step.at),
    }


def _output_dict(plan: Plan, output: Output) -> dict[str, Any]:
    return {
        "name": output.name,
        "kind": "table" if changes(output.input) else "stream",
        "default": output.added,
        "from": _paths_dict(output.input),
        "columns": _schema_dict(output.input.schema),
        "key": list(key_of(output.input)),
        **_sink_dict(plan, output.sink),
        **_written(output),
        "at": str(output.at),
    }


def _dead_dict(plan: Plan) -> dict[str, Any]:
    dead = dead_output(plan.name)
    described = {"name": dead.name, "kind": "stream", "default": True, "from": []}
    columns = {"columns": _schema_dict(DEAD_SCHEMA), "key": list(dead.key)}
    return described | columns | _sink_dict(plan, dead.sink) | {"at": None}


def _sink_dict(plan: Plan, sink: Sink) -> dict[str, Any]:
    return {"to": sink.text, "guarantee": sink.guarantee(plan.delivery)}


def _schema_dict(schema: Schema) -> list[dict[str, str]]:
    return [{"name": each.name, "type": each.type} for each in schema.visible.columns]


def _paths_dict(node: Node) -> list[dict[str, Any]]:
    return [
        {
            "origin": operation(origin),
            "steps": [{"does": operation(each), "at": str(each.at)} for each in passed],
        }
        for origin, passed in paths(node)
    ]
