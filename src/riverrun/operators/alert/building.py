"""What `.alert(…)` checks before anything runs, and the step that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from riverrun.arguments import names
from riverrun.durations import Duration, duration_text, microseconds
from riverrun.errors import Location, ProgramError
from riverrun.kernels.letters import OnError
from riverrun.operators.alert.group import Times
from riverrun.operators.alert.kernel import Alert
from riverrun.operators.alert.spec import NOTIFIED, STANDING, TOLD
from riverrun.operators.alert.templates import TITLE, template
from riverrun.plan.building import checked_condition, checked_policy, step_fields
from riverrun.plan.nodes import Emitted, Node, Step
from riverrun.plan.rows import changes, key_of
from riverrun.schema import Schema

RESOLVE_AFTER = "5 minutes"
"""Of a stream, unless the program says when the cause is gone."""


@dataclass(frozen=True)
class Asked:
    """What the program says of its alerts."""

    application: str
    group_by: str | Sequence[str]
    wait: Duration
    interval: Duration
    repeat: Duration | None
    resolve: str | None
    resolve_after: Duration | None
    escalate: tuple[Duration, ...]
    title: str | None
    text: str | None
    name: str | None
    on_error: OnError | None


def alert(rows: Node, asked: Asked, at: Location) -> Step:
    columns = names("group_by", asked.group_by, 'group_by="service"')
    fields = step_fields("alert", rows, columns, asked.name, named="alerts", at=at)
    entering = rows.schema.visible
    group = entering.only(fields["keys"])
    for column in (*NOTIFIED, *STANDING):
        if taken := group.taken(column.name):
            raise ProgramError(
                f"alerts cannot be grouped by a column with the name {taken!r}",
                where=at,
                got="a notification has a column of that name",
                hint="rename it with .select(…)",
            )
    text = None if asked.text is None else template(asked.text, "text", entering.names, at)
    resolve = asked.resolve
    does = Alert(
        **fields,
        schema=Schema((*group.columns, *STANDING)),
        on_error=checked_policy(asked.on_error, rows, at),
        application=asked.application,
        entering=entering,
        table_key=key_of(rows) if changes(rows) else (),
        times=_times(asked, table=changes(rows), at=at),
        resolve=None if resolve is None else checked_condition(resolve, rows.schema, at),
        title=template(asked.title or TITLE, "title", entering.names, at),
        text=text,
    )
    return Step((rows,), does)


def notifications(step: Step, at: Location) -> Emitted:
    assert isinstance(step.does, Alert)
    return Emitted(step, TOLD, step.does.notified, at)


def _times(asked: Asked, *, table: bool, at: Location) -> Times:
    wait, interval = microseconds(asked.wait, at), microseconds(asked.interval, at)
    repeat = None if asked.repeat is None else microseconds(asked.repeat, at)
    if repeat == 0:
        raise ProgramError(
            "repeat is above zero", where=at, got=repr(asked.repeat), hint="None for never"
        )
    escalate = tuple(microseconds(each, at) for each in asked.escalate)
    if list(escalate) != sorted(escalate):
        raise ProgramError(
            "escalate is in the order of its times",
            where=at,
            got=", ".join(map(duration_text, escalate)),
        )
    return Times(wait, interval, repeat, _resolve_after(asked, wait, table=table, at=at), escalate)


def _resolve_after(asked: Asked, wait: int, *, table: bool, at: Location) -> int | None:
    given = asked.resolve_after
    if table and given is not None:
        raise ProgramError(
            "resolve_after is for streams",
            where=at,
            got="rows of a table stay until they are deleted",
            hint="the group is over when it has no row; resolve=… takes those that count as none",
        )
    if table or (given is None and asked.resolve is not None):
        return None
    after = microseconds(RESOLVE_AFTER if given is None else given, at)
    if after < wait:
        if given is None:
            return wait
        raise ProgramError(
            "resolve_after is not shorter than wait",
            where=at,
            got=f"{duration_text(after)} and {duration_text(wait)}",
            hint="else a group would be over before anybody has heard of it",
        )
    return after
