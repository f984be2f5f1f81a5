"""The rules that are in effect, ready to be matched: made once in a process for all pages."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from riverrun.control import Command
from riverrun.durations import END
from riverrun.kernels.functions import Function
from riverrun.operators.rules.at_hand import Numbers
from riverrun.operators.rules.changes import Changes
from riverrun.operators.rules.groups import LARGEST, Group
from riverrun.operators.rules.rule import Rule, RuleSet
from riverrun.operators.rules.shape import Frame, Key, Shape, known_shape
from riverrun.operators.rules.spec import RulesSpec

MOST = 16
"""Sets of rules that a process has at hand."""

_shapes: dict[Any, Shape] = {}
_active: OrderedDict[Any, Active] = OrderedDict()
_changed: OrderedDict[Any, tuple[tuple[Command, ...], tuple[str, list[Command]]]] = OrderedDict()
"""What commands made of rules last, for each page the same."""


class Active:
    """Rules by their shapes, and what these share."""

    def __init__(
        self, frame: Frame, rules: tuple[Rule, ...], functions: tuple[Function, ...]
    ) -> None:
        by_shape: defaultdict[Key, list[Rule]] = defaultdict(list)
        for rule in rules:
            by_shape[Key.of(rule)].append(rule)
        self.groups: list[Group] = []
        self.unfit: list[tuple[Rule, Exception]] = []
        """Rules that came when the program was another one."""
        for alike in by_shape.values():
            try:
                shape = known_shape(frame, alike[0], functions, _shapes)
            except Exception as error:
                self.unfit += [(each, error) for each in alike]
                continue
            for n in range(0, len(alike), LARGEST):
                self.groups.append(Group(shape, alike[n : n + LARGEST]))
        shapes = [group.shape for group in self.groups]
        filters = [each for shape in shapes for each in shape.filters]
        atoms = [atom for each in filters for atom in each.atoms]
        self.conditions = list(dict.fromkeys(text for each in filters for text in each.shared))
        self.values = list(dict.fromkeys(atom.value for atom in atoms if not atom.column))
        self.keeps = max((shape.keeps for shape in shapes), default=0)
        self.first_end = min((rule.ends for rule in rules), default=END)
        """Before which nothing ends."""
        self._place()

    def _place(self) -> None:
        ids = [each.id for group in self.groups for each in group.rules]
        group = [n for n, each in enumerate(self.groups) for _ in each.rules]
        which = [n for each in self.groups for n in range(len(each.rules))]
        order = np.argsort(np.array(ids, np.int64))
        self._ids = np.array(ids, np.int64)[order]
        self._group, self._which = (np.array(each, np.int64)[order] for each in (group, which))

    def places(self, ids: Numbers) -> tuple[Numbers, Numbers]:
        """The group of each version, and its number there; -1 where it is no longer."""
        if not len(self._ids):
            nowhere = np.full(len(ids), -1, np.int64)
            return nowhere, nowhere
        place = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        there = self._ids[place] == ids
        return np.where(there, self._group[place], -1), np.where(there, self._which[place], -1)


def changed(
    step: RulesSpec,
    asked: tuple[str, int, tuple[Command, ...]],
    text: Callable[[], str],
    functions: tuple[Function, ...],
) -> tuple[str, list[Command]]:
    """The rules after commands, and the answers to these; worked out once for all pages. `asked`:
    the digest of the rules before, the clock, and the commands."""
    marked, clock, commands = asked
    key = (step.frame, step.templates, marked, clock)
    known = _changed.get(key)
    if known is None or known[0] != commands:
        changes = Changes(
            RuleSet.decoded(text()),
            clock,
            dict(step.templates),
            lambda rule: _require(step.frame, rule, functions),
        )
        changes.drop(step.name, active_of(step.frame, marked, text, functions).unfit)
        changes.take(commands)
        known = _changed[key] = (commands, (changes.rules.encoded(), changes.answers))
        while len(_changed) > MOST:
            _changed.popitem(last=False)
    return known[1]


def _require(frame: Frame, rule: Rule, functions: tuple[Function, ...]) -> None:
    """Refuses a rule that cannot be matched."""
    known_shape(frame, rule, functions, _shapes)


def active_of(
    frame: Frame, marked: str, text: Callable[[], str], functions: tuple[Function, ...]
) -> Active:
    key = (frame, marked, functions)
    if key not in _active:
        _active[key] = Active(frame, RuleSet.decoded(text()).rules, functions)
        while len(_active) > MOST:
            _active.popitem(last=False)
    _active.move_to_end(key)
    return _active[key]
