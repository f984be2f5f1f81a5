"""What an aggregate gives a program: its events and replies as streams, and its commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from riverrun.arguments import checked
from riverrun.errors import Location, ProgramError, caller
from riverrun.formats.known import NESTED
from riverrun.kernels.functions import Function
from riverrun.operators.decide.columns import fields_of, value_of
from riverrun.operators.decide.kinds import Kind
from riverrun.operators.decide.records import COMMANDS, EVENTS, REPLIES
from riverrun.operators.decide.rules import Rules
from riverrun.operators.decide.spec import Decide, Topics
from riverrun.operators.decide.written import encoded
from riverrun.plan.building import checked_policy
from riverrun.plan.handed import mapping_of
from riverrun.plan.nodes import Emitted, KeyBy, Map, Node, Output, Select, Step, Where
from riverrun.plan.rows import changes
from riverrun.processor import Event
from riverrun.relation import Relation, node_of
from riverrun.schema import Schema, columns_text, literal, parse, quoted
from riverrun.sinks.kafka.sink import Topic

S = TypeVar("S")
"""What an output is: a stream of the language."""

CARRIED = tuple(name for name in EVENTS.names if name not in ("type", "schema_version", "data"))


@dataclass(frozen=True)
@checked
class Events(Generic[S]):
    """What has happened to aggregates of one kind: `happened.events`, `happened.of(Deposited)`."""

    rows: Node
    kinds: Mapping[str, Kind]
    as_stream: Callable[[Node], S]
    named: Callable[[Function], Function]

    @property
    def events(self) -> S:
        """All events: their fields are JSON, in `data`."""
        return self.as_stream(replace(self._keyed, at=caller()))

    @property
    def _keyed(self) -> KeyBy:
        return KeyBy(self.rows, ("aggregate",), self.rows.schema, self.rows.at)

    def of(self, event: type[Any], *, schema: str | None = None) -> S:
        """The events of one class, with its fields as columns, beside `aggregate`, `version`, `at`,
        `command`, `by` and `position`. `schema` gives the fields other types than their own."""
        at = caller()
        rows = replace(self._keyed, at=at)
        return self.as_stream(
            KeyBy(*events_of(rows, self._kind(event, at), schema, self.named, at))
        )

    def _kind(self, event: type[Any], at: Location) -> Kind:
        name = getattr(event, "__name__", repr(event))
        if name not in self.kinds or self.kinds[name].type is not event:
            raise ProgramError(
                f"there is no event {name}", where=at, hint=f"there is {', '.join(self.kinds)}"
            )
        return self.kinds[name]


@dataclass(frozen=True)
@checked
class Sourced(Events[S]):
    """Aggregates of one kind: `accounts.events`, `accounts.of(Deposited)`, `accounts.replies`.

    Their events come in the batch that decides them.
    """

    node: Step

    @property
    def _decide(self) -> Decide:
        assert isinstance(self.node.does, Decide)
        return self.node.does

    @property
    def replies(self) -> S:
        """What became of each command; `events` is a list of JSON."""
        rows = Emitted(self.node, "replies", REPLIES, caller())
        return self.as_stream(KeyBy(rows, ("command",), REPLIES, rows.at))

    @property
    def commands(self) -> str:
        """The columns of commands, for the outputs of a processor that sends some."""
        return columns_text(COMMANDS)

    def receive(self, rows: Relation) -> None:
        """Take the rows of a stream as commands: they go to the topic, behind those of others."""
        at = caller()
        node = node_of(rows, "receive", at)
        if changes(node) or node.schema.visible.names != COMMANDS.names:
            raise ProgramError(
                "commands are rows of a stream with their columns",
                where=at,
                got=", ".join(node.schema.visible.names),
                hint=f"a processor's output with the columns {self.node.name}.commands",
            )
        keyed = KeyBy(node, ("aggregate",), node.schema, at)
        topic = Topic(self.topics.commands, format=NESTED)
        rows.registry.add(Output(keyed, topic, at, on_error=checked_policy(None, keyed, at)))

    @property
    def topics(self) -> Topics:
        return self._decide.topics

    @property
    def rules(self) -> Rules:
        return self._decide.rules

    @property
    def command_names(self) -> list[str]:
        return list(self._decide.rules.command_kinds)

    @property
    def event_types(self) -> tuple[type[Any], ...]:
        return self._decide.rules.events

    def takes(self, command: Any) -> bool:
        """Whether it is a command of these aggregates."""
        return type(command) in self._decide.rules.commands

    def command(
        self,
        command: Any,
        *,
        to: str,
        id: str,
        version: int | None = None,
        by: str | None = None,
    ) -> dict[str, Any]:
        """A command as a row with the columns of `commands`: for the aggregate `to`, once by its
        `id`, and only if it still has the `version` that is given."""
        name = type(command).__name__
        if not self.takes(command):
            raise ProgramError(
                f"{self.node.name} takes no command {name}", where=caller(),
                hint=f"it takes {', '.join(self.command_names)}",
            )  # fmt: skip
        data = encoded(command).decode()
        return {
            "id": id, "aggregate": to, "type": name, "data": data, "version": version, "by": by,
        }  # fmt: skip


def sourced(
    step: Step, as_stream: Callable[[Node], S], named: Callable[[Function], Function]
) -> Sourced[S]:
    assert isinstance(step.does, Decide)
    rows = Emitted(step, "events", EVENTS, step.at)
    return Sourced(rows, step.does.rules.event_kinds, as_stream, named, step)


def events_of(
    rows: Node,
    kind: Kind,
    schema: str | None,
    named: Callable[[Function], Function],
    at: Location,
) -> tuple[Node, tuple[str, ...], Schema, Location]:
    """Events of one class with their fields as columns: what KeyBy is made of."""
    fields = parse(schema, at).with_plain_times if schema else fields_of(kind.type)
    if taken := [name for name in fields.names if name.lower() in CARRIED]:
        raise ProgramError(
            f"{kind.name} has a field {taken[0]!r}, as every event has",
            where=at,
            hint="use .events, and take it from data: data->>'…'",
        )
    if len({name.lower() for name in fields.names}) < len(fields.names):
        raise ProgramError(
            f"{kind.name} has two fields whose names differ only in the size of letters",
            where=at, got=", ".join(fields.names), hint="columns do not tell them apart: .events",
        )  # fmt: skip
    mine: Node = Where(rows, f"type = {literal(kind.name)}", rows.schema, at)
    if kind.upcasters:
        made = named(mapping_of(Current(kind), mine.schema, EVENTS, at))
        mine = Map(mine, made, EVENTS, at)
    carried = tuple(column for column in EVENTS.columns if column.name in CARRIED)
    columns = Schema((*carried, *fields.columns))
    pairs = [(name, quoted(name)) for name in CARRIED]
    pairs += [(each.name, value_of(each, kind.type)) for each in fields.columns]
    return Select(mine, tuple(pairs), columns, at), ("aggregate",), columns, at


class Current:
    """Makes events of the current version of their class from those of any version."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.__name__ = kind, f"upcast_{kind.name}"

    def __call__(self, row: Event) -> Mapping[str, Any]:
        made = self.kind.made(self.kind.upcasted(row.data.encode(), row.schema_version))
        data = encoded(made).decode()
        found = {name: row[name] for name in EVENTS.names}
        return {**found, "data": data, "schema_version": self.kind.version}
