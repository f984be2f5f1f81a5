"""What commands of the control log make of the rules that are in effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from riverrun.control import REMOVE_RULE, RULE, Command
from riverrun.durations import END
from riverrun.operators.rules.answers import Answer, Answering, unknown
from riverrun.operators.rules.rule import Rule, RuleSet, rule_of


class Changes(Answering):
    """The set after commands, and what is answered to these."""

    bring, take_away, noun = RULE, REMOVE_RULE, "rule"

    def __init__(
        self,
        rules: RuleSet,
        clock: int,
        templates: Mapping[str, str],
        require: Callable[[Rule], None],
    ) -> None:
        """`require` refuses rules that cannot be matched."""
        super().__init__(clock)
        self.templates, self.require = templates, require
        self.found = {each.id: each for each in rules.rules}
        self.last = dict(rules.last)
        self.standing = {each.name: each.id for each in rules.rules if each.ends == END}
        """Versions that no other one follows, by name."""

    @property
    def rules(self) -> RuleSet:
        return RuleSet(tuple(self.found.values()), self.last).without_ended(self.clock)

    def drop(self, step: str, unfit: Iterable[tuple[Rule, Exception]]) -> None:
        """Ends rules that the program no longer understands: it has changed since they came."""
        for rule, error in unfit:
            del self.found[rule.id]
            if self.standing.get(rule.name) == rule.id:
                del self.standing[rule.name]
                self.refuse(Command(rule.id, RULE, step, {"name": rule.name}), error)

    def stands(self, given: Mapping[str, Any]) -> Answer | None:
        rule = rule_of(given, self.templates)
        if (known := self.standing.get(rule.name)) is None:
            return None
        before = self.found[known]
        again = replace(rule, version=before.version, id=before.id, begins=before.begins)
        same = repr(again) == repr(before)  # 1, 1.0 and true are equal, and are not the same
        return Answer(before.id, before.version, before.begins) if same else None

    def add(self, given: Mapping[str, Any], at: int, offset: int) -> int:
        rule = rule_of(given, self.templates)
        self.require(rule)
        self._end(rule.name, at)
        version = self.last[rule.name] = self.last.get(rule.name, 0) + 1
        made = replace(rule, version=version, id=offset, begins=at)
        self.found[made.id], self.standing[made.name] = made, made.id
        return version

    def remove(self, name: Any, at: int) -> int:
        if not isinstance(name, str) or name not in self.standing:
            raise unknown("rule", name, self.standing)
        self._end(name, at)
        return self.last[name]

    def _end(self, name: str, at: int) -> None:
        """The version that stands sees no row from `at` on."""
        if (known := self.standing.pop(name, None)) is not None:
            self.found[known] = replace(self.found[known], ends=at)
