"""Streams and tables that alert people: grouped, repeated, escalated, and over again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from riverrun.alerts.channels import Channel, Followed, Hook, Mail, Written
from riverrun.alerts.outbox import Addressed, Outbox
from riverrun.arguments import checked, shown
from riverrun.durations import Duration
from riverrun.errors import Location, ProgramError, caller
from riverrun.kernels.letters import OnError
from riverrun.operators.alert.building import Asked, alert, notifications
from riverrun.plan.building import renamed
from riverrun.plan.nodes import Output, Select, Step, Where
from riverrun.relation import Registry, Relation, checked_columns, named_expressions
from riverrun.schema import Schema
from riverrun.sinks.kafka.sink import Topic

S = TypeVar("S")
"""What notifications are: a stream of the language."""


@dataclass(frozen=True)
@checked
class Alerted(Relation, Generic[S]):
    """Rows that people are to hear of."""

    def alert(
        self,
        *channels: Channel,
        group_by: str | Sequence[str],
        wait: Duration = "30 seconds",
        interval: Duration = "5 minutes",
        repeat: Duration | None = "4 hours",
        resolve: str | None = None,
        resolve_after: Duration | None = None,
        escalate: Sequence[tuple[Duration, Channel]] = (),
        title: str | None = None,
        text: str | None = None,
        name: str | None = None,
        was: str | None = None,
        on_error: OnError | None = None,
    ) -> S:
        """Tell people of rows, group by group: `rr.alerts.webhook(…)`, `email`, `topic`, `sse`.

        The first notification of a group comes `wait` after its first row, news `interval` after
        the one before, a reminder when nothing was told for `repeat` and the cause is still there.
        It is gone when a row holds the condition `resolve`, when there was no row for
        `resolve_after` (5 minutes), or, of a table, when the group has no row any more.
        `escalate=[("15 minutes", channel)]` tells others if nobody has acknowledged it by then.
        `title` and `text` may name columns in braces, "{service} fails". The notifications are the
        stream that it gives. See docs/alerts.md.
        """
        at = caller()
        levels = _levels(escalate, at)
        asked = Asked(
            self.registry.name, group_by, wait, interval, repeat, resolve, resolve_after,
            tuple(after for after, _ in levels), title, text, name, on_error,
        )  # fmt: skip
        step = renamed(alert(self.node, asked, at), was, at)
        addressed = [Addressed(0, _channel(each, at)) for each in channels]
        addressed += [Addressed(n, each) for n, (_, each) in enumerate(levels, 1)]
        _write(self.registry, step, addressed, at)
        made: S = self.registry.stream_of(notifications(step, at))
        return made


def _levels(escalate: Any, at: Location) -> list[tuple[Duration, Channel]]:
    pairs = isinstance(escalate, list | tuple) and all(
        isinstance(each, list | tuple) and len(each) == 2 for each in escalate
    )
    if not pairs:
        raise ProgramError(
            "escalate is a list of times and channels",
            where=at,
            got=shown(escalate),
            hint='escalate=[("15 minutes", rr.alerts.email(…))]',
        )
    return [(after, _channel(each, at)) for after, each in escalate]


def _channel(given: object, at: Location) -> Channel:
    if isinstance(given, Hook | Mail | Written | Followed):
        return given
    raise ProgramError(
        "alerts go to a channel",
        where=at,
        got=shown(given),
        hint="rr.alerts.webhook(…), rr.alerts.email(…), rr.alerts.topic(…) or rr.alerts.sse(…)",
    )


def _write(registry: Registry, step: Step, channels: list[Addressed], at: Location) -> None:
    """What is always written, the groups that stand and all that was told; and what is for some."""
    told, prefix = notifications(step, at), f"{registry.name}.{step.name}"
    _refuse_twice(channels, at)
    sent = tuple(each for each in channels if isinstance(each.channel, Hook | Mail))
    # one partition: a group whose key is null has no other order
    outbox = Outbox(
        f"{prefix}.told", partitions=1, channels=sent, step=step.name, keys=step.does.keys
    )
    registry.add(Output(step, Topic(f"{prefix}.groups"), at, on_error="stop", added=True))
    registry.add(Output(told, outbox, at, added=True))
    for each in channels:
        if isinstance(each.channel, Written):
            chosen = Where(told, each.condition, told.schema, at)
            registry.add(Output(chosen, each.channel.topic, at))
        elif isinstance(each.channel, Followed):
            registry.add(Output(_standing(step, each, at), each.channel.view, at, on_error="stop"))


def _refuse_twice(channels: list[Addressed], at: Location) -> None:
    names = [each.channel.name for each in channels]
    for name in names:
        if names.count(name) > 1:
            raise ProgramError(
                f"the channel {name!r} is given twice", where=at, hint='tell them apart: name="…"'
            )


def _standing(step: Step, channel: Addressed, at: Location) -> Select:
    """The groups that a channel was told of, as they were told."""
    condition = f"told IS NOT NULL AND level >= {channel.level}"
    heard = Where(step, condition, step.schema, at)
    shown = (*step.does.keys, "alert", "kind", "level", "since", "told", "title", "text", "by")
    pairs = named_expressions(shown, {"n": "told_n"}, step.schema)
    return Select(heard, tuple(pairs), Schema(checked_columns(pairs, step.schema, at)), at)
