"""What streams tell of event patterns beside matches, and patterns that come as a program runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from riverrun.arguments import checked
from riverrun.durations import Duration
from riverrun.errors import caller
from riverrun.kernels.letters import OnError
from riverrun.operators.match.building import timed_out
from riverrun.operators.rules.building import Asked, match_rules
from riverrun.relation import Relation


@dataclass(frozen=True)
@checked
class Patterned(Relation):
    """A stream, with live rules and partial matches."""

    def match_rules(
        self,
        name: str,
        *,
        by: str | Sequence[str],
        measures: str,
        templates: Mapping[str, str] | None = None,
        longest: Duration = "1 hour",
        max_rows: int = 10_000,
        on_error: OnError | None = None,
    ) -> Self:
        """Find patterns that come, change and go while the program runs: `riverrun rules`.

        `measures` is what rules tell of a match, as a schema: what leaves has the key, `rule`,
        `version`, `metadata` and these. `templates` are patterns with parameters ($limit) that
        rules may name. No rule's WITHIN is above `longest`. See docs/rules.md.
        """
        asked = Asked(name, by, measures, templates or {}, longest, max_rows, on_error)
        node = match_rules(self.node, asked, caller())
        return replace(self, node=node)

    @property
    def timed_out(self) -> Self:
        """The partial matches of `.match(…, timeouts=True)` that ran out of time."""
        return replace(self, node=timed_out(self.node, caller()))
