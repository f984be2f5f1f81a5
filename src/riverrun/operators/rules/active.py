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
from riverrun.operators.rules.groups import LARGEST, Group
from riverrun.operators.rules.rule import Changes, Rule, RuleSet
from riverrun.operators.rules.shape import Frame, Key, Shape, known_shape
from riverrun.operators.rules.spec import RulesSpec

MOST = 16
"""Sets of rules that a process has at hand."""

_shapes: dict[Any, Shape] = {}
_active: OrderedDict[Any, Active] = OrderedDict()
_last: list[tuple[Any, tuple[str, list[Command]]]] = []
"""What commands made of rules last."""


class Active:
    """Rules by their shapes, and what these share."""

    def __init__(
        self, frame: Frame, rules: tuple[Rule, ...], functions: tuple[Function, ...]
    ) -> None:
        by_shape: defaultdict[Key, list[Rule]] = defaultdict(list)
        for rule in rules:
            by_shape[Key.of(rule)].append(rule)
        self.groups: list[Group] = []
        for alike in by_shape.values():
            shape = known_shape(frame, alike[0], functions, _shapes)
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
    key = (step.frame, step.templates, *asked[:2], [vars(each) for each in asked[2]])
    if not _last or _last[0][0] != key:
        changes = Changes(
            RuleSet.decoded(text()),
            asked[1],
            dict(step.templates),
            lambda rule: _require(step.frame, rule, functions),
        )
        changes.take(asked[2])
        _last[:] = [(key, (changes.rules.encoded(), changes.answers))]
    return _last[0][1]


def _require(frame: Frame, rule: Rule, functions: tuple[Function, ...]) -> None:
    """Refuses a rule that cannot be matched."""
    known_shape(frame, rule, functions, _shapes)


def active_of(
    frame: Frame, digest: str, text: Callable[[], str], functions: tuple[Function, ...]
) -> Active:
    key = (frame, digest, functions)
    if key not in _active:
        _active[key] = Active(frame, RuleSet.decoded(text()).rules, functions)
        while len(_active) > MOST:
            _active.popitem(last=False)
    _active.move_to_end(key)
    return _active[key]
