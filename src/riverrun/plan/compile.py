"""From a plan to a program: every path from a source or step to a step or output is one query."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from riverrun.clock import Pace
from riverrun.errors import ProgramError
from riverrun.formats import JSON
from riverrun.kernels.steps import PLACE
from riverrun.plan.checks import check
from riverrun.plan.derive import (
    changes,
    has_late_rows,
    inputs_of,
    key_of,
    late_sides,
    nodes_of,
    settled,
)
from riverrun.plan.inputs import column_list, into_step, into_table
from riverrun.plan.joins import into_join, joining, replicated, rows_from
from riverrun.plan.nodes import (
    Aggregate,
    Deduplicate,
    Join,
    Late,
    MarkSeen,
    Node,
    Output,
    Process,
    Rank,
    Settle,
    Source,
    SparkStep,
    StepNode,
    ToTable,
)
from riverrun.plan.paths import CHANGE_COLUMNS, paths, relation_of, versions
from riverrun.program import (
    Aggregating,
    Branch,
    Deduplicating,
    Marking,
    OutputSpec,
    Processing,
    Program,
    Ranking,
    Settling,
    SourceSpec,
    SparkSpec,
    Step,
    Tabling,
)
from riverrun.schema import METADATA, parse, quoted
from riverrun.sinks import Topic

FACT_TYPES = ("TIMESTAMP", "BIGINT", "BIGINT")
HEADERS = dict(METADATA)["_headers"]

DEAD_SCHEMA = parse(
    "topic string, partition int, offset bigint, timestamp timestamp, step string, cause string, "
    "key string, key_base64 string, value string, value_base64 string, "
    "headers struct(name string, value string, value_base64 string)[], row string"
)


def compile_program(name: str, pages: int, given: tuple[Output, ...]) -> Program:
    outputs = with_settled_tables(given)
    nodes = nodes_of(outputs)
    steps = [node for node in nodes_of(outputs, rows_from) if isinstance(node, StepNode)]
    sparks = [node for node in nodes if isinstance(node, SparkStep)]
    every_output = with_late_outputs(name, outputs)
    sources = _sources(nodes)
    check(name, nodes, every_output)
    branches = [
        *(branch for step in steps for branch in _into_step(step)),
        *(branch for step in sparks for branch in _into_spark(step)),
        *(branch for output in every_output for branch in _into_output(output)),
    ]
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


def _sources(nodes: list[Node]) -> list[tuple[int, Source]]:
    sources: dict[str, Source] = {}
    for node in nodes:
        if isinstance(node, Source) and sources.setdefault(node.topic, node) is not node:
            raise ProgramError(
                f"the topic {node.topic!r} is read twice",
                where=node.at,
                got=f"first at {sources[node.topic].at}",
                hint="declare it once and use it twice",
            )
    return list(enumerate(sources[topic] for topic in sorted(sources)))


def with_late_outputs(app: str, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """The outputs; late rows that the program does not use itself are kept in a topic."""
    nodes = nodes_of(outputs)
    used = {(id(node.input), str(node.side)) for node in nodes if isinstance(node, Late)}
    steps = [node for node in nodes if isinstance(node, StepNode)]
    return (*outputs, *(late for step in steps for late in _late_outputs(app, step, used)))


def _late_outputs(app: str, step: StepNode, used: set[tuple[int, str]]) -> Iterator[Output]:
    for side in late_sides(step):
        if (id(step), side) in used:
            continue
        assert isinstance(step, Aggregate | Deduplicate | Join)
        entering = inputs_of(step)[0 if side == "left" else 1]
        name = f"{step.name}.late" if side == "left" else f"{step.name}.right.late"
        late = Late(step, entering.schema.visible, step.at, side)
        yield Output(late, Topic(f"{app}.{name}"), step.at, name)


def with_settled_tables(outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """Outputs with the changes of each key in one page, so that they are written in order."""
    made: dict[int, Settle] = {}

    def brought_together(output: Output) -> Output:
        node = output.input
        if not changes(node) or settled(node):
            return output
        if id(node) not in made:
            name = f"{output.name}.settled"
            made[id(node)] = Settle(node, name, key_of(node), False, node.schema.visible, output.at)
        return replace(output, input=made[id(node)])

    return tuple(map(brought_together, outputs))


def _output_spec(output: Output) -> OutputSpec:
    node = output.input
    written = output.sink.format if isinstance(output.sink, Topic) else JSON
    return OutputSpec(
        output.name, output.sink, node.schema.visible, key_of(node), changes(node), written
    )  # fmt: skip


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
        format=node.format,
        producer=node.producer,
        punctuation=node.punctuation,
        max_ahead=node.max_ahead,
        table_key=node.table_key,
        at=str(node.at),
        on_error=node.on_error,
    )


def _step_spec(step: StepNode, pages: int, topics: tuple[str, ...]) -> Step:
    common = (step.name, step.keys, _paces_into(step), _level(step))
    spec: Step
    match step:
        case Deduplicate():
            spec = Deduplicating(*common, within=step.within)
        case MarkSeen():
            # keys fall into pages by chance: some pages have more than their share
            share = step.capacity / pages
            room = math.ceil(share + 4 * math.sqrt(share))
            spec = Marking(*common, column=step.column, capacity=room, error=step.error)
        case Process():
            spec = Processing(
                *common,
                processor=step.processor,
                columns=step.schema.names,
                state=step.state,
                defaults=step.defaults,
                outputs=step.outputs,
                topics=topics,
                on_error=step.on_error,
            )
        case Aggregate():
            spec = Aggregating(
                *common,
                window=step.window,
                updatable=step.updatable,
                emit=step.emit,
                aggregations=step.aggregations,
                signed=changes(step.input),
                late_alert=step.late_alert,
            )
        case ToTable():
            spec = Tabling(*common, columns=step.schema.visible.names, order=step.order)
        case Join():
            spec = joining(step, common, _paces(step.right), topics)
        case Rank():
            columns = step.input.schema.visible.names
            identity = tuple(name for name in key_of(step.input) if name not in step.keys)
            spec = Ranking(*common, columns, identity, step.limit, step.descending, step.place)
        case Settle():
            spec = Settling(*common, step.input.schema.visible.names, step.facts)
    return spec


def _level(step: StepNode) -> int:
    """How many exchanges rows pass before the step's own."""
    if isinstance(step, Join) and replicated(step):
        # the table is in every page: rows of the stream stay where they are
        here = [_level(each) for each in _steps_before(step.left)]
        return max([0, *here, *(_level(each) + 1 for each in _steps_before(rows_from(step)[1]))])
    return max((_level(e) + 1 for node in rows_from(step) for e in _steps_before(node)), default=0)


def _steps_before(node: Node) -> Iterator[StepNode]:
    """The next steps with state, seen from a node backwards: it may be one."""
    if isinstance(node, StepNode):
        yield node
        return
    for each in rows_from(node):
        yield from _steps_before(each)


def _paces_into(step: StepNode) -> dict[str, Pace]:
    """What moves a step's clock. A table that is joined as it stands does not."""
    if isinstance(step, Join) and step.kind == "latest":
        return _paces(step.left)
    return _slowest(map(_paces, inputs_of(step)))


def _paces(node: Node) -> dict[str, Pace]:
    """What moves the clock of a node's rows: topics, and how long to wait for the last row."""
    match node:
        case Source():
            return {node.topic: node.pace}
        case Settle(facts=True):
            return {node.name: Pace(0, 0, "tick")}
        case Join(kind="latest"):
            return _paces(node.left)
        case Join(kind="streams"):
            # a row that matches none leaves when it no longer can, a pair when its later row comes
            delay = max(
                node.after if node.how in ("left", "full") or node.time == "left" else 0,
                node.before if node.how in ("right", "full") or node.time == "right" else 0,
            )
            found = _slowest(map(_paces, inputs_of(node)))
            return {n: replace(pace, lateness=pace.lateness + delay) for n, pace in found.items()}
        case _:
            return _slowest(map(_paces, inputs_of(node)))


def _slowest(several: Iterable[dict[str, Pace]]) -> dict[str, Pace]:
    found: dict[str, Pace] = {}
    for paces in several:
        for topic, pace in paces.items():
            known = found.get(topic, pace)
            found[topic] = pace if pace.lateness >= known.lateness else known
    return found


def _into_output(output: Output) -> Iterator[Branch]:
    columns = output.input.schema.visible.names
    own_key = tuple(name for name in key_of(output.input) if name not in columns)
    hidden = CHANGE_COLUMNS if changes(output.input) else PLACE
    for origin, query in paths(output.input):
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
    if has_late_rows(step) and any(map(_late_rows_in, inputs_of(step))):
        raise ProgramError(
            f"the step {step.name!r} is fed with late rows",
            where=step.at,
            hint="they would all be late again; aggregate them without a window",
        )
    for origin, query, combined, target in _queries_into(step):
        yield Branch(origin, query, target, str(step.at), combined, on_error=step.on_error)


def _queries_into(step: StepNode) -> Iterator[tuple[str, str, str | None, str]]:
    """(origin, query, query when no row can be late, target)"""
    target = f"step:{step.name}"
    match step:
        case Join():
            for side, origin, entering in into_join(step):
                yield origin, entering, None, target if side == "left" else f"{target}/right"
        case ToTable():
            for origin, query in versions(step):
                yield origin, into_table(relation_of(query)), None, target
        case _:
            for origin, query in paths(step.input):
                careful, combined = into_step(step, relation_of(query))
                yield origin, careful, combined, target


def _late_rows_in(node: Node) -> bool:
    return isinstance(node, Late) or any(map(_late_rows_in, inputs_of(node)))


def _paths_from_sources(step: SparkStep) -> Iterator[tuple[str, str | None]]:
    """The ways into a Spark step: it stands before the first exchange."""
    for origin, query in paths(step.input):
        if not origin.startswith(("source:", "from_spark:")):
            raise ProgramError(
                f"the step {step.name!r} is fed by another step",
                where=step.at,
                got=origin,
                hint="write to a topic with .to(…), and read the topic in another application",
            )
        yield origin, query
