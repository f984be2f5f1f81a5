"""What a plan as a whole must hold; each error names the line at fault."""

from __future__ import annotations

import re
from collections.abc import Sequence

from riverrun.errors import ProgramError
from riverrun.plan.derive import changes
from riverrun.plan.nodes import Join, Node, Output, Source, SparkStep, StepNode, Union


def check(app: str, nodes: list[Node], outputs: tuple[Output, ...]) -> None:
    steps = [node for node in nodes if isinstance(node, StepNode)]
    _refuse_same_steps(steps)
    _refuse_same_steps([node for node in nodes if isinstance(node, SparkStep)])
    _refuse_same_outputs(nodes, outputs)
    _refuse_shared_folders(outputs)
    _refuse_own_topic(app, outputs)
    _refuse_tables_among_streams(nodes)
    _refuse_lists_as_keys(steps)


def _refuse_own_topic(app: str, outputs: tuple[Output, ...]) -> None:
    for output in outputs:
        if output.sink.kafka_topic() == f"{app}.progress":
            raise ProgramError(
                f"the topic {output.sink.kafka_topic()!r} is riverrun's own",
                where=output.at,
                hint="it holds what is delivered: write to another",
            )


def _refuse_same_steps(steps: Sequence[StepNode | SparkStep]) -> None:
    names: dict[str, object] = {}
    for step in steps:
        if step.name in names:
            raise ProgramError(
                f"two steps are called {step.name!r}",
                where=step.at,
                got=f"the other is at {names[step.name]}",
                hint='give one a name: name="…"'
                if isinstance(step, StepNode)
                else "a .spark(…) step has the name of its function: give each its own",
            )
        names[step.name] = step.at


def _refuse_same_outputs(nodes: list[Node], outputs: tuple[Output, ...]) -> None:
    read = {node.topic for node in nodes if isinstance(node, Source) and not node.own}
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


def _refuse_lists_as_keys(steps: list[StepNode]) -> None:
    for step in steps:
        if isinstance(step, Join):
            continue  # its keys were looked at when it was made
        for key in step.keys:
            found = step.input.schema.type_of(key)
            if re.search(r"\]$|^MAP", found):
                raise ProgramError(
                    f"rows cannot be grouped by {key!r}, which is {found}",
                    where=step.at,
                    hint="group by a single value, e.g. one computed with with_columns()",
                )
