"""The kernel of live rules: one page through one batch.

Rows of a key are kept once for all rules, as long as the longest of them looks back. Of a key and a
rule nothing is kept but where to go on after what was found, and whether something is undecided:
most of a thousand rules have nothing to say of a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from riverrun.columns import TIME
from riverrun.kernels.letters import Failure, judge
from riverrun.kernels.operator import Batch, Result, StepState
from riverrun.kernels.sql import shared_evaluator
from riverrun.operators.match import in_time
from riverrun.operators.match.spec import TIMED_OUT
from riverrun.operators.rules.active import Active, active_of, changed
from riverrun.operators.rules.at_hand import NEW, AtHand, Numbers, by_key, first_from
from riverrun.operators.rules.groups import Group
from riverrun.operators.rules.leaving import leaving
from riverrun.operators.rules.pairs import Outcome, Pairs, PairVisit
from riverrun.operators.rules.rule import RuleSet, digest
from riverrun.operators.rules.spec import RulesSpec

UNTIL = "__until"
RULE = "__rule"
"""The version of a rule that a row of state is of."""
DECIDED_AT, DECIDED = "__decided_at", "__decided"
"""Up to where attempts are decided: a time, and how many rows of that time."""
SET = {"__slot": pl.Int64, "__hash": pl.UInt64, "digest": pl.String, "rules": pl.String}


@dataclass(frozen=True, kw_only=True)
class Rules(RulesSpec):
    def advance(self, state: StepState, batch: Batch) -> Result:
        return _Visit(self, state, batch).run()


class _Visit:
    def __init__(self, step: Rules, state: StepState, batch: Batch) -> None:
        self.step, self.state, self.batch = step, state, batch
        self.waiting = state.rows("waiting", within_key=None)
        self.rows = state.rows("rows", within_key=None)
        self.decided = state.rows("decided", within_key=(RULE,))
        self.looks = state.rows("looks", within_key=(RULE,))
        self.key = ["__hash", *step.keys]
        self.result = Result()

    def run(self) -> Result:
        rules = self._rules()
        parts = in_time.released(self.step, self.batch, self.waiting, self.result)
        released = pl.concat(parts) if parts else None
        page = self._at_hand(released, rules) if rules.groups else None
        outcomes: list[tuple[Group, Outcome]] = []
        if page is not None:
            outcomes = list(self._matched(page, rules))
        self._keep(released, rules)
        self._note(page, outcomes)
        self.result.waiting = bool(self.waiting.segments or self.looks.segments)
        return self.result

    def _rules(self) -> Active:
        """The rules that are in effect, after what the control log says with this batch."""
        kept = self.state.rows("rules", within_key=None)
        known = kept.segments[-1].rows if kept.segments else None
        clock, functions = self.batch.before, self.batch.functions
        marked = known["digest"][0] if known is not None else digest(RuleSet().encoded())
        frame = self.step.frame
        if not self.batch.commands:
            found = active_of(frame, marked, lambda: _text(known), functions)
            if found.first_end > clock and not found.unfit:
                return found
        text, self.result.answers = changed(
            self.step, (marked, clock, self.batch.commands), lambda: _text(known), functions
        )
        if digest(text) != marked:
            for segment in list(kept.segments):
                kept.remove(segment)
            row = {"__slot": [0], "__hash": [0], "digest": [digest(text)], "rules": [text]}
            kept.append(pl.DataFrame(row, schema=SET), -1)
        return active_of(frame, digest(text), lambda: text, functions)

    def _at_hand(self, released: pl.DataFrame | None, rules: Active) -> AtHand | None:
        """The rows of all keys that have something new, or whose time may be over."""
        touched = [] if released is None else [released.select(self.key)]
        due = (each.due(self.batch.before, self.batch.after) for each in self.looks.segments)
        touched += [part.select(self.key) for part in due if part.height]
        if not touched:
            return None
        self.wanted = pl.concat(touched).unique().with_columns(__slot=pl.lit(0, pl.Int64))
        parts = [] if released is None else [released.with_columns(pl.lit(True).alias(NEW))]
        old = self.rows.lookup(self.wanted)
        if old is not None:
            # what has ended before may still be in a segment
            old = old.filter(pl.col(UNTIL) > self.batch.before).select(self.step.kept)
            parts.append(old.with_columns(pl.lit(False).alias(NEW)))
        if not parts:
            return None
        rows, begins = by_key(pl.concat(parts), list(self.step.keys))
        page = AtHand(rows, begins, rows[TIME].to_numpy(), rows[NEW].to_numpy())
        evaluator = shared_evaluator(self.batch.functions)
        page.evaluate(evaluator, rules.conditions, rules.values)
        return page

    def _matched(self, page: AtHand, rules: Active) -> Iterator[tuple[Group, Outcome]]:
        self.numbered = page.rows[page.begins[:-1]].select(self.key).with_row_index("__key")
        looks, decided = (self._known(each, rules) for each in (self.looks, self.decided))
        failures: list[Failure] = []
        told: dict[str, list[pl.DataFrame]] = {"": [], TIMED_OUT: []}
        for number, group in enumerate(rules.groups):
            visit = PairVisit(group, page, self.state, self.batch)
            pairs = self._pairs(visit, number, looks)
            if pairs is None:
                continue
            _go_on(page, pairs, decided.get(number), len(group.rules))
            for outcome in visit.visit(pairs):
                yield group, outcome
            for name, found in (("", visit.told), (TIMED_OUT, visit.timed_out)):
                told[name] += [leaving(self.step, group, rows) for rows in found]
            failures += visit.failures
        self.result.streams |= {name: rows for name, rows in told.items() if rows}
        self.result.failed = judge(failures, self.batch.topics)

    def _known(self, kept: Any, rules: Active) -> dict[int, pl.DataFrame]:
        """What is kept of keys and rules, for the keys at hand, by group."""
        found = kept.lookup(self.wanted)
        if found is None:
            return {}
        found = found.filter(pl.col(UNTIL) > self.batch.before)
        found = found.join(self.numbered, on=self.key, nulls_equal=True)
        group, which = rules.places(found[RULE].to_numpy())
        found = found.with_columns(__group=pl.Series(group), __which=pl.Series(which))
        parts = found.filter(pl.col("__group") >= 0).partition_by("__group", as_dict=True)
        return {int(number): part for (number,), part in parts.items()}

    def _pairs(self, visit: PairVisit, number: int, looks: dict[int, pl.DataFrame]) -> Pairs | None:
        """Keys and rules to visit."""
        key, rule = visit.group.candidates(visit.page)
        size = len(visit.group.rules)
        if (known := looks.get(number)) is not None:
            again = known["__key"].to_numpy() * size + known["__which"].to_numpy()
            both = np.union1d(key * size + rule, again.astype(np.int64))
            key, rule = both // size, both % size
        return visit.pairs(key, rule) if len(key) else None

    def _keep(self, released: pl.DataFrame | None, rules: Active) -> None:
        """Rows are kept as long as a rule may look at them."""
        if released is None or not rules.groups:
            self.rows.append(None, self.batch.after)
            return
        until = pl.col(TIME) + rules.keeps + 1
        kept = released.with_columns(until.alias(UNTIL), __slot=pl.lit(0, pl.Int64))
        kept = kept.filter(pl.col(UNTIL) > self.batch.after)
        self.rows.append(kept.sort("__slot", "__hash"), self.batch.after)

    def _note(self, page: AtHand | None, outcomes: list[tuple[Group, Outcome]]) -> None:
        """Where keys and rules go on, and what is to be looked at again."""
        decided, looks = [], []
        for group, outcome in outcomes:
            assert page is not None
            pairs, shape = outcome.pairs, group.shape
            gone_on = np.flatnonzero(outcome.searched & (outcome.needed > pairs.first))
            if len(gone_on):
                last = outcome.needed[gone_on] - 1
                at = page.at[last]
                begin = page.begins[pairs.key[gone_on]]
                same = first_from(page.at, begin, last + 1, at)
                made = self._row_of(pairs.key[gone_on], group.ids[pairs.rule[gone_on]])
                made = made.with_columns(
                    pl.Series(DECIDED_AT, at), pl.Series(DECIDED, last - same + 1),
                    pl.Series(UNTIL, at + shape.undecided + 1),
                )  # fmt: skip
                decided.append(made)
            again = np.flatnonzero(outcome.looks)
            if len(again):
                made = self._row_of(pairs.key[again], group.ids[pairs.rule[again]])
                until = page.at[outcome.waits[again]] + shape.within + 1
                looks.append(made.with_columns(pl.Series(UNTIL, until)))
        for kept, rows in ((self.decided, decided), (self.looks, looks)):
            whole = pl.concat(rows).sort("__slot", "__hash") if rows else None
            kept.append(whole, self.batch.after)

    def _row_of(self, keys: Numbers, ids: Numbers) -> pl.DataFrame:
        rows = self.numbered.select(self.key)[keys]
        return rows.with_columns(pl.Series(RULE, ids, pl.Int64), __slot=pl.lit(0, pl.Int64))


def _text(known: pl.DataFrame | None) -> str:
    return RuleSet().encoded() if known is None else str(known["rules"][0])


def _go_on(page: AtHand, pairs: Pairs, decided: pl.DataFrame | None, size: int) -> None:
    """Sets where matches may begin: behind what was decided before."""
    if decided is None:
        return
    known = decided["__key"].to_numpy().astype(np.int64) * size + decided["__which"].to_numpy()
    order = np.argsort(known)
    wanted = pairs.key * size + pairs.rule
    place = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    there = np.flatnonzero(known[order][place] == wanted)
    rows = order[place[there]]
    keys = pairs.key[there]
    at = decided[DECIDED_AT].to_numpy()[rows]
    from_ = first_from(page.at, page.begins[keys], page.begins[keys + 1], at)
    pairs.first[there] = np.maximum(pairs.first[there], from_ + decided[DECIDED].to_numpy()[rows])
