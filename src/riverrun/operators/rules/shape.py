"""What rules with one pattern and one kind of parameters share: read and checked once for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from riverrun.durations import duration_text
from riverrun.errors import Location, ProgramError
from riverrun.kernels import sql
from riverrun.kernels.functions import Function
from riverrun.kernels.letters import OnError
from riverrun.operators.match.automaton import MATCH, TIMEOUT, Automaton
from riverrun.operators.match.building import Options, read
from riverrun.operators.match.clauses import Clauses, clauses_of, shaping
from riverrun.operators.match.kernel import Match
from riverrun.operators.match.pattern import tree_of
from riverrun.operators.rules.filters import Filter, filter_of
from riverrun.operators.rules.parameters import (
    RulePlace,
    column_of,
    require_same,
    schema_with,
    with_columns,
)
from riverrun.operators.rules.rule import Rule
from riverrun.schema import Column, Schema

WHICH = "__rule"
"""Which of its group's rules a row or a match is of."""
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
MOST = 10_000
"""Shapes that a process has at hand; rules come and go."""


@dataclass(frozen=True)
class Frame:
    """What a program says of all its rules."""

    name: str
    entering: Schema
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    measures: Schema
    times: tuple[str, ...]
    """The columns that event time is taken from: ORDER BY may name them."""
    longest: int
    max_rows: int
    timeouts: bool
    on_error: OnError
    at: Location


@dataclass(frozen=True)
class Shape:
    """A pattern with open parameters."""

    spec: Match
    """As a step would have it; its key has the rule beside the columns."""
    types: tuple[tuple[str, str], ...]
    filters: tuple[Filter, ...]
    """Of each variable."""
    required: tuple[int, ...]
    """The variables without which there is no match."""
    ends: tuple[int, ...]
    """Those that a match ends with."""
    firsts: tuple[int, ...]
    """Those that a match begins with."""

    @property
    def within(self) -> int:
        return self.spec.matching.within

    @cached_property
    def undecided(self) -> int:
        """For how long a row that a match may begin at is undecided at most: a row is held until
        the next ones are known, where the pattern looks at them."""
        return self.within * (2 if self.spec.reach[1] else 1)

    @cached_property
    def keeps(self) -> int:
        """How long rows are kept: those before a start are looked at, too, if they are near."""
        return self.undecided + (self.within if self.spec.reach[0] else 0)

    @cached_property
    def plain(self) -> bool:
        """Whether filters tell exactly which conditions hold."""
        return not any(each.rest for each in self.filters) and not any(self.spec.conditions.near)

    @property
    def prompt(self) -> bool:
        """Whether a match needs a new row that it ends with."""
        return not self.spec.reach[1]


def shape_of(frame: Frame, rule: Rule, functions: tuple[Function, ...]) -> Shape:
    """The shape of a rule, or an error that says what is wrong with it."""
    visible = {each.name.lower(): each for each in functions}
    at = RulePlace(f"the rule {rule.name!r}", 1, visible)
    source, places = with_columns(rule.text, at, rule.parameters)
    require_same(source, places, rule.types)
    found = checked_clauses(frame, clauses_of(source, keyed=True))
    schema = schema_with(frame.entering.visible, rule.types, at)
    tree = tree_of(source, found.pattern)
    live = rule.template is None  # templates are the program's own
    options = Options(max_rows=frame.max_rows, timeouts=frame.timeouts, live=live)
    made = read(schema, found, tree, options)
    if made.measures.numbered:
        raise source.error("a rule has no MATCH_NUMBER", rule.text.upper().find("MATCH_NUMBER"))
    _require_types(frame, made.measures.columns, found)
    columns, automaton = made.columns, made.matching.automaton
    spec = Match(
        name=frame.name,
        keys=(*frame.keys, WHICH),
        key_types=(*frame.key_types, "BIGINT"),
        schema=frame.measures,
        at=at,
        on_error=frame.on_error,
        entering=schema,
        text=found.shown,
        written=(),
        matching=made.matching,
        conditions=made.conditions,
        measures=made.measures,
        rows="one",
        carried=tuple(columns.plain),
        computed=tuple((name, text) for text, name in columns.computed.items()),
        shifted=tuple((name, each) for each, name in columns.shifted.items()),
        numbers_for=None,
    )
    _require_tried(spec)
    parameters = {column_of(name): type for name, type in rule.types}
    filters = tuple(filter_of(each, schema, parameters, at) for each in made.conditions.own)
    firsts = tuple(sorted({automaton.var[p] for p in automaton.first if p >= 0}))
    return Shape(spec, rule.types, filters, _required(automaton), _ends(automaton), firsts)


def checked_clauses(frame: Frame, found: Clauses) -> Clauses:
    """The clauses, if they are those of a rule of this program; with its key."""
    source = found.source
    if found.within is None:
        raise source.error(
            "the pattern has no WITHIN", len(source.text.rstrip()), "WITHIN INTERVAL '10' MINUTE"
        )
    if found.within > frame.longest:
        raise source.error(
            f"a match takes at most {duration_text(frame.longest)} here",
            source.text.upper().find("WITHIN"),
            "the program says how long: match_rules(…, longest=…)",
        )
    if found.rows == "all":
        raise source.error(
            "a rule gives one row per match", source.text.upper().find("ALL"), "ONE ROW PER MATCH"
        )
    names = tuple(name for name, _ in found.partition)
    if names and sorted(names) != sorted(frame.keys):
        raise source.error(
            f"the rows are matched by {', '.join(frame.keys)}",
            found.partition[0][1],
            "the program says by what: PARTITION BY may be left out",
        )
    for name, begin in found.order:
        if name not in frame.times or len(found.order) > 1:
            raise source.error(
                "rows are matched in the order of their event time", begin, "leave out ORDER BY"
            )
    for each in found.measures:
        if each.name not in frame.measures:
            known = ", ".join(frame.measures.names)
            raise source.error(
                f"the program has no measure {each.name!r}", each.begin, f"it has: {known}"
            )
    found.partition = [(name, 0) for name in frame.keys]
    return found


def _require_types(frame: Frame, columns: tuple[Any, ...], found: Clauses) -> None:
    for column, given in zip(columns, found.measures, strict=True):
        wanted = frame.measures.type_of(column.name)
        if not fits(column.type, wanted):
            raise found.source.error(
                f"the measure {column.name!r} is {wanted}, not {column.type}",
                given.holds.begin,
                f"CAST(… AS {wanted})",
            )


def _require_tried(spec: Match) -> None:
    """Refuses conditions that cannot be asked so that what fails on a row does not hold there."""
    schema = spec.entering
    for name, text in spec.computed:
        type = sql.type_of(f"TRY({text})", schema, spec.at)
        schema = Schema((*schema.columns, Column(name, type)))
    for name, each in spec.shifted:
        schema = Schema((*schema.columns, Column(name, schema.type_of(each.column))))
    conditions = (*spec.conditions.own, *spec.conditions.near)
    asked = [f"TRY({text})" for text in conditions if text is not None]
    if asked:
        sql.type_of(f"coalesce({', '.join(asked)})", schema, spec.at)


def fits(type: str, wanted: str) -> bool:
    """Whether values of a type can be those of another one, all of them."""
    if type in (wanted, '"NULL"', "NULL"):
        return True
    number = type in WHOLE or type == "FLOAT" or type.startswith("DECIMAL")
    if type in WHOLE and wanted in WHOLE:
        return WHOLE.index(type) < WHOLE.index(wanted)
    return wanted == "DOUBLE" and number


def _ends(automaton: Automaton) -> tuple[int, ...]:
    pairs = zip(automaton.var, automaton.follow[:-1], strict=True)
    return tuple(sorted({v for v, after in pairs if MATCH in after or TIMEOUT in after}))


def _required(automaton: Automaton) -> tuple[int, ...]:
    """Variables that every way from the beginning to an end goes through."""
    return tuple(v for v in sorted(set(automaton.var)) if not _reaches_end(automaton, v))


def _reaches_end(automaton: Automaton, without: int) -> bool:
    seen: set[int] = set()
    todo = [automaton.first]
    while todo:
        for target in todo.pop():
            if target < 0:
                return True
            if target not in seen and automaton.var[target] != without:
                seen.add(target)
                todo.append(automaton.follow[target])
    return False


class Key(NamedTuple):
    """What a shape depends on beside the program."""

    text: str
    types: tuple[tuple[str, str], ...]
    values: tuple[str, ...]
    """Of the parameters in PATTERN and WITHIN."""

    @classmethod
    def of(cls, rule: Rule) -> Key:
        values = (repr(rule.parameters.get(name)) for name in shaping_of(rule.text))
        return cls(rule.text, rule.types, tuple(values))


@lru_cache(maxsize=MOST)
def shaping_of(text: str) -> list[str]:
    """Of a text that cannot be read, none: what is wrong is told where it is read."""
    try:
        return shaping(with_columns(text, RulePlace("a rule", 1))[0])
    except ProgramError:
        return []


def known_shape(
    frame: Frame, rule: Rule, functions: tuple[Function, ...], known: dict[Any, Shape]
) -> Shape:
    """The shape, read once: rules that differ in values only have the same one."""
    key = (frame, functions, Key.of(rule))
    if key not in known:
        made = shape_of(frame, rule, functions)
        if len(known) >= MOST:
            known.clear()
        known[key] = made
    return known[key]


def require_readable(frame: Frame, templates: Mapping[str, str]) -> None:
    """Refuses templates that no rule could use, whatever its parameters are."""
    for name, text in templates.items():
        source, _ = with_columns(text, frame.at)
        try:
            found = checked_clauses(frame, clauses_of(source, keyed=True))
            tree_of(source, found.pattern)
        except ProgramError as error:
            raise ProgramError(
                f"the template {name!r}: {error.fact}",
                where=error.where,
                got=error.got,
                hint=error.hint,
            ) from error
