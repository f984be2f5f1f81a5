"""Expressions read personal columns, and what they compute of them is sealed again.

What cannot be followed is refused, unless the program says that it is public.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from riverrun.compiler.marks import Marks, PlanMarks, mark_of, used_in
from riverrun.compiler.paths import sealed_name
from riverrun.errors import ProgramError
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.revealing import SEAL
from riverrun.operators.aggregate import Aggregate
from riverrun.partitions import real
from riverrun.plan.nodes import Node, Plan, Select, Step, Where, WithColumns, WithTime
from riverrun.plan.rows import form_of, nodes_of, rewritten
from riverrun.schema import quoted

COUNTS = ("count", "distinct", "approx_distinct")
"""Aggregates that tell how many, and of nobody what."""

PUBLIC = "compute it before, and say that it is public: .with_columns(…='public(…)')"


def keep_personal(plan: Plan) -> Plan:
    nodes = nodes_of(plan.outputs)
    if not any(isinstance(node, ReadTopic) and node.personal for node in nodes):
        return plan
    _refuse_read_otherwise([node for node in nodes if isinstance(node, ReadTopic)])
    marks, originals = PlanMarks(plan), iter(nodes)

    def kept(node: Node) -> Node:
        original = next(originals)
        return _kept(node, [marks.of(each) for each in _inputs(original)])

    return replace(plan, outputs=rewritten(plan.outputs, kept))


def _refuse_read_otherwise(sources: list[ReadTopic]) -> None:
    """What is personal in one reading of a topic is so in every other."""
    for each in sources:
        mine = {name for one in each.personal for name in one.columns}
        for other in sources:
            theirs = {name for one in other.personal for name in one.columns}
            left = sorted((mine - theirs) & set(other.fields.names))
            if left and real(each.topic) == real(other.topic):
                raise ProgramError(
                    f"{left[0]!r} is personal in one reading of {real(each.topic)!r} only",
                    where=other.at,
                    got=f"the other one is at {each.at}",
                    hint="give both the same personal=, or leave the column out of the schema",
                )


def _inputs(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Step):
        return node.inputs
    return (node.input,) if isinstance(node, Where | Select | WithColumns | WithTime) else ()


def _kept(node: Node, given: list[Marks]) -> Node:
    match node:
        case Where() if node.function is None:
            return _where(node, _columns(given[0]))
        case Select() | WithColumns():
            return _computed(node, given[0])
        case WithTime():
            _refuse_used(node, node.time, given[0], "a time")
        case Step():
            _check_step(node, given)
        case _:  # any other: passes rows on, or hands them to code as they are
            pass
    return node


def _columns(given: Marks) -> Marks:
    """Without JSON, whose fields are no columns."""
    return {name: mark for name, mark in given.items() if not mark.fields}


def _where(node: Where, given: Marks) -> Where:
    used = used_in(node.condition, given)
    if used:
        _refuse_table(node, node.condition, used)
    return replace(node, reveals=tuple(used)) if used else node


def _computed(node: Select | WithColumns, given: Marks) -> Select | WithColumns:
    columns, whole = [], _columns(given)
    reveals: dict[str, None] = {}
    for name, text in node.columns:
        used = [] if text in map(quoted, given) else used_in(text, whole)
        if used:
            _refuse_table(node, text, used)
        reveals |= dict.fromkeys(used)
        columns.append((name, _sealed(node, name, text, whole) if used else text))
    if not reveals:
        return node
    # what is passed on is what was there before it was revealed
    shown = {quoted(name): sealed_name(name) for name in reveals}
    final = tuple((name, shown.get(text, text)) for name, text in columns)
    return replace(node, columns=final, reveals=tuple(reveals))


def _sealed(node: Select | WithColumns, name: str, text: str, given: Marks) -> str:
    used = used_in(text, given, private=True)
    if not used:
        return text
    kinds = sorted({given[each].subject for each in used})
    if len(kinds) > 1:
        raise ProgramError(
            f"{name!r} is computed from what is personal of a {' and of a '.join(kinds)}",
            where=node.at,
            got=text,
            hint="one key is for one subject: compute it of each, or say public(…)",
        )
    found = node.schema.type_of(name)
    if found != "VARCHAR":
        raise ProgramError(
            f"{name!r} is computed from the personal {', '.join(used)}, and is {found}",
            where=node.at,
            got=text,
            hint=f"what is personal is kept as text: ({text})::varchar; or say that it is not "
            f"personal: public({text})",
        )
    whose = ", ".join(sealed_name(each) for each in used)
    return f"{SEAL}(({text}), concat_ws(' ', {whose}))"


def _refuse_table(node: Where | Select | WithColumns, text: str, used: list[str]) -> None:
    """A row that is taken back later has to be computed as it was, when the key may be gone."""
    if form_of(node) != "facts":
        raise ProgramError(
            f"an expression over a table reads the personal {', '.join(used)}",
            where=node.at,
            got=text,
            hint="compute it in a stream, before it becomes a table: when somebody is forgotten, "
            "what was computed could not be taken back",
        )


def _refuse_used(node: Node, text: str, given: Marks, what: str) -> None:
    if used := used_in(text, _columns(given)):
        raise ProgramError(
            f"{what} is made of the personal {', '.join(used)}",
            where=node.at,
            got=text,
            hint=PUBLIC,
        )


def _check_step(step: Step, given: list[Marks]) -> None:
    """Steps keep what is sealed as it is, and count it; what reads it is refused."""
    if isinstance(step.does, Aggregate):
        _check_aggregate(step, step.does, _columns(given[0]))
        return
    personal = {name for marks in given for name in _columns(marks)}
    if step.does.kind == "rules" and personal:
        raise ProgramError(
            f"live rules would read the personal {', '.join(sorted(personal))}",
            where=step.at,
            hint="leave such columns out before: .select(…)",
        )
    for text in _read_by(step):
        for name in sorted(personal):
            if re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE):
                raise ProgramError(
                    f"the step {step.name!r} reads the personal {name!r}",
                    where=step.at,
                    got=text,
                    hint=PUBLIC,
                )


def _read_by(step: Step) -> Iterator[str]:
    """What a step reads of rows, beyond keeping them."""
    does = step.does
    match does.kind:
        case "match" | "match on arrival" | "rank":
            yield from (f"{name} {text}" for name, text in does.words().lines)
        case "join streams":
            yield str(does.settings()["condition"] or "")
        case "lookup":
            yield ", ".join(does.keys)
        case _:  # any other: keeps rows, or hands them to code as they are
            return


def _check_aggregate(step: Step, does: Aggregate, given: Marks) -> None:  # type: ignore[type-arg]
    for each in does.aggregations:
        texts = [text for text in (each.expression, each.weight, each.other) if text]
        for text in texts:
            counted = each.kind in COUNTS and text in map(quoted, given)
            if counted or each.own is not None:
                continue
            if used := used_in(text, given):
                raise ProgramError(
                    f"{each.name!r} would mix the personal {', '.join(used)} of several people",
                    where=step.at,
                    got=f"{each.kind}({text})",
                    hint=f"count() and distinct() of a column may be taken; else {PUBLIC}",
                )
        if each.own is not None and any(mark_of(t, given, "") for t in each.own.expressions):
            raise ProgramError(
                f"{each.name!r} would mix what is personal of several people",
                where=step.at,
                hint=PUBLIC,
            )
