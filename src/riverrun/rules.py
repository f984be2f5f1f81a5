"""Live rules of an application, from Python: `riverrun.rules.Rules("shop").add({…})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riverrun.arguments import checked
from riverrun.control import REMOVE_RULE, RULE
from riverrun.durations import Duration
from riverrun.operators.rules.rule import rule_of
from riverrun.told import Asked, Known


@checked
class Rules(Asked):
    """The rules of one step of an application. The step has to be named if there are several, or
    if the application has not run on this machine."""

    bring, take, does, noun = RULE, REMOVE_RULE, "rules", "rule"
    several = "rules"
    made_with = ".match_rules(…)"

    def add(
        self, *rules: Mapping[str, Any], timeout: Duration | None = "30 seconds"
    ) -> list[Known]:
        """Add rules, or change those with the same names; what the job answers, in their order.

        A rule has a `name`, a `pattern` or a `template`, `parameters` and `metadata`. With None for
        a timeout it is not waited for answers.
        """
        return self.ask(RULE, list(rules), timeout)

    def remove(self, *names: str, timeout: Duration | None = "30 seconds") -> list[Known]:
        """Remove rules; what the job answers."""
        return self.ask(REMOVE_RULE, [{"name": name} for name in names], timeout)

    @staticmethod
    def require(given: Mapping[str, Any]) -> None:
        rule_of(given, {str(given.get("template")): ""})  # the program has its templates
