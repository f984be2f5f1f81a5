"""What streams tell of event patterns beside matches, and patterns and stored queries that come as
a program runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from riverrun.arguments import checked
from riverrun.durations import Duration
from riverrun.errors import caller
from riverrun.kernels.letters import OnError
from riverrun.operators.match.building import timed_out
from riverrun.operators.rules.building import Asked, match_rules, partial_matches
from riverrun.operators.search.building import Asked as Searching
from riverrun.operators.search.building import search
from riverrun.plan.building import renamed
from riverrun.relation import Relation, node_of


@dataclass(frozen=True)
@checked
class Patterned(Relation):
    """A stream, with live rules, stored queries and partial matches."""

    def match_rules(
        self,
        name: str,
        *,
        by: str | Sequence[str],
        measures: str,
        templates: Mapping[str, str] | None = None,
        longest: Duration = "1 hour",
        max_rows: int = 10_000,
        timeouts: bool = False,
        on_error: OnError | None = None,
    ) -> Self:
        """Find patterns that come, change and go while the program runs: `riverrun rules`.

        `measures` is what rules tell of a match, as a schema: what leaves has the key, `rule`,
        `version`, `metadata` and these. `templates` are patterns with parameters ($limit) that
        rules may name. No rule's WITHIN is above `longest`. With `timeouts`, partial matches that
        run out of time are in `.timed_out`. See docs/rules.md.
        """
        asked = Asked(
            name, by, measures, templates or {}, longest, max_rows, on_error, timeouts=timeouts
        )
        node = match_rules(self.node, asked, caller())
        return replace(self, node=node)

    def search(
        self,
        queries: str | Relation,
        *,
        text: str | Sequence[str],
        language: str | Mapping[str, str] | None = None,
        stop_words: bool | Sequence[str] = False,
        keep: str | Sequence[str] | None = None,
        highlight: bool = True,
        max_unindexed: int = 100,
        name: str | None = None,
        was: str | None = None,
        on_error: OnError | None = None,
    ) -> Self:
        """Find the stored queries that each row fits: queries wait, documents pass by.

        `queries` is a name, to which `riverrun queries` adds them while the program runs, or a
        table of them. What leaves has the row's columns, or those in `keep`, and `query`, `owner`,
        `metadata`, `fields`, `score` and, unless `highlight` is False, a `fragment` of the text.
        `language` and `stop_words` are as of `rr.sinks.search_index`. At most `max_unindexed`
        queries may need no word. See docs/search-streams.md.
        """
        at = caller()
        asked = Searching(
            text, language, stop_words, keep, highlight, max_unindexed, name, on_error
        )
        given = queries if isinstance(queries, str) else node_of(queries, "search", at)
        return replace(self, node=renamed(search(self.node, given, asked, at), was, at))

    @property
    def timed_out(self) -> Self:
        """The partial matches of `.match(…, timeouts=True)` or `.match_rules(…, timeouts=True)`
        that ran out of time."""
        at = caller()
        return replace(self, node=partial_matches(self.node, at) or timed_out(self.node, at))
