"""What `.match_rules(…)` checks before anything runs, and the step that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from riverrun.arguments import names
from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError
from riverrun.kernels.letters import OnError
from riverrun.operators.match.building import time_columns
from riverrun.operators.match.spec import TIMED_OUT
from riverrun.operators.rules.kernel import Rules
from riverrun.operators.rules.shape import require_readable
from riverrun.operators.rules.spec import SAID
from riverrun.plan.building import checked_policy, step_fields
from riverrun.plan.nodes import Emitted, Node, Step
from riverrun.schema import Schema, parse


@dataclass(frozen=True)
class Asked:
    """What the program says of its rules."""

    name: str
    by: str | Sequence[str]
    measures: str
    templates: Mapping[str, str]
    longest: Duration
    max_rows: int
    on_error: OnError | None
    timeouts: bool = False


def match_rules(rows: Node, asked: Asked, at: Location) -> Step:
    keys = tuple(names("by", asked.by, 'by="card"'))
    fields = step_fields("match_rules", rows, keys, asked.name, named="rules", at=at)
    told = parse(asked.measures, at).with_plain_times
    given = Schema((*rows.schema.visible.only(keys).columns, *SAID))
    for name in told.names:
        if taken := given.taken(name):
            raise ProgramError(f"the name {taken!r} is taken", where=at, hint="measures=…")
    for column in SAID:
        if taken := rows.schema.visible.only(keys).taken(column.name):
            raise ProgramError(f"the name {taken!r} is taken", where=at, hint="rename the column")
    if asked.max_rows < 1:
        raise ProgramError("max_rows is at least 1", where=at, got=asked.max_rows)
    does = Rules(
        **fields,
        schema=Schema((*given.columns, *told.columns)),
        on_error=checked_policy(asked.on_error, rows, at),
        entering=rows.schema,
        measures=told,
        templates=tuple(asked.templates.items()),
        times=tuple(dict.fromkeys(time_columns(rows))),
        longest=microseconds(asked.longest, at),
        max_rows=asked.max_rows,
        timeouts=asked.timeouts,
    )
    require_readable(does.frame, asked.templates)
    return Step((rows,), does)


def partial_matches(node: Node, at: Location) -> Emitted | None:
    """The output of partial matches, of a step with rules that tells them."""
    if isinstance(node, Step) and isinstance(node.does, Rules) and node.does.timeouts:
        return Emitted(node, TIMED_OUT, node.does.schema, at)
    return None
