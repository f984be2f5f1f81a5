"""From a plan to a program: every path from a source or step to a step or output is one query."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from riverrun.clock import Pace
from riverrun.columns import HIDDEN, PLACE
from riverrun.compiler.continued import Continued, going_on
from riverrun.compiler.functions import functions_of
from riverrun.compiler.loading import loading
from riverrun.compiler.passes import passed
from riverrun.compiler.paths import paths, relation_of, times
from riverrun.edges import Edge
from riverrun.errors import ProgramError
from riverrun.kernels.functions import Function
from riverrun.kernels.program import Branch, PlacedStep, Program, ReadTopic, SparkSpec, Timing
from riverrun.kernels.revealing import revealing
from riverrun.outputs import OutputSpec
from riverrun.plan.nodes import Node, Output, Plan, SparkStep, Step, WithTime
from riverrun.plan.rows import changes, form_of, inputs_of, key_of, nodes_of, origins, steps_of
from riverrun.schema import METADATA, column_list, quoted
from riverrun.sinks.kafka.dead import dead_output


def compile_program(given: Plan, how: Continued | None = None) -> Program:
    """`how` it goes on with a checkpoint, if there is one."""
    plan = passed(given if how is None else going_on(given, how))
    nodes, steps = nodes_of(plan.outputs), steps_of(plan.outputs)
    sparks = [node for node in nodes if isinstance(node, SparkStep)]
    timed = [node for node in nodes if isinstance(node, WithTime)]
    _refuse_same_names(timed)
    branches = [
        *(branch for step in steps for branch in _into_step(step)),
        *(branch for step in sparks for branch in _into_spark(step)),
        *(branch for output in plan.outputs for branch in _into_output(output)),
    ]
    sources = sorted((n for n in nodes if isinstance(n, ReadTopic)), key=lambda each: each.topic)
    program = Program(
        name=plan.name,
        pages=plan.pages,
        sources=tuple(_source(index, node, branches) for index, node in enumerate(sources)),
        branches=tuple(branches),
        steps=tuple(map(_placed, steps)),
        outputs=(*map(_output_spec, plan.outputs), dead_output(plan.name)),
        spark_steps=tuple(SparkSpec(step.name, step.input.schema.visible) for step in sparks),
        delivery=plan.delivery,
        functions=(*functions_of(plan.outputs), *_revealing(nodes)),
        timings=tuple(timing for node in timed for timing in _timings(node)),
    )
    read_again = [topic for topic in program.own_topics if topic not in program.histories]
    return replace(program, loading=loading(steps, read_again))


def spark_functions(outputs: tuple[Output, ...]) -> dict[str, Callable[[Any], Any]]:
    return {node.name: node.function for node in nodes_of(outputs) if isinstance(node, SparkStep)}


def _revealing(nodes: list[Node]) -> tuple[Function, ...]:
    return revealing() if any(getattr(each, "reveals", ()) for each in nodes) else ()


def _output_spec(output: Output) -> OutputSpec:
    node = output.input
    return OutputSpec(output.name, output.sink, node.schema.visible, key_of(node), changes(node))


def _source(index: int, node: ReadTopic, branches: list[Branch]) -> ReadTopic:
    text = " ".join([*node.reads, *(branch.query or "" for branch in branches)])
    used = frozenset(name for name, _ in METADATA if re.search(rf"\b{name}\b", text))
    return replace(node, index=index, metadata=used)


def _placed(step: Step) -> PlacedStep:
    awaited = [_paces(node) for way, node in _ways(step) if way.awaited]
    return PlacedStep(step.does, _level(step), _clock(step), _slowest(awaited), step.was)


def _ways(step: Step) -> Iterator[tuple[Any, Node]]:
    return zip(step.does.inputs, step.inputs, strict=True)


def _level(step: Step) -> int:
    """How many exchanges rows pass before the step's own."""
    before = (
        _level(each) + (0 if way.stays else 1)
        for way, node in _ways(step)
        for each in origins(node)
        if isinstance(each, Step)
    )
    return max(before, default=0)


def _clock(step: Step) -> dict[str, Pace]:
    """What moves a step's clock: topics, and how long to wait for the last row of each."""
    return _slowest(_paces(node) for way, node in _ways(step) if way.moves_clock)


def _paces(node: Node) -> dict[str, Pace]:
    """The same for what comes after a node."""
    if isinstance(node, ReadTopic):
        return {node.topic: node.pace}
    if isinstance(node, WithTime):
        return {node.keeper(each): node.pace for each in _topics(node)}
    if not isinstance(node, Step):
        return _slowest(map(_paces, inputs_of(node)))
    leaving = node.does.leaving
    if leaving.at_tick:
        return {node.name: Pace(0, 0, "tick")}
    found = _clock(node)
    return {n: replace(pace, lateness=pace.lateness + leaving.delay) for n, pace in found.items()}


def _topics(node: WithTime) -> list[str]:
    return [each.topic for each in origins(node) if isinstance(each, ReadTopic)]


def _refuse_same_names(nodes: list[WithTime]) -> None:
    """Each time has a clock of its own, and the clock a name."""
    known: dict[str, WithTime] = {}
    for node in nodes:
        for topic in _topics(node):
            other = known.setdefault(node.keeper(topic), node)
            if other is not node:
                raise ProgramError(
                    f"two times of the topic {topic!r} have the name {node.name!r}",
                    where=node.at,
                    got=f"the other one is at {other.at}",
                    hint='tell them apart: .with_time(…, name="…"), or use the first one twice',
                )


def _timings(node: WithTime) -> Iterator[Timing]:
    for origin, query in times(node):
        assert query is not None
        yield Timing(origin.name, node.keeper(origin.name), query)


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
    form = form_of(output.input)
    for origin, query in paths(output.input):
        carried = _carried(output)
        chosen = f"SELECT {column_list((*columns, *own_key, *HIDDEN[form]))}{carried}"
        chosen = f"{chosen} FROM {relation_of(query)}"
        if form == "changes" and query:
            # a row that is taken back and put there again unchanged is no change
            chosen = f"{chosen} QUALIFY count(*) OVER (PARTITION BY {column_list(columns)}) = 1"
        yield Branch(
            origin,
            form,
            chosen if query or own_key or carried else None,
            Edge("out", output.name),
            str(output.at),
            on_error=output.on_error,
        )


def _carried(output: Output) -> str:
    """The columns that the sink wants beside the visible ones."""
    return "".join(f", {quoted(column)} AS {own}" for own, column in output.sink.carried().items())


def _into_spark(step: SparkStep) -> Iterator[Branch]:
    columns = (*step.input.schema.visible.names, *PLACE)
    for origin, query in paths(step.input):
        if origin.kind not in ("source", "from spark"):
            raise ProgramError(
                f"the step {step.name!r} is fed by another step",
                where=step.at,
                got=str(origin),
                hint="write to a topic with .to(…), and read the topic in another application",
            )
        final = f"SELECT {column_list(columns)} FROM {relation_of(query)}"
        yield Branch(origin, "facts", final, Edge("spark", step.name), str(step.at))


def _into_step(step: Step) -> Iterator[Branch]:
    for number, node in enumerate(step.inputs):
        for origin, query in paths(node):
            entry = step.does.enter(number, relation_of(query))
            yield Branch(
                origin,
                form_of(node),
                entry.query,
                step.does.input_edge(number),
                str(step.at),
                entry.combined,
                entry.patience,
                step.on_error,
            )
