"""From a plan to a program: every path from a source or step to a step or output is one query."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from riverrun.errors import ProgramError
from riverrun.event_time import Pace
from riverrun.kernels.steps import PLACE
from riverrun.plan.checks import check
from riverrun.plan.inputs import column_list, into_aggregate, whole_rows
from riverrun.plan.nodes import (
    Aggregate,
    Deduplicate,
    Emitted,
    Explode,
    KeyBy,
    Late,
    MarkSeen,
    Node,
    Output,
    Process,
    Select,
    Source,
    SparkStep,
    StepNode,
    Union,
    Where,
    WithColumns,
    changes,
    has_late_rows,
    inputs_of,
    key_of,
)
from riverrun.program import (
    Aggregating,
    Branch,
    Deduplicating,
    Marking,
    OutputSpec,
    Processing,
    Program,
    SourceSpec,
    SparkSpec,
    Step,
)
from riverrun.schema import METADATA, parse, quoted
from riverrun.sinks import Topic

FACT_TYPES = ("TIMESTAMP", "BIGINT", "BIGINT")
HEADERS = dict(METADATA)["_headers"]
CHANGE_COLUMNS = ("__op", "__revision")

DEAD_SCHEMA = parse(
    "topic string, partition int, offset bigint, timestamp timestamp, step string, cause string, "
    "key string, key_base64 string, value string, value_base64 string, "
    "headers struct(name string, value string, value_base64 string)[], row string"
)


def compile_program(name: str, pages: int, outputs: tuple[Output, ...]) -> Program:
    nodes = nodes_of(outputs)
    steps = [node for node in nodes if isinstance(node, StepNode)]
    sparks = [node for node in nodes if isinstance(node, SparkStep)]
    every_output = with_late_outputs(name, outputs)
    check(name, nodes, every_output)
    branches = [
        *(branch for step in steps for branch in _into_step(step)),
        *(branch for step in sparks for branch in _into_spark(step)),
        *(branch for output in every_output for branch in _into_output(output)),
    ]
    sources = _sources(nodes)
    topics = tuple(source.topic for _, source in sources)
    return Program(
        name=name,
        pages=pages,
        sources=tuple(_source_spec(index, node, branches) for index, node in sources),
        branches=tuple(branches),
        steps=tuple(_step_spec(step, pages, topics) for step in steps),
        outputs=(*(_output_spec(each) for each in every_output), dead_output(name)),
        spark_steps=tuple(SparkSpec(step.name, step.input.schema.visible) for step in sparks),
    )


def spark_functions(outputs: tuple[Output, ...]) -> dict[str, Callable[[Any], Any]]:
    return {node.name: node.function for node in nodes_of(outputs) if isinstance(node, SparkStep)}


def nodes_of(outputs: tuple[Output, ...]) -> list[Node]:
    found: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in found:
            for each in inputs_of(node):
                visit(each)
            found[id(node)] = node

    for output in outputs:
        visit(output.input)
    return list(found.values())


def _sources(nodes: list[Node]) -> list[tuple[int, Source]]:
    sources: dict[str, Source] = {}
    for node in nodes:
        if isinstance(node, Source) and sources.setdefault(node.topic, node) is not node:
            raise ProgramError(
                f"the topic {node.topic!r} is read twice",
                where=node.at,
                got=f"first at {sources[node.topic].at}",
                hint="declare it once and use the stream twice",
            )
    return list(enumerate(sources[topic] for topic in sorted(sources)))


def with_late_outputs(app: str, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """The outputs; late rows that the program does not use itself are kept in a topic."""
    nodes = nodes_of(outputs)
    used = {id(node.input) for node in nodes if isinstance(node, Late)}
    steps = [node for node in nodes if isinstance(node, StepNode) and has_late_rows(node)]
    added = [_late_output(app, step) for step in steps if id(step) not in used]
    return (*outputs, *added)


def _late_output(app: str, step: StepNode) -> Output:
    assert isinstance(step, Aggregate | Deduplicate)
    late = Late(step, step.input.schema.visible, step.at)
    return Output(late, Topic(f"{app}.{step.name}.late"), step.at, f"{step.name}.late")


def _output_spec(output: Output) -> OutputSpec:
    node = output.input
    return OutputSpec(output.name, output.sink, node.schema.visible, key_of(node), changes(node))


def dead_output(app: str) -> OutputSpec:
    return OutputSpec("dead", Topic(f"{app}.dead"), DEAD_SCHEMA, ("key",), table=False)


def _source_spec(index: int, node: Source, branches: list[Branch]) -> SourceSpec:
    text = " ".join([*node.reads, *(branch.query or "" for branch in branches)])
    used = frozenset(name for name, _ in METADATA if re.search(rf"\b{name}\b", text))
    return SourceSpec(
        topic=node.topic,
        index=index,
        schema=node.fields,
        time=node.time,
        key=node.key,
        pace=node.pace,
        start=node.start,
        on_loss=node.on_loss,
        metadata=used,
        producer=node.producer,
        punctuation=node.punctuation,
        max_ahead=node.max_ahead,
        at=str(node.at),
        on_error=node.on_error,
    )


def _step_spec(step: StepNode, pages: int, topics: tuple[str, ...]) -> Step:
    common = (step.name, step.keys, _paces(step.input), _level(step))
    if isinstance(step, Deduplicate):
        return Deduplicating(*common, within=step.within)
    if isinstance(step, Process):
        return Processing(
            *common,
            processor=step.processor,
            columns=step.schema.names,
            state=step.state,
            defaults=step.defaults,
            outputs=step.outputs,
            topics=topics,
            on_error=step.on_error,
        )
    if isinstance(step, MarkSeen):
        # keys fall into pages by chance: some pages have more than their share
        share = step.capacity / pages
        room = math.ceil(share + 4 * math.sqrt(share))
        return Marking(*common, column=step.column, capacity=room, error=step.error)
    return Aggregating(
        *common,
        window=step.window,
        updatable=step.updatable,
        emit=step.emit,
        aggregations=step.aggregations,
        signed=changes(step.input),
        late_alert=step.late_alert,
    )


def _level(step: StepNode) -> int:
    """How many exchanges rows pass before the step's own."""
    before = [node for node in _nodes_before(step) if isinstance(node, StepNode)]
    return max((_level(each) + 1 for each in before), default=0)


def _nodes_before(node: Node) -> Iterator[Node]:
    """All nodes up to the next steps with state."""
    for each in inputs_of(node):
        yield each
        if not isinstance(each, StepNode):
            yield from _nodes_before(each)


def _paces(node: Node) -> dict[str, Pace]:
    if isinstance(node, Source):
        return {node.topic: node.pace}
    found: dict[str, Pace] = {}
    for each in inputs_of(node):
        found.update(_paces(each))
    return found


def _into_output(output: Output) -> Iterator[Branch]:
    columns = output.input.schema.visible.names
    own_key = tuple(name for name in key_of(output.input) if name not in columns)
    hidden = CHANGE_COLUMNS if changes(output.input) else PLACE
    for origin, query in _paths(output.input):
        source = f"({query})" if query else "rows"
        headers = _headers(output)
        chosen = f"SELECT {column_list((*columns, *own_key, *hidden))}{headers} FROM {source}"
        if changes(output.input) and query:
            # a row that is taken back and put there again unchanged is no change
            chosen = f"{chosen} QUALIFY count(*) OVER (PARTITION BY {column_list(columns)}) = 1"
        final = chosen if query or own_key or headers else None
        yield Branch(origin, final, f"out:{output.name}", str(output.at), on_error=output.on_error)


def _headers(output: Output) -> str:
    """The column of a record's headers, if there is one."""
    if not isinstance(output.sink, Topic) or output.sink.headers is None:
        return ""
    column = output.sink.headers
    output.input.schema.require(column, output.at)
    found = output.input.schema.type_of(column)
    if changes(output.input) or found != HEADERS:
        raise ProgramError(
            f"{column!r} cannot be the headers of records",
            where=output.at,
            got="rows of a table have none" if changes(output.input) else f"it is {found}",
            hint=f"headers are of a stream, in a column of type {HEADERS}",
        )
    return f", {quoted(column)} AS __headers"


def _into_spark(step: SparkStep) -> Iterator[Branch]:
    columns = (*step.input.schema.visible.names, *PLACE)
    for origin, query in _paths_from_sources(step):
        final = f"SELECT {column_list(columns)} FROM ({query or 'rows'})"
        yield Branch(origin, final, f"spark:{step.name}", str(step.at))


def _into_step(step: StepNode) -> Iterator[Branch]:
    if has_late_rows(step) and _late_rows_in(step.input):
        raise ProgramError(
            f"the step {step.name!r} is fed with late rows",
            where=step.at,
            hint="they would all be late again; aggregate them without a window",
        )
    for origin, query in _paths(step.input):
        source = f"({query})" if query else "rows"
        if isinstance(step, Aggregate):
            careful, combined = into_aggregate(step, source)
        else:
            careful, combined = whole_rows(step, source), None
        target, at = f"step:{step.name}", str(step.at)
        yield Branch(origin, careful, target, at, combined, on_error=step.on_error)


def _late_rows_in(node: Node) -> bool:
    return isinstance(node, Late) or any(map(_late_rows_in, inputs_of(node)))


def _paths_from_sources(step: SparkStep) -> Iterator[tuple[str, str | None]]:
    """The ways into a Spark step: it stands before the first exchange."""
    for origin, query in _paths(step.input):
        if not origin.startswith(("source:", "from_spark:")):
            raise ProgramError(
                f"the step {step.name!r} is fed by another step",
                where=step.at,
                got=origin,
                hint="write to a topic with .to(…), and read the topic in another application",
            )
        yield origin, query


def _paths(node: Node) -> Iterator[tuple[str, str | None]]:
    """Every way from an origin's rows to this node, as (origin, query)."""
    match node:
        case Source():
            yield f"source:{node.topic}", None
        case Aggregate():
            yield f"table:{node.name}", None
        case Late():
            yield f"late:{node.input.name}", None
        case Deduplicate() | MarkSeen() | Process():
            yield f"stream:{node.name}", None
        case Emitted():
            yield f"stream:{node.input.name}/{node.output}", None
        case SparkStep():
            yield f"from_spark:{node.name}", None
        case Union():
            for index, each in enumerate(node.inputs):
                for origin, query in _paths(each):
                    yield origin, _member(node, index, query or "rows")
        case KeyBy():
            yield from _paths(node.input)
        case _:
            for origin, query in _paths(node.input):
                yield origin, _stateless(node, f"({query})" if query else "rows")


def _member(node: Union, index: int, query: str) -> str:
    columns = column_list(node.schema.visible.names)
    source = query if query == "rows" else f"({query})"
    sub = f"__sub * {len(node.inputs)} + {index} AS __sub"
    return f"SELECT {columns}, __at, __pos, {sub} FROM {source}"


def _stateless(node: Where | Select | WithColumns | Explode, source: str) -> str:
    if isinstance(node, Where):
        return f"SELECT * FROM {source} WHERE ({node.condition})"
    if isinstance(node, Select):
        columns = ", ".join(f"({sql}) AS {quoted(name)}" for name, sql in node.columns)
        hidden = CHANGE_COLUMNS if changes(node) else PLACE
        return f"SELECT {columns}, {column_list(hidden)} FROM {source}"
    if isinstance(node, WithColumns):
        new = ", ".join(f"({sql}) AS {quoted(name)}" for name, sql in node.columns)
        known = [name for name, _ in node.columns if name in node.input.schema]
        kept = f"* EXCLUDE ({column_list(tuple(known))})" if known else "*"
        return f"SELECT {kept}, {new} FROM {source}"
    others = column_list(tuple(name for name in node.schema.names if name != node.column))
    column = quoted(node.column)
    # the place of an element within its list keeps rows of one record in order
    return (
        f"SELECT {others}{', ' if others else ''}unnest({column}) AS {column}, __at, __pos, "
        f"__sub * 1048576 + unnest(range(len({column}))) AS __sub FROM {source}"
    )
