"""Expressions read personal columns, and what they compute of them is sealed again.

What cannot be followed is refused, unless the program says that it is public.
"""

from __future__ import annotations

from dataclasses import replace

from riverrun.compiler.marks import Marks, PlanMarks, fields_in, used_in
from riverrun.compiler.paths import sealed_name
from riverrun.errors import ProgramError
from riverrun.forgetting.declared import Mark
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.revealing import SEAL
from riverrun.kernels.sql import names_in, takes_only
from riverrun.kernels.uses import Use
from riverrun.operators.aggregate import Aggregate
from riverrun.operators.joins.join import Join
from riverrun.partitions import real
from riverrun.plan.nodes import (
    Node,
    Output,
    Plan,
    Select,
    Step,
    Union,
    Where,
    WithColumns,
    WithTime,
)
from riverrun.plan.rows import form_of, nodes_of, rewritten
from riverrun.schema import quoted

COUNTS = ("count", "distinct", "approx_distinct")
"""Aggregates that tell how many, and of nobody what."""

PUBLIC = "compute it before, and say that it is public: .with_columns(…='public(…)')"
LEAVE_OUT = "leave such columns out before: .select(…)"


def keep_personal(plan: Plan) -> Plan:
    nodes = nodes_of(plan.outputs)
    if not any(isinstance(node, ReadTopic) and node.personal for node in nodes):
        return plan
    _refuse_read_otherwise([node for node in nodes if isinstance(node, ReadTopic)])
    marks, originals = PlanMarks(plan), iter(nodes)
    for output in plan.outputs:
        _check_sink(output, marks.of(output.input))

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
    if isinstance(node, Step | Union):
        return node.inputs
    return (node.input,) if isinstance(node, Where | Select | WithColumns | WithTime) else ()


def _kept(node: Node, given: list[Marks]) -> Node:
    match node:
        case Where() if node.function is None:
            _refuse_fields(node, node.condition, given[0])
            return _where(node, _columns(given[0]))
        case Select() | WithColumns():
            for _, text in node.columns:
                if not takes_only(text):
                    _refuse_fields(node, text, given[0])
            return _computed(node, given[0])
        case WithTime():
            _refuse_used(node, node.time, given[0], "a time")
        case Union():
            _refuse_mixed(node, given)
        case Step():
            _check_step(node, given)
        case _:  # any other: passes rows on, or hands them to code as they are
            pass
    return node


def _columns(given: Marks) -> Marks:
    """Without JSON, whose fields are no columns."""
    return {name: mark for name, mark in given.items() if not mark.fields}


def _refuse_fields(node: Node, text: str, given: Marks) -> None:
    """Fields of JSON can be taken out of it, as they are."""
    for column in used_in(text, given):
        if used := fields_in(text, given[column]):
            raise ProgramError(
                f"an expression computes with the personal {', '.join(used)} of {column!r}",
                where=node.at,
                got=text,
                hint="take it out before, with .of(…) of the aggregate: that is a column that can "
                "be computed with",
            )


def _where(node: Where, given: Marks) -> Where:
    used = used_in(node.condition, given)
    _refuse_table(node, node.condition, given)
    return replace(node, reveals=tuple(used)) if used else node


def _computed(node: Select | WithColumns, given: Marks) -> Select | WithColumns:
    columns, whole = [], _columns(given)
    reveals: dict[str, None] = {}
    for name, text in node.columns:
        used = [] if text in map(quoted, given) else used_in(text, whole)
        if used:
            _refuse_table(node, text, whole)
        reveals |= dict.fromkeys(used)
        columns.append((name, _sealed(node, name, text, whole) if used else text))
    if not reveals:
        return node
    # what is passed on is what was there before it was revealed
    shown = {quoted(name): sealed_name(name) for name in reveals}
    final = tuple((name, shown.get(text, text)) for name, text in columns)
    return replace(node, columns=final, reveals=tuple(reveals))


def _sealed(node: Select | WithColumns, name: str, text: str, given: Marks) -> str:
    used = used_in(text, given, "private")
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


def _refuse_table(node: Where | Select | WithColumns, text: str, given: Marks) -> None:
    """A row that is taken back later has to be computed as it was, when the key may be gone.
    Whether there is a value needs no key."""
    used = used_in(text, given, "values")
    if used and form_of(node) != "facts":
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
    """Steps keep what is sealed as it is, compare and count it; what computes with it is refused,
    and what is not known to do without."""
    if isinstance(step.does, Aggregate):
        _check_aggregate(step, step.does, _columns(given[0]))
        return
    if isinstance(step.does, Join):
        _refuse_unlike_keys(step, step.does, given)
    for number, marks in enumerate(given):
        if not marks:
            continue
        uses = step.does.uses(number)
        if uses is None:
            raise ProgramError(
                f"it is not known what {step.name!r} computes of the personal {', '.join(marks)}",
                where=step.at,
                hint=f"its operator is to say so: uses(…); or {LEAVE_OUT}",
            )
        for use in uses:
            _refuse_use(step, use, [n for n in _columns(marks) if n.lower() in use.columns])


def _refuse_use(step: Step, use: Use, used: list[str]) -> None:
    if used:
        raise ProgramError(
            f"the step {step.name!r} reads the personal {', '.join(used)}",
            where=step.at,
            got=f"{use.what}: {use.text}",
            hint=f"{PUBLIC}; or {LEAVE_OUT}",
        )


def _refuse_unlike_keys(step: Step, does: Join, given: list[Marks]) -> None:
    """Texts that stand for values are alike only if they are of one subject."""
    for pair in does.on:
        whose = [marks.get(name) for name, marks in zip(pair, given, strict=True)]
        if whose[0] != whose[1]:
            raise ProgramError(
                f"rows are joined by {' = '.join(map(repr, pair))}, which are never the same",
                where=step.at,
                got=", ".join(map(_whose, pair, whose)),
                hint="what is sealed is the same text only for the same subject: join by who it is",
            )


def _whose(name: str, mark: Mark | None) -> str:
    return f"{name} is {'not personal' if mark is None else f'personal of a {mark.subject}'}"


def _refuse_mixed(node: Union, given: list[Marks]) -> None:
    """A column is personal in all of its rows, and of one kind of subject, or in none."""
    for name in node.schema.visible.names:
        several = zip(node.inputs, given, strict=True)
        whose = [marks.get(name) for each, marks in several if not _constant(each, name)]
        if any(each != whose[0] for each in whose):
            raise ProgramError(
                f"{name!r} is not personal in the same way in all streams of the union",
                where=node.at,
                got="; ".join(_whose(name, each) for each in whose),
                hint="rename it in one of them, or leave it out: .select(…)",
            )


def _constant(node: Node, name: str) -> bool:
    """Whether the column is the same in all rows, such as null: it is nobody's."""
    made = dict(node.columns) if isinstance(node, Select | WithColumns) else {}
    return name in made and not names_in(made[name]).every


def _check_sink(output: Output, given: Marks) -> None:
    if used := [name for name in _columns(given) if name in output.sink.reads()]:
        raise ProgramError(
            f"the output {output.name!r} would look into the personal {', '.join(used)}",
            where=output.at,
            got=output.sink.text,
            hint="it is given sealed text, in which there are no words: leave such columns out of "
            "what is searched, or say before that they are public(…)",
        )


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
        if each.own is not None and any(used_in(t, given) for t in each.own.expressions):
            raise ProgramError(
                f"{each.name!r} would mix what is personal of several people",
                where=step.at,
                hint=PUBLIC,
            )
