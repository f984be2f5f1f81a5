"""What a plan as a whole must hold; each error names the line at fault."""

from __future__ import annotations

from collections.abc import Sequence

from riverrun.control import SOURCE, answer_topic, control_topic
from riverrun.errors import ProgramError
from riverrun.kernels.program import ReadTopic
from riverrun.partitions import real
from riverrun.plan.nodes import Late, Node, Output, Plan, SparkStep, Step, Union
from riverrun.plan.rows import changes, inputs_of, nodes_of, steps_of
from riverrun.schema import no_key


def check(plan: Plan) -> Plan:
    nodes, outputs, steps = nodes_of(plan.outputs), plan.outputs, steps_of(plan.outputs)
    _refuse_same_topics(nodes)
    _refuse_same_steps(steps)
    _refuse_standing_names(steps)
    _refuse_same_steps([node for node in nodes if isinstance(node, SparkStep)])
    _refuse_same_outputs(nodes, outputs)
    _refuse_shared_topics(plan)
    _refuse_shared_folders(outputs)
    _refuse_own_topic(plan.name, outputs)
    _refuse_tables_among_streams(nodes)
    _refuse_unfit_keys(steps)
    _refuse_late_again(steps)
    return plan


def _refuse_same_topics(nodes: list[Node]) -> None:
    sources: dict[str, ReadTopic] = {}
    for node in nodes:
        if isinstance(node, ReadTopic) and sources.setdefault(node.topic, node) is not node:
            raise ProgramError(
                f"the topic {real(node.topic)!r} is read twice",
                where=node.at,
                got=f"first at {sources[node.topic].at}",
                hint="declare it once and use it twice; or, to read it in two ways, give one of "
                'them a name: app.table(…, name="…")',
            )
    if len(sources) > SOURCE:
        raise ProgramError(f"a program reads at most {SOURCE} topics", got=len(sources))


def _refuse_own_topic(app: str, outputs: tuple[Output, ...]) -> None:
    own = (f"{app}.progress", control_topic(app), answer_topic(app))
    for output in outputs:
        if output.sink.kafka_topic() in own:
            raise ProgramError(
                f"the topic {output.sink.kafka_topic()!r} is riverrun's own",
                where=output.at,
                hint="it holds what is delivered, asked or answered: write to another",
            )


def _refuse_same_steps(steps: Sequence[Step | SparkStep]) -> None:
    names: dict[str, object] = {}
    for step in steps:
        if step.name in names:
            raise ProgramError(
                f"two steps are called {step.name!r}",
                where=step.at,
                got=f"the other is at {names[step.name]}",
                hint='give one a name: name="…"'
                if isinstance(step, Step)
                else "a .spark(…) step has the name of its function: give each its own",
            )
        names[step.name] = step.at


def _refuse_standing_names(steps: list[Step]) -> None:
    """A step cannot have been what another one is."""
    names = {step.name: step for step in steps}
    former: dict[str, Step] = {}
    for step in steps:
        if step.was is None:
            continue
        other = names.get(step.was) or former.setdefault(step.was, step)
        if other is not step:
            raise ProgramError(
                f"two steps would go on with the state of {step.was!r}",
                where=step.at,
                got=f"the other is at {other.at}",
                hint="was= is the name that a step had before, and no step has now",
            )


def _refuse_same_outputs(nodes: list[Node], outputs: tuple[Output, ...]) -> None:
    read = {
        real(node.topic)
        for node in nodes
        if isinstance(node, ReadTopic) and not (node.own or node.shared)
    }
    for output in outputs:
        if output.sink.kafka_topic() in read:
            raise ProgramError(
                f"the program writes to {output.sink.kafka_topic()!r}, which it reads",
                where=output.at,
                hint="write to another topic: it would feed itself for ever; "
                "or go on from what is written with .through(…)",
            )
    written: dict[str, object] = {"dead": "riverrun itself"}
    for output in outputs:
        if output.name in written:
            raise ProgramError(
                f"two outputs are called {output.name!r}",
                where=output.at,
                got=f"the other is at {written[output.name]}",
                hint="write to another name, or union the streams first",
            )
        written[output.name] = output.at


def _refuse_shared_topics(plan: Plan) -> None:
    written: dict[str | None, object] = {f"{plan.name}.dead": "riverrun itself"}
    for output in plan.outputs:
        topic = output.sink.kafka_topic()
        if topic is not None and topic in written:
            raise ProgramError(
                f"two outputs are written to the topic {topic!r}",
                where=output.at,
                got=f"the other is at {written[topic]}",
                hint="write to another topic, or union the streams first",
            )
        written[topic] = output.at


def _refuse_shared_folders(outputs: tuple[Output, ...]) -> None:
    owners: dict[str, Output] = {}
    for output in outputs:
        if (folder := output.sink.owns()) is None:
            continue
        other = owners.setdefault(folder, output)
        if other is not output:
            raise ProgramError(
                "two outputs are written to one folder",
                where=output.at,
                got=f"{folder}, the other is at {other.at}",
                hint="give each a folder of its own",
            )


def _refuse_tables_among_streams(nodes: list[Node]) -> None:
    for node in nodes:
        if isinstance(node, Union) and any(changes(each) for each in node.inputs):
            raise ProgramError("a union is of streams, not of tables", where=node.at)


def _refuse_unfit_keys(steps: list[Step]) -> None:
    for step in steps:
        for key, found in zip(step.does.keys, step.does.key_types, strict=True):
            if hint := no_key(found):
                raise ProgramError(
                    f"rows cannot be grouped by {key!r}, which is {found}",
                    where=step.at,
                    hint=f"{hint} in with_columns(), and group by that",
                )


def _refuse_late_again(steps: list[Step]) -> None:
    for step in steps:
        ways = zip(step.does.inputs, step.inputs, strict=True)
        if any(way.late and _late_rows_in(node) for way, node in ways):
            raise ProgramError(
                f"the step {step.name!r} is fed with late rows",
                where=step.at,
                hint="they would all be late again; aggregate them without a window",
            )


def _late_rows_in(node: Node) -> bool:
    return isinstance(node, Late) or any(map(_late_rows_in, inputs_of(node)))
