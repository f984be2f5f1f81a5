"""What conditions ask about the match so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from riverrun.operators.match.automaton import Automaton
from riverrun.operators.match.conditions import Dependent
from riverrun.operators.match.python_code import RUNNING, compiled


class SoFar:
    """What conditions ask about the match so far, kept as rows are added and taken back."""

    def __init__(
        self, automaton: Automaton, dependent: Dependent, columns: list[list[Any]]
    ) -> None:
        self.columns, self.var = columns, automaton.var
        self.conditions: list[Callable[..., bool] | None] = [
            compiled(code) if code else None for code in dependent.codes
        ]
        count = len(automaton.variables)
        self.groups_of = [
            [n for n, group in enumerate(dependent.groups) if v in group] for v in range(count)
        ]
        self.aggregates_of = [
            [
                (n, RUNNING[each.function][0], each.column)
                for n, each in enumerate(dependent.aggregates)
                if v in dependent.groups[each.group]
            ]
            for v in range(count)
        ]
        self.initial = [RUNNING[each.function][1] for each in dependent.aggregates]
        self.groups: list[list[int]] = [[] for _ in dependent.groups]
        self.aggregates: list[list[Any]] = [[each] for each in self.initial]

    def clear(self) -> None:
        for rows in self.groups:
            rows.clear()
        self.aggregates = [[each] for each in self.initial]

    def push(self, row: int, q: int) -> bool:
        """Adds a row, if its condition holds."""
        return self._add(row, self.var[q])

    def _add(self, row: int, v: int) -> bool:
        for g in self.groups_of[v]:
            self.groups[g].append(row)
        for n, add, column in self.aggregates_of[v]:
            stack = self.aggregates[n]
            stack.append(add(stack[-1], True if column is None else self.columns[column][row]))
        condition = self.conditions[v] if v < len(self.conditions) else None
        if condition is None or condition(row, self.columns, self.groups, self.aggregates):
            return True
        self._take_back(v)
        return False

    def would_hold(self, row: int, v: int) -> bool:
        """Whether the row could be added as one of the variable."""
        if not self._add(row, v):
            return False
        self._take_back(v)
        return True

    def pop(self, q: int) -> None:
        self._take_back(self.var[q])

    def _take_back(self, v: int) -> None:
        for g in self.groups_of[v]:
            self.groups[g].pop()
        for n, _, _ in self.aggregates_of[v]:
            self.aggregates[n].pop()
