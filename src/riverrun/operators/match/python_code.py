"""Conditions on earlier rows of a match as Python: they hold or not while a match is being made.

Everything about one row alone is computed by DuckDB before; what is left is comparisons, arithmetic
and booleans between such values. Python's numbers, texts and None stand for SQL's, times and
durations are microseconds; NaN, which is equal to itself and greater than all, is an object.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import total_ordering
from typing import Any

from riverrun.durations import UNITS
from riverrun.operators.match.navigation import Ref, nodes_with_columns
from riverrun.operators.match.text import Text
from riverrun.operators.match.trees import (
    Tree,
    arguments,
    call_of,
    type_of_constant,
    value_of,
    written,
)

Code = tuple[str, str]
"""A Python expression, and the kind of its value."""

WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
REAL = ("FLOAT", "DOUBLE", "HUGEINT", "UHUGEINT", "UBIGINT")
COMPARED = {
    "COMPARE_EQUAL": "==",
    "COMPARE_NOTEQUAL": "!=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
ARITHMETIC: dict[tuple[str, str, str], tuple[str, str]] = {
    ("+", "whole", "whole"): ("{} + {}", "whole"),
    ("-", "whole", "whole"): ("{} - {}", "whole"),
    ("*", "whole", "whole"): ("{} * {}", "whole"),
    ("/", "whole", "whole"): ("over({}, {})", "number"),
    ("+", "number", "number"): ("real({} + {})", "number"),
    ("-", "number", "number"): ("real({} - {})", "number"),
    ("*", "number", "number"): ("real({} * {})", "number"),
    ("/", "number", "number"): ("over({}, {})", "number"),
    ("-", "time", "time"): ("{} - {}", "duration"),
    ("+", "time", "duration"): ("{} + {}", "time"),
    ("-", "time", "duration"): ("{} - {}", "time"),
    ("+", "duration", "duration"): ("{} + {}", "duration"),
    ("-", "duration", "duration"): ("{} - {}", "duration"),
    ("||", "text", "text"): ("{} + {}", "text"),
}
HINT = "compute a column before the pattern, with .with_columns(…)"


def kind_of(type: str) -> str | None:
    """What values of a type of SQL are in conditions; None if they cannot be in one."""
    if type in WHOLE:
        return "whole"
    if type in REAL or type.startswith("DECIMAL"):
        return "number"
    kinds = {"VARCHAR": "text", "BOOLEAN": "truth", "TIMESTAMP": "time", "DATE": "time"}
    kinds |= {"INTERVAL": "duration", '"NULL"': "nothing", "NULL": "nothing"}
    return kinds.get(type)


def as_python(text: str, type: str) -> str:
    """SQL that gives values of a type as conditions have them."""
    if type in REAL or type.startswith("DECIMAL"):
        return f"({text})::DOUBLE"
    if type in ("TIMESTAMP", "DATE"):
        return f"epoch_us(({text})::TIMESTAMP)"
    return text


@dataclass
class Writer:
    """Makes Python of trees. What values of rows are in Python, `leaf` says."""

    source: Text
    leaf: Callable[[Ref, int], Code]
    hoisted: Callable[[Tree], Code | None]
    """The value of a tree that is of the row itself, and computed before."""
    names: int = 0

    def condition(self, tree: Tree) -> str:
        code, kind = self.code(tree)
        if kind not in ("truth", "nothing"):
            raise self.source.error("a condition must be true or false", tree["place"])
        return code

    def code(self, tree: Tree) -> Code:
        if tree["class"] == "ROW":
            return self.leaf(tree["ref"], tree["place"])
        if not any(nodes_with_columns(tree)):
            return self._constant(tree)
        if (found := self.hoisted(tree)) is not None:
            return found
        match tree["class"]:
            case "COMPARISON":
                return self._comparison(tree)
            case "CONJUNCTION":
                return self._conjunction(tree)
            case "OPERATOR":
                return self._operator(tree)
            case "BETWEEN":
                low = self._compared(tree["lower"], tree["input"], "<=", tree["place"])
                high = self._compared(tree["input"], tree["upper"], "<=", tree["place"])
                return self._both([low, high]), "truth"
            case "FUNCTION":
                return self._function(tree)
            case _:
                raise self._refused(tree)

    def _refused(self, tree: Tree) -> Exception:
        return self.source.error("this cannot be said of earlier rows", tree["place"], HINT)

    def _name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def _constant(self, tree: Tree) -> Code:
        text = written(tree)
        kind = kind_of(type_of_constant(text))
        if kind is None:
            raise self._refused(tree)
        return repr(plain_value(value_of(text))), kind

    def _known(self, codes: list[str], result: str) -> str:
        """None if one of the values is; `result` holds their names."""
        names = [self._name() for _ in codes]
        given = (f"({name} := {code}) is None" for name, code in zip(names, codes, strict=True))
        return f"(None if {' or '.join(given)} else {result.format(*names)})"

    def _comparison(self, tree: Tree) -> Code:
        if tree["type"] in ("COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM"):
            (left, kind), (right, other) = _alike_numbers(
                self.code(tree["left"]), self.code(tree["right"])
            )
            self._alike(kind, other, tree["place"])
            same = "!=" if tree["type"] == "COMPARE_DISTINCT_FROM" else "=="
            return f"({left} {same} {right})", "truth"
        sign = COMPARED.get(tree["type"])  # any other: refused
        if sign is None:
            raise self._refused(tree)
        return self._compared(tree["left"], tree["right"], sign, tree["place"]), "truth"

    def _compared(self, left: Tree, right: Tree, sign: str, place: int) -> str:
        (one, kind), (other, its_kind) = _alike_numbers(self.code(left), self.code(right))
        self._alike(kind, its_kind, place)
        return self._known([one, other], f"{{}} {sign} {{}}")

    def _alike(self, kind: str, other: str, place: int) -> None:
        if kind != other and "nothing" not in (kind, other):
            raise self.source.error(f"a {kind} is compared with a {other}", place, HINT)

    def _conjunction(self, tree: Tree) -> Code:
        codes = [self.condition(each) for each in tree["children"]]
        if tree["type"] == "CONJUNCTION_AND":
            return self._both(codes), "truth"
        return self._joined(codes, "True", "False"), "truth"

    def _both(self, codes: list[str]) -> str:
        return self._joined(codes, "False", "True")

    def _joined(self, codes: list[str], deciding: str, otherwise: str) -> str:
        """One that decides does; else one that is not known leaves it open."""
        names = [self._name() for _ in codes]
        given = zip(names, codes, strict=True)
        decided = " or ".join(f"({name} := {code}) is {deciding}" for name, code in given)
        open_ = " or ".join(f"{name} is None" for name in names)
        return f"({deciding} if {decided} else None if {open_} else {otherwise})"

    def _operator(self, tree: Tree) -> Code:
        children = tree["children"]
        match tree["type"]:
            case "OPERATOR_NOT":
                return self._known([self.condition(children[0])], "not {}"), "truth"
            case "OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL":
                sign = "is" if tree["type"] == "OPERATOR_IS_NULL" else "is not"
                return f"({self.code(children[0])[0]} {sign} None)", "truth"
            case "COMPARE_IN" | "COMPARE_NOT_IN":
                each = [self._compared(children[0], c, "==", tree["place"]) for c in children[1:]]
                found = self._joined(each, "True", "False")
                negated = tree["type"] == "COMPARE_NOT_IN"
                return (self._known([found], "not {}") if negated else found), "truth"
            case "OPERATOR_COALESCE":
                return self._first_known(tree, children)
            case _:
                raise self._refused(tree)

    def _first_known(self, tree: Tree, children: list[Tree]) -> Code:
        made = _alike_numbers(*(self.code(each) for each in children))
        kinds = {kind for _, kind in made} - {"nothing"}
        if len(kinds) != 1:
            raise self._refused(tree)
        code = made[-1][0]
        for value, _ in reversed(made[:-1]):
            name = self._name()
            code = f"({name} if ({name} := {value}) is not None else {code})"
        return code, kinds.pop()

    def _function(self, tree: Tree) -> Code:
        values = _alike_numbers(*(self.code(each) for each in arguments(tree)))
        kinds = [kind for _, kind in values]
        codes = [code for code, _ in values]
        if tree["is_operator"] and len(values) == 2:
            known = ARITHMETIC.get((tree["function_name"], *kinds))  # any other: refused
            if known:
                return self._known(codes, f"({known[0]})"), known[1]
        if tree["is_operator"] and tree["function_name"] == "-" and len(values) == 1:
            return self._known(codes, "(-{})"), kinds[0]
        if call_of(tree) == "abs" and kinds[0] in ("whole", "number") and len(kinds) == 1:
            return self._known(codes, "abs({})"), kinds[0]
        raise self._refused(tree)


def _alike_numbers(*given: Code) -> list[Code]:
    """Where one number is a real one, all are: as DuckDB compares and adds them."""
    if not {"whole", "number"} <= {kind for _, kind in given}:
        return list(given)
    return [(f"as_real({c})", "number") if kind == "whole" else (c, kind) for c, kind in given]


def plain_value(value: Any) -> Any:
    """A value of DuckDB as conditions have it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return NAN if math.isnan(value) else value
        case Decimal():
            return float(value)
        case datetime():
            return round(
                (value.replace(tzinfo=None) - datetime(1970, 1, 1)) / timedelta(microseconds=1)
            )
        case date():
            return (value - date(1970, 1, 1)).days * UNITS["day"]
        case timedelta():
            return round(value / timedelta(microseconds=1))
        case _:
            raise TypeError(value)


def values(column: list[Any]) -> list[Any]:
    """A column's values, with NaN as conditions have it."""
    return [NAN if each != each else each for each in column]  # noqa: PLR0124 - only NaN is so


@total_ordering
class Nan:
    """Equal to itself and greater than all; what is computed of it is it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nan)

    def __lt__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "NAN"

    def __add__(self, other: object) -> Nan:
        return self

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __add__

    def __neg__(self) -> Nan:
        return self

    __abs__ = __neg__


NAN = Nan()


def as_real(value: int | None) -> float | None:
    return None if value is None else float(value)


def real(value: Any) -> Any:
    """What came of reals: infinity less infinity is no number."""
    return value if value == value else NAN  # noqa: PLR0124 - only NaN is not


def over(left: Any, right: Any) -> Any:
    """Division as DuckDB has it."""
    if isinstance(left, Nan) or isinstance(right, Nan):
        return NAN
    if right != 0:
        return real(float(left) / float(right))
    if left == 0:
        return NAN
    return math.inf if (left > 0) == (math.copysign(1, right) > 0) else -math.inf


def count(state: int, value: Any) -> int:
    return state + (value is not None)


def total(state: Any, value: Any) -> Any:
    return state if value is None else value if state is None else real(state + value)


def mean(state: tuple[int, Any], value: Any) -> tuple[int, Any]:
    return (
        state
        if value is None
        else (state[0] + 1, value if not state[0] else real(state[1] + value))
    )


def least(state: Any, value: Any) -> Any:
    return state if value is None else value if state is None or value < state else state


def greatest(state: Any, value: Any) -> Any:
    return state if value is None else value if state is None or value > state else state


RUNNING: dict[str, tuple[Callable[[Any, Any], Any], Any, str]] = {
    "count": (count, 0, "{}"),
    "sum": (total, None, "{}"),
    "avg": (mean, (0, None), "(over({0}[1], {0}[0]) if {0}[0] else None)"),
    "min": (least, None, "{}"),
    "max": (greatest, None, "{}"),
}
"""Aggregates that conditions may have: how a row is added, what is there before, the result."""


def compiled(code: str) -> Callable[..., bool]:
    """A condition as a function of the row, the columns, the rows of each group, and the
    aggregates."""
    names = {"over": over, "real": real, "as_real": as_real, "NAN": NAN, "inf": math.inf}
    made: Callable[..., bool] = eval(f"lambda r, c, w, a: ({code}) is True", names)
    return made
