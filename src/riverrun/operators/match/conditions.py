"""The conditions of a pattern, taken apart by what they look at.

- The row alone: bits, computed by DuckDB as rows enter.
- The row and its neighbours (PREV, NEXT): bits as well, once rows are in their order.
- Earlier rows of the match: Python, run while a match is being made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from riverrun.operators.match import python_code
from riverrun.operators.match.clauses import Named
from riverrun.operators.match.navigation import CLASS, Ref, Scope, refs
from riverrun.operators.match.python_code import RUNNING, Code, Writer, as_python, kind_of
from riverrun.operators.match.trees import Tree, changed, column, conjuncts, constant, written
from riverrun.schema import Column, Schema

BITS = 63
"""Variables of a pattern: each is a bit of a number."""


@dataclass(frozen=True)
class Shifted:
    """A column's value in another row of the key, so many rows before (-) or after."""

    column: str
    shift: int


@dataclass
class Columns:
    """What rows carry through the step: columns as they are, and values computed of them."""

    plain: dict[str, None] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    """Expression to name."""
    shifted: dict[Shifted, str] = field(default_factory=dict)

    def of(self, ref: Ref) -> str:
        """The column that holds the value of the row that is asked for."""
        if ref.plain == CLASS:
            return CLASS
        name = self.plain_column(ref.plain) if ref.plain else self.made(ref.value)
        return self.neighbour(name, ref.shift) if ref.shift else name

    def plain_column(self, name: str) -> str:
        self.plain.setdefault(name)
        return name

    def made(self, expression: str) -> str:
        return self.computed.setdefault(expression, f"__h{len(self.computed)}")

    def neighbour(self, name: str, shift: int) -> str:
        return self.shifted.setdefault(Shifted(name, shift), f"__s{len(self.shifted)}")


@dataclass(frozen=True)
class Aggregated:
    """A running aggregate: over the rows of a group, of a value in a column."""

    group: int
    function: str
    column: int | None


@dataclass(frozen=True)
class Dependent:
    """What is to be known of the match so far, and the conditions on it."""

    codes: tuple[str | None, ...] = ()
    """Of each variable, in Python."""
    columns: tuple[str, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    aggregates: tuple[Aggregated, ...] = ()


@dataclass(frozen=True)
class Conditions:
    own: tuple[str | None, ...]
    """Of each variable: SQL over a row alone."""
    near: tuple[str | None, ...]
    """SQL over a row with columns of its neighbours."""
    dependent: Dependent
    shifts: tuple[tuple[int, int], ...] = ()
    """A variable, and a row before it that its condition looks at (negative)."""


def conditions_of(scope: Scope, defines: list[Named | None], columns: Columns) -> Conditions:
    """`defines` in the order of the variables' numbers."""
    parts = [_Parts(scope, n, columns, each) for n, each in enumerate(defines)]
    asked = _Asked(scope, columns)
    own = [_joined(part.own) for part in parts]
    near = [_joined(part.near) for part in parts]
    codes = [asked.code(n, part.dependent) for n, part in enumerate(parts)]
    used = any(codes)
    dependent = Dependent(
        tuple(codes), tuple(asked.columns), tuple(asked.groups), tuple(asked.aggregates)
    )
    shifts = {(n, shift) for n, part in enumerate(parts) for shift in part.shifts}
    return Conditions(
        tuple(own), tuple(near), dependent if used else Dependent(), tuple(sorted(shifts))
    )


def _joined(parts: list[str]) -> str | None:
    return " AND ".join(f"({part})" for part in parts) if parts else None


def _current(ref: Ref, variable: int) -> bool:
    """Whether it is the row itself (or a neighbour of it), which is the last of its variable."""
    own = ref.group is None or variable in ref.group
    return own and ref.which == "last" and not ref.offset and not ref.aggregate


class _Parts:
    """The conjuncts of one variable's condition, by what they look at."""

    def __init__(self, scope: Scope, variable: int, columns: Columns, define: Named | None) -> None:
        self.own: list[str] = []
        self.near: list[str] = []
        self.dependent: list[Tree] = []
        self.shifts: set[int] = set()
        if define is None:
            return
        tree = scope.read(define.holds, final=False, measure=False)
        tree = changed(tree, lambda node: self._named(scope, node, variable, define.name))
        for part in conjuncts(tree):
            found = [node.ref for node in refs(part)]
            self.shifts |= {ref.shift for ref in found}
            if not all(_current(ref, variable) for ref in found):
                self.dependent.append(part)
                continue
            near = any(ref.shift for ref in found)
            text = row_text(part, columns if near else None)
            _require_truth(scope, text, part, columns if near else None)
            (self.near if near else self.own).append(text)

    def _named(self, scope: Scope, node: Tree, variable: int, name: str) -> Tree:
        """CLASSIFIER() of the row itself is its variable."""
        if node["class"] != "ROW":
            return node
        ref: Ref = node["ref"]
        if not ref.value and not ref.aggregate:
            raise scope.source.error(
                "MATCH_NUMBER is for measures: a condition knows no other match", node["place"]
            )
        if ref.value != CLASS:
            return node
        if not _current(ref, variable):
            raise scope.source.error(
                "a condition knows the CLASSIFIER of its own row only", node["place"]
            )
        return constant(name, node["place"])


def row_text(tree: Tree, columns: Columns | None) -> str:
    """SQL over a row as it enters, or over the columns that it carries."""

    def as_column(node: Tree) -> Tree:
        if node["class"] != "ROW":
            return node
        ref: Ref = node["ref"]
        if columns is not None:
            return column(columns.of(ref))
        return {"class": "TEXT", "type": "TEXT", "text": ref.value}

    made = changed(tree, as_column)
    return _with_texts(made)


def _with_texts(tree: Tree) -> str:
    """Writes a tree in which values are text already: each stands in it under a name first."""
    texts: dict[str, str] = {}

    def named(node: Tree) -> Tree:
        if node["class"] != "TEXT":
            return node
        name = f"__text{len(texts)}__"
        texts[name] = node["text"]
        return column(name)

    made = written(changed(tree, named))
    for name, text in texts.items():
        made = made.replace(name, f"({text})", 1)
    return made


def _require_truth(scope: Scope, text: str, tree: Tree, columns: Columns | None) -> None:
    types = {columns.of(node.ref): node.ref.type for node in refs(tree)} if columns else {}
    made = (Column(name, type) for name, type in types.items() if name not in scope.schema)
    schema = Schema((*scope.schema.columns, *made))
    found = scope.checked(text, schema, tree["place"])
    if found not in ("BOOLEAN", '"NULL"'):
        raise scope.source.error(f"a condition must be true or false, not {found}", tree["place"])


class _Asked:
    """Collects what conditions ask about the match so far, and writes them."""

    def __init__(self, scope: Scope, columns: Columns) -> None:
        self.scope, self.carried = scope, columns
        self.columns: list[str] = []
        self.groups: list[tuple[int, ...]] = []
        self.aggregates: list[Aggregated] = []
        self.everything = tuple(sorted({n for each in scope.variables.values() for n in each}))

    def code(self, variable: int, parts: list[Tree]) -> str | None:
        if not parts:
            return None
        writer = Writer(
            self.scope.source,
            lambda ref, place: self._leaf(ref, place, variable),
            lambda tree: self._hoisted(tree, variable),
        )
        return " and ".join(f"{writer.condition(part)} is True" for part in parts)

    def _hoisted(self, tree: Tree, variable: int) -> Code | None:
        found = [node.ref for node in refs(tree)]
        if not all(_current(ref, variable) and not ref.shift for ref in found):
            return None
        text = row_text(tree, None)
        type = self.scope.type_of(text, tree["place"])
        return f"c[{self._column(text, type, tree['place'])}][r]", self._kind(type, tree["place"])

    def _kind(self, type: str, place: int) -> str:
        kind = kind_of(type)
        if kind is None:
            raise self.scope.source.error(
                f"values of the type {type} cannot be compared with those of other rows",
                place,
                python_code.HINT,
            )
        return kind

    def _column(self, text: str, type: str, place: int, shift: int = 0) -> int:
        self._kind(type, place)
        converted = as_python(text, type)
        value = Ref(text if converted == text else converted, type, shift=shift)
        name = self.carried.of(value)
        if name not in self.columns:
            self.columns.append(name)
        return self.columns.index(name)

    def _group(self, group: tuple[int, ...] | None) -> int:
        found = self.everything if group is None else group
        if found not in self.groups:
            self.groups.append(found)
        return self.groups.index(found)

    def _leaf(self, ref: Ref, place: int, variable: int) -> Code:
        if ref.aggregate:
            return self._running(ref, place)
        n = self._column(ref.value, ref.type, place, ref.shift)
        kind = self._kind(ref.type, place)
        if _current(ref, variable):
            return f"c[{n}][r]", kind
        g = self._group(ref.group)
        at = ref.offset if ref.which == "first" else -1 - ref.offset
        return f"(c[{n}][w[{g}][{at}]] if len(w[{g}]) > {ref.offset} else None)", kind

    def _running(self, ref: Ref, place: int) -> Code:
        function = str(ref.aggregate)
        if function not in RUNNING or ref.distinct or ref.more:
            known = ", ".join(RUNNING)
            raise self.scope.source.error(
                f"a condition cannot have {function}", place, f"it may have {known}; measures all"
            )
        n, kind = None, "whole"
        if ref.value:
            type = self.scope.type_of(ref.value, place)
            n = self._column(ref.value, type, place)
            kinds = {"count": "whole", "avg": "number"}
            kind = kinds.get(function, self._kind(type, place))
        asked = Aggregated(self._group(ref.group), function, n)
        if asked not in self.aggregates:
            self.aggregates.append(asked)
        top = f"a[{self.aggregates.index(asked)}][-1]"
        return RUNNING[function][2].format(top), kind


def with_bits(conditions: tuple[str | None, ...]) -> str:
    """SQL for which of the conditions hold, a bit for each; one that is missing holds."""
    always = sum(1 << n for n, text in enumerate(conditions) if text is None)
    parts = [
        f"(CASE WHEN {text} THEN {1 << n} ELSE 0 END)::BIGINT"
        for n, text in enumerate(conditions)
        if text is not None
    ]
    return " | ".join([f"{always}::BIGINT", *parts])
