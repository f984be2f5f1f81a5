"""What alerts are to tell, worked out row by row from all that was ever told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SECOND = 1_000_000
HEARD = ("firing", "more", "repeated")


@dataclass
class Case:
    """One cause, from its first row until it is over. Times are in seconds."""

    since: int
    number: int
    rows: list[int] = field(default_factory=list)
    """When each came."""
    over: bool = False
    acknowledged: bool = False
    told: list[tuple[int, str, int, int]] = field(default_factory=list)
    """When, what, to which level, and how many rows had come."""

    def heard(self) -> list[int]:
        return [at for at, kind, _, _ in self.told if kind in HEARD]

    def level(self) -> int:
        return sum(kind == "escalated" for _, kind, _, _ in self.told)


@dataclass
class Model:
    wait: int
    interval: int
    repeat: int | None
    resolve: bool
    resolve_after: int | None
    escalate: tuple[int, ...]
    table: bool = False
    now: int = 0
    cases: dict[Any, Case] = field(default_factory=dict)
    opened: dict[Any, int] = field(default_factory=dict)
    standing: dict[Any, tuple[Any, int]] = field(default_factory=dict)
    """Rows of a table by key: the group and the value."""
    silences: dict[str, tuple[Any, int]] = field(default_factory=dict)
    """By id: whether a group is meant, and until when."""
    out: list[tuple[Any, ...]] = field(default_factory=list)

    def batch(self, now: int, rows: list[tuple[Any, Any, int | None]]) -> None:
        """Rows are a key, a group, and a value; None deletes the key."""
        self.now = now
        if self.table:
            self._change(rows)
        else:
            for _, group, value in rows:
                self._row(group, value)
        for group in list(self.cases):
            self._look(group)

    def acknowledge(self, group: Any, now: int) -> None:
        self.now, case = now, self.cases[group]
        if not case.acknowledged:
            case.acknowledged = True
            if case.heard() and not self._silent(group):
                self._tell(group, "acknowledged")

    def _row(self, group: Any, value: int | None) -> None:
        if self.resolve and value == 0:
            if group in self.cases:
                self.cases[group].over = True
            return
        self._open(group)
        self.cases[group].rows.append(self.now)
        self.cases[group].over = False

    def _open(self, group: Any) -> None:
        if group not in self.cases:
            self.opened[group] = self.opened.get(group, 0) + 1
            self.cases[group] = Case(self.now, self.opened[group])

    def _change(self, rows: list[tuple[Any, Any, int | None]]) -> None:
        before = self._counting()
        for key, group, value in rows:
            self.standing.pop(key, None)
            if value is not None:
                self.standing[key] = (group, value)
        after = self._counting()
        for key, group in after.items():
            if before.get(key, ()) != group:
                self._open(group[0])
                self.cases[group[0]].rows.append(self.now)
        for group, case in self.cases.items():
            case.over = (group,) not in after.values()

    def _counting(self) -> dict[Any, tuple[Any]]:
        found = self.standing.items()
        return {k: (group,) for k, (group, v) in found if not (self.resolve and v == 0)}

    def _n(self, group: Any) -> int:
        if self.table:
            return list(self._counting().values()).count((group,))
        return len(self.cases[group].rows)

    def _silent(self, group: Any) -> bool:
        return any(meant(group) and self.now < end for meant, end in self.silences.values())

    def _tell(self, group: Any, kind: str) -> None:
        case = self.cases[group]
        level = case.level() + (kind == "escalated")
        case.told.append((self.now, kind, level, len(case.rows)))
        seq = len(case.told)
        self.out.append((group, case.number, seq, kind, level, self._n(group), self.now))

    def _look(self, group: Any) -> None:
        case, silent = self.cases[group], self._silent(group)
        waited = self.now - case.since >= self.wait
        if not case.heard() and waited and not (case.over or silent or case.acknowledged):
            self._tell(group, "firing")
        quiet = self.now - max(case.rows)
        if self.resolve_after is not None and quiet >= self.resolve_after:
            case.over = True
        if not case.heard():
            if case.over and waited:
                del self.cases[group]
        elif case.over and not silent and self.now - case.heard()[-1] >= self.interval:
            self._tell(group, "resolved")
            del self.cases[group]
        elif not (case.over or silent or case.acknowledged):
            self._remind(group, case)

    def _remind(self, group: Any, case: Case) -> None:
        last, _, _, known = next(each for each in reversed(case.told) if each[1] in HEARD)
        if len(case.rows) > known and self.now - last >= self.interval:
            self._tell(group, "more")
        elif self.repeat is not None and self.now - last >= self.repeat:
            self._tell(group, "repeated")
        for level, after in enumerate(self.escalate, 1):
            if case.level() < level and self.now - case.heard()[0] >= after:
                self._tell(group, "escalated")
