"""What commands of the control log make of the rules that are in effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from riverrun.control import REMOVE_RULE, RULE, Command
from riverrun.durations import END
from riverrun.errors import InputError
from riverrun.operators.rules.answers import Answer, answer_to, answers_of, refusal
from riverrun.operators.rules.rule import Rule, RuleSet, rule_of, shown

NAMED = 20
"""Rules that an error names."""


class Changes:
    """The set after commands, and what is answered to these."""

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

    def drop(self, step: str, unfit: Iterable[tuple[Rule, Exception]]) -> None:
        """Ends rules that the program no longer understands: it has changed since they came."""
        for rule, error in unfit:
            del self.found[rule.id]
            if self.standing.get(rule.name) == rule.id:
                del self.standing[rule.name]
                asked = Command(rule.id, RULE, step, {"name": rule.name})
                self.answers.append(answer_to(asked, refusal(error)))

    def take(self, commands: Iterable[Command]) -> None:
        """What was answered before stands: a job that starts over gives rules the time that they
        had."""
        logged = answers_of(commands)
        for command in commands:
            if command.kind in (RULE, REMOVE_RULE):
                self._answered(command, next(iter(logged.get(command.offset, ())), None))

    def _answered(self, command: Command, answer: Answer | None) -> None:
        if answer is not None and answer.refused:
            return
        at = max(self.clock, answer.effective if answer else self.clock)
        try:
            name = self._take(command, at)
        except Exception as error:
            self.answers.append(answer_to(command, refusal(error)))
            return
        if answer is None:
            said = {"effective": at, "version": self.last[name]}
            self.answers.append(answer_to(command, said))

    def _take(self, command: Command, at: int) -> str:
        given = {name: part for name, part in command.body.items() if name != "request"}
        if command.kind == REMOVE_RULE:
            return self._remove(given.get("name"), at)
        rule = rule_of(given, self.templates)
        self.require(rule)
        self._end(rule.name, at)
        version = self.last[rule.name] = self.last.get(rule.name, 0) + 1
        made = replace(rule, version=version, id=command.offset, begins=at)
        self.found[made.id], self.standing[made.name] = made, made.id
        return made.name

    def _remove(self, name: object, at: int) -> str:
        if not isinstance(name, str) or name not in self.standing:
            known = sorted(self.standing)
            more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
            raise InputError(
                f"there is no rule {shown(name)}",
                hint=f"there are: {', '.join(known[:NAMED]) or 'none'}{more}",
            )
        self._end(name, at)
        return name

    def _end(self, name: str, at: int) -> None:
        """The version that stands sees no row from `at` on."""
        if (known := self.standing.pop(name, None)) is not None:
            self.found[known] = replace(self.found[known], ends=at)
