"""What `app.aggregate(…)` checks of a class before anything runs, and the step that it makes."""

from __future__ import annotations

import ast
import dataclasses
import enum
import hashlib
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable
from typing import Any

from riverrun.clock import Pace
from riverrun.errors import Location, ProgramError
from riverrun.forgetting.declared import Personal, listed
from riverrun.formats.known import NESTED
from riverrun.kernels.program import ReadTopic
from riverrun.operators.decide.columns import fields_of, names_of
from riverrun.operators.decide.kinds import Kind
from riverrun.operators.decide.parts import is_model, with_parts
from riverrun.operators.decide.records import COMMANDS, EVENTS, STATES
from riverrun.operators.decide.rules import Rules
from riverrun.operators.decide.spec import Decide, Topics
from riverrun.operators.decide.written import encoded
from riverrun.plan.building import checked_name
from riverrun.plan.nodes import Step
from riverrun.schema import Schema
from riverrun.sourcing import MOST
from riverrun.times import ProcessingTime

HINT = (
    "@dataclass(frozen=True)\nclass Account:\n    balance: int = 0\n"
    "    def decide(self, command: Deposit | Withdraw): …\n"
    "    def evolve(self, event: Deposited | Withdrawn): …"
)


def rules_of(given: Any, *, version: int, remember: int, at: Location) -> Rules:
    """The rules that a class of states has, checked."""
    if not 1 <= version <= MOST:
        raise ProgramError(f"a version is from 1 to {MOST}", where=at, got=version)
    if remember < 0:
        raise ProgramError("commands are remembered for some time", where=at)
    _check_state(given, at)
    commands, events = _kinds(given, "decide", at), _kinds(given, "evolve", at)
    for type in (given, *commands, *events):
        Kind(type).check(at)
    _check_begin(given, at)
    told = len(inspect.signature(given.decide).parameters) > 2
    return Rules(given, commands, events, _fingerprint(given, events, version), remember, told)


def decide(
    name: str, rules: Rules, topics: Topics, at: Location, *, personal: Personal | None = None
) -> Step:
    if len(set(topics)) < len(topics):
        raise ProgramError(
            "commands, events and replies have a topic each", where=at, got=", ".join(topics)
        )
    does = Decide(
        name=checked_name(name, at) or name,
        keys=("aggregate",),
        key_types=("VARCHAR",),
        schema=STATES,
        at=at,
        on_error="set aside",
        rules=rules,
        topics=topics,
    )
    asked = dataclasses.replace(
        _topic(topics.commands, COMMANDS, at), shared=True, personal=_personal(personal, rules, at)
    )
    happened = dataclasses.replace(events_topic(topics.events, at), history=rules.version, own=True)
    return Step((asked, happened), does)


def _personal(given: Personal | None, rules: Rules, at: Location) -> tuple[Personal, ...]:
    """Fields of commands, which events and states have from them: they are the aggregate's."""
    if given is None:
        return ()
    given = listed(given, at)[0]
    if given.by not in (given.subject, "aggregate"):
        raise ProgramError(
            "what is personal in an aggregate is the aggregate's own",
            where=given.at,
            got=f"by={given.by!r}",
            hint="leave by= out: the subject is told by the aggregate's id",
        )
    kinds = (rules.state, *rules.commands, *rules.events)
    types = {(c.name, c.type) for kind in kinds for c in fields_of(kind).columns}
    for name in given.columns:
        found = {type for field, type in types if field == name}
        if found != {"VARCHAR"}:
            only_text = "only text can be personal: declare it as str wherever it is a field"
            raise ProgramError(
                f"{name!r} is no field of text of a command, an event or the state",
                where=given.at,
                got=", ".join(sorted(found)) or "no such field",
                hint=only_text if found else f"fields: {', '.join(sorted(dict(types)))}",
            )
    known = {name for kind in rules.commands for name in names_of(kind)} - {*given.columns}
    made = dataclasses.replace(given, by="aggregate", inside="data", known=tuple(sorted(known)))
    return (made,)


def events_topic(topic: str, at: Location) -> ReadTopic:
    return _topic(topic, EVENTS, at)


def _topic(topic: str, columns: Schema, at: Location) -> ReadTopic:
    """In the order of its log, whatever time its records have."""
    pace = Pace(0, 0, "tick")
    rows = columns.with_plain_times.with_metadata
    return ReadTopic(
        topic, columns, rows, "aggregate", ProcessingTime(), pace, "earliest", "stop", at,
        format=NESTED,
    )  # fmt: skip


def _check_state(given: Any, at: Location) -> None:
    if not isinstance(given, type):
        raise ProgramError("an aggregate is a class", where=at, got=repr(given), hint=HINT)
    for name in ("decide", "evolve"):
        if not callable(getattr(given, name, None)):
            raise ProgramError(f"{given.__name__} has no {name}", where=at, hint=HINT)
    frozen = getattr(given, "__dataclass_params__", None)
    config = getattr(given, "model_config", {})
    if not (config.get("frozen") if is_model(given) else frozen is not None and frozen.frozen):
        raise ProgramError(
            f"{given.__name__} can be changed in place",
            where=at,
            hint="@dataclass(frozen=True): evolve gives another one, dataclasses.replace(self, …)",
        )


def _check_begin(given: type[Any], at: Location) -> None:
    try:
        begin = given()
    except Exception as error:
        raise ProgramError(
            f"{given.__name__} cannot be made without arguments", where=at, got=error,
            hint="every field has a default: that is an aggregate which nothing has happened to",
        ) from error  # fmt: skip
    try:
        again = Kind(given).read(encoded(begin))
    except Exception as error:
        again = error
    if again != begin and repr(again) != repr(begin):  # sets have any order
        raise ProgramError(
            f"{given.__name__} has a default that is another one when it is written and read",
            where=at,
            got=f"{begin!r:.200} becomes {again!r:.200}",
            hint="a default is of its field's type: [] for a list, None only for Optional",
        )


def _kinds(given: type[Any], method: str, at: Location) -> tuple[type[Any], ...]:
    """The classes that a method takes, by the annotation of what it is given."""
    function = getattr(given, method)
    parameters = [*inspect.signature(function).parameters.values()][1:]
    if not 1 <= len(parameters) <= (2 if method == "decide" else 1):
        taken = "state and command, or state, command and context"
        raise ProgramError(
            f"{given.__name__}.{method} takes {taken if method == 'decide' else 'state and event'}",
            where=at, got=f"{method}{inspect.signature(function)}", hint=HINT,
        )  # fmt: skip
    name, hint = parameters[0].name, _annotation(parameters[0], function, at)
    several = typing.get_origin(hint) in (typing.Union, types.UnionType)
    found = typing.get_args(hint) if several else (hint,)
    if not all(isinstance(each, type) for each in found):
        raise ProgramError(
            f"{given.__name__}.{method} does not say which classes it takes",
            where=at,
            got=f"{name}: {hint}" if hint is not None else f"{name} has no type",
            hint=HINT,
        )
    names = [each.__name__ for each in found]
    if len(set(names)) < len(names):
        raise ProgramError(
            f"{given.__name__}.{method} takes two classes of one name", where=at,
            got=", ".join(names), hint="records tell them apart by name",
        )  # fmt: skip
    return found


def _annotation(given: inspect.Parameter, function: Callable[..., Any], at: Location) -> Any:
    """The type of one parameter; those of the others may not be known yet."""
    if given.annotation is inspect.Parameter.empty:
        return None

    def alone() -> None: ...

    alone.__annotations__ = {given.name: given.annotation}
    try:
        return typing.get_type_hints(alone, function.__globals__)[given.name]
    except NameError as error:
        raise ProgramError(
            f"the classes that {function.__name__} takes are not known",
            where=at,
            got=error,
            hint="define them before, at the top of the module",
        ) from error


def _fingerprint(given: type[Any], events: tuple[type[Any], ...], version: int) -> str:
    """Changes with what states are made by: the code of evolve and of upcasters, and all fields.
    What they call is not looked at: that is what `version` is for."""
    code = [_code(given.evolve)]
    for each in (given, *events):
        code += [*map(_code, Kind(each).upcasters)]
        for part in with_parts(each):
            code += [part.__name__, *_fields(part)]
    digest = hashlib.sha256("\n".join(code).encode()).hexdigest()[:8]
    return f"{version}-{digest}"


def _fields(type: type[Any]) -> list[str]:
    if is_model(type):
        return [f"{name} {each}" for name, each in type.model_fields.items()]
    if issubclass(type, enum.Enum):
        return [f"{each.name} {each.value!r}" for each in type]
    hints = typing.get_type_hints(type)
    # without modules: a program may be loaded under another name
    types = {name: re.sub(r"[\w<>]+\.(?=\w)", "", str(hint)) for name, hint in hints.items()}
    if not dataclasses.is_dataclass(type):
        return [f"{name} {each}" for name, each in types.items()]
    return [f"{each.name} {types[each.name]} {_default(each)}" for each in dataclasses.fields(type)]


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return encoded(field.default).decode()
    made = field.default_factory
    return "" if made is dataclasses.MISSING else encoded(made()).decode()


def _code(function: Callable[..., Any]) -> str:
    """The code without comments, spaces and documentation."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):  # typed in, or made by other code
        return str(getattr(function, "__qualname__", function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
