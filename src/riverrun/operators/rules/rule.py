"""Rules: what one is, what the control log says of them, and which are in effect."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from riverrun.control import ANSWER, REMOVE_RULE, RULE, Command
from riverrun.durations import END
from riverrun.errors import InputError, RiverrunError

FIELDS = ("name", "pattern", "template", "parameters", "metadata")
"""What is said of a rule."""
LARGEST = 2**63
TYPES: tuple[tuple[type, str], ...] = (
    (bool, "BOOLEAN"),
    (int, "BIGINT"),
    (float, "DOUBLE"),
    (str, "VARCHAR"),
)


@dataclass(frozen=True)
class Rule:
    """One version of a rule."""

    name: str
    text: str
    """The pattern; of a template, as it was when the rule came."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None
    version: int = 1
    id: int = 0
    """Tells versions of all rules apart: the offset of the command in the control log."""
    begins: int = 0
    """The time of the first rows that it sees."""
    ends: int = END
    """The time from which on it sees none, because there is a newer version, or none any more."""

    @property
    def types(self) -> tuple[tuple[str, str], ...]:
        """The parameters, with their types in SQL."""
        return tuple((name, type_of(self.parameters[name])) for name in sorted(self.parameters))


def type_of(value: Any) -> str:
    """The type of a parameter's value; empty if it can be none."""
    if isinstance(value, list):
        types = {type_of(each) for each in value}
        return f"{types.pop()}[]" if len(types) == 1 and "" not in types else ""
    wrong = isinstance(value, float) and not math.isfinite(value)
    wrong = wrong or (isinstance(value, int) and not -LARGEST <= value < LARGEST)
    # any other: no value of a parameter
    return "" if wrong else next((name for kind, name in TYPES if isinstance(value, kind)), "")


def rule_of(given: Mapping[str, Any], templates: Mapping[str, str]) -> Rule:
    """The rule that is described, if its parts can be those of one."""
    name = given.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name):
        raise InputError(
            "a rule's name has letters, digits, _ . and -", where="name", got=repr(name)
        )
    for each in given:
        if each not in FIELDS:
            raise InputError(f"a rule has no {each!r}", hint=f"it has {', '.join(FIELDS)}")
    parameters, metadata = (_mapping(given, part) for part in ("parameters", "metadata"))
    for each, value in parameters.items():
        if not re.fullmatch(r"[A-Za-z]\w*", each) or not type_of(value):
            raise InputError(
                f"the parameter {each!r} cannot be used",
                where="parameters",
                got=repr(value),
                hint="its value is a text, a number, true, false, or a list of one of these",
            )
    return Rule(name, _text(given, templates), parameters, metadata, given.get("template"))


def _mapping(given: Mapping[str, Any], part: str) -> dict[str, Any]:
    found = given.get(part) or {}
    if not isinstance(found, dict):
        raise InputError(f"{part} are names with values", where=part, got=repr(found))
    return found


def _text(given: Mapping[str, Any], templates: Mapping[str, str]) -> str:
    pattern, template = given.get("pattern"), given.get("template")
    if (pattern is None) == (template is None):
        raise InputError("a rule has either a pattern or a template")
    if template is None:
        if not isinstance(pattern, str):
            raise InputError("a pattern is text", where="pattern", got=repr(pattern))
        return pattern
    if template not in templates:
        raise InputError(
            f"the program has no template {template!r}",
            where="template",
            hint=f"it has: {', '.join(templates) or 'none'}",
        )
    return templates[template]


@dataclass(frozen=True)
class RuleSet:
    """The versions that see rows now or later, and the last version of each name there was."""

    rules: tuple[Rule, ...] = ()
    last: Mapping[str, int] = field(default_factory=dict)

    def encoded(self) -> str:
        return json.dumps({"rules": [vars(each) for each in self.rules], "last": self.last})

    @classmethod
    def decoded(cls, text: str) -> RuleSet:
        found = json.loads(text)
        return cls(tuple(Rule(**each) for each in found["rules"]), found["last"])

    def without_ended(self, clock: int) -> RuleSet:
        kept = tuple(each for each in self.rules if each.ends > clock)
        return self if len(kept) == len(self.rules) else replace(self, rules=kept)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Changes:
    """What commands make of rules: the set after them, and what is answered."""

    def __init__(
        self,
        rules: RuleSet,
        clock: int,
        templates: Mapping[str, str],
        require: Callable[[Rule], None],
    ) -> None:
        """`require` refuses rules that cannot be matched."""
        self.clock, self.templates, self.require = clock, templates, require
        self.found = {each.id: each for each in rules.rules}
        self.last = dict(rules.last)
        self.standing = {each.name: each.id for each in rules.rules if each.ends == END}
        """Versions that no other one follows, by name."""
        self.answers: list[Command] = []

    @property
    def rules(self) -> RuleSet:
        return RuleSet(tuple(self.found.values()), self.last).without_ended(self.clock)

    def take(self, commands: Iterable[Command]) -> None:
        """What was answered before stands: a job that starts over gives rules the time that they
        had."""
        asked = [each for each in commands if each.kind in (RULE, REMOVE_RULE)]
        logged: dict[int, dict[str, Any]] = {}
        for each in commands:
            if each.kind == ANSWER:
                logged.setdefault(each.body.get("to", -1), each.body)
        for command in asked:
            answer = logged.get(command.offset)
            if answer is not None and answer.get("refused"):
                continue
            at = max(self.clock, answer["effective"] if answer else self.clock)
            try:
                self._take(command, at)
            except RiverrunError as error:
                refused = {n: _shown(getattr(error, n)) for n in ("fact", "where", "got", "hint")}
                self._answer(command, {"refused": refused})
                continue
            if answer is None:
                name = command.body["name"]
                self._answer(command, {"effective": at, "version": self.last[name]})

    def _take(self, command: Command, at: int) -> None:
        given = {name: part for name, part in command.body.items() if name != "request"}
        if command.kind == REMOVE_RULE:
            name = str(given.get("name"))
            if name not in self.standing:
                known = ", ".join(sorted(self.standing))
                raise InputError(f"there is no rule {name!r}", hint=f"there are: {known or 'none'}")
            self._end(name, at)
            return
        rule = rule_of(given, self.templates)
        self.require(rule)
        self._end(rule.name, at)
        version = self.last[rule.name] = self.last.get(rule.name, 0) + 1
        made = replace(rule, version=version, id=command.offset, begins=at)
        self.found[made.id], self.standing[made.name] = made, made.id

    def _end(self, name: str, at: int) -> None:
        """The version that stands sees no row from `at` on."""
        if (known := self.standing.pop(name, None)) is not None:
            self.found[known] = replace(self.found[known], ends=at)

    def _answer(self, command: Command, said: dict[str, Any]) -> None:
        about = {"to": command.offset, "name": command.body.get("name")}
        request = {"request": r} if (r := command.body.get("request")) else {}
        self.answers.append(Command(0, ANSWER, command.target, {**about, **request, **said}))


def _shown(part: object) -> str | None:
    return None if part is None else str(part)
