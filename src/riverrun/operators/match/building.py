"""What `.match(…)` checks of a pattern before anything runs, and the step that it makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from riverrun.columns import EVENT
from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError
from riverrun.kernels.letters import OnError
from riverrun.kernels.program import ReadTopic
from riverrun.operators.match.arrival import MatchOnArrival
from riverrun.operators.match.automaton import Automaton, Known, automaton_of
from riverrun.operators.match.clauses import Clauses, Skip, clauses_of
from riverrun.operators.match.conditions import BITS, Columns, Conditions, conditions_of
from riverrun.operators.match.kernel import Match
from riverrun.operators.match.measures import Measures, measures_of
from riverrun.operators.match.navigation import Scope
from riverrun.operators.match.pattern import Tree, Variable, tree_of, variables_of
from riverrun.operators.match.search import Matching
from riverrun.operators.match.spec import TIMED_OUT, MatchSpec
from riverrun.operators.match.text import Text
from riverrun.plan.building import checked_policy, step_fields
from riverrun.plan.nodes import Emitted, Node, Step, WithTime
from riverrun.plan.rows import inputs_of
from riverrun.schema import RESERVED, Column, Schema, plain

FOR_EVER = (
    "without WITHIN a match that has begun would be waited for, and its rows kept, for ever: "
    "WITHIN INTERVAL '10' MINUTE"
)


@dataclass(frozen=True)
class Options:
    """What is asked beside the pattern."""

    name: str | None = None
    timeouts: bool = False
    max_rows: int = 10_000
    match_numbers: Duration | None = None
    on_arrival: bool = False
    on_error: OnError | None = None
    live: bool = False
    """Whether the pattern comes while a job runs."""


def match(rows: Node, text: str, options: Options, at: Location) -> Step:
    source = Text(text, at)
    found = clauses_of(source)
    if found.within is None:
        raise source.error("the pattern has no WITHIN", len(text.rstrip()), FOR_EVER)
    require_columns(rows, found)
    return assembled(rows, found, tree_of(source, found.pattern), options)


@dataclass(frozen=True)
class Read:
    """What clauses say of rows with certain columns, before it becomes a step."""

    matching: Matching
    conditions: Conditions
    measures: Measures
    columns: Columns
    variables: tuple[str, ...]


def read(
    schema: Schema,
    found: Clauses,
    tree: Tree,
    options: Options,
    instead: Mapping[str, tuple[str, ...]] | None = None,
) -> Read:
    """`tree` is that of the pattern. `instead`: variables of rows only for which others do not
    hold."""
    source = found.source
    every = found.skip.mode == "every match"
    variables = _variables(found, tree, instead or {})
    own = None if instead is None else _own_rows(found, variables, instead)
    scope = Scope(source, schema, _names(found, variables), own, options.live)
    columns = Columns()
    defines = {each.name.lower(): each for each in found.defines}
    conditions = conditions_of(scope, [defines.get(name.lower()) for name in variables], columns)
    known = _known(conditions, variables, instead or {})
    automaton = automaton_of(source, tree, variables, known, every=every)
    measures = measures_of(scope, found.measures, columns, final=found.rows == "one")
    _require_new_names(found, schema)
    matching = Matching(
        automaton,
        found.within or 0,
        found.skip.mode,
        _skip_to(source, found.skip, scope, automaton),
        conditions.dependent,
        _max_rows(options.max_rows, source.at),
        options.timeouts,
        _instead(variables, instead or {}),
    )
    return Read(matching, conditions, measures, columns, variables)


def assembled(
    rows: Node,
    found: Clauses,
    tree: Tree,
    options: Options,
    instead: Mapping[str, tuple[str, ...]] | None = None,
) -> Step:
    """The step of clauses that have been read."""
    at = found.source.at
    made = read(rows.schema, found, tree, options, instead)
    columns = made.columns
    keys = tuple(name for name, _ in found.partition)
    named = f"match_by_{'_'.join(keys)}"
    fields = step_fields("match", rows, keys, options.name, named=named, at=at)
    whole = rows.schema.visible
    given = whole if found.rows == "all" else whole.only(keys)
    columns_given = (*given.columns, *made.measures.columns)
    does = (MatchOnArrival if options.on_arrival else Match)(
        **fields,
        schema=Schema((*columns_given, *_own_columns(found, columns_given, options))),
        on_error=checked_policy(options.on_error, rows, at),
        entering=rows.schema,
        text=found.shown,
        written=_written(found, made.variables, instead or {}),
        matching=made.matching,
        conditions=made.conditions,
        measures=made.measures,
        rows=found.rows,
        carried=tuple(
            dict.fromkeys((*columns.plain, *(given.names if found.rows == "all" else ())))
        ),
        computed=tuple((name, text) for text, name in columns.computed.items()),
        shifted=tuple((name, each) for each, name in columns.shifted.items()),
        numbers_for=_numbers_for(found.source, made.measures, options),
    )
    return Step((rows,), does)


def _own_rows(
    found: Clauses, variables: tuple[str, ...], instead: Mapping[str, tuple[str, ...]]
) -> tuple[int, ...]:
    """The variables whose rows are in a match, not only passed over."""
    passed = set(instead) - {each.name for each in found.defines}
    return tuple(n for n, each in enumerate(variables) if each not in passed)


def _known(
    conditions: Conditions, variables: tuple[str, ...], instead: Mapping[str, tuple[str, ...]]
) -> Known:
    said = zip(conditions.own, conditions.near, strict=True)
    codes = conditions.dependent.codes
    free = {n for n, each in enumerate(said) if each == (None, None)}
    free -= {n for n, code in enumerate(codes) if code}
    free -= {n for n, name in enumerate(variables) if name in instead}
    return Known(frozenset(free), look_back=bool(codes))


def timed_out(node: Node, at: Location) -> Emitted:
    """The output of partial matches, of a step that tells them."""
    if (
        not isinstance(node, Step)
        or not isinstance(node.does, MatchSpec)
        or not node.does.matching.timeouts
    ):
        raise ProgramError(
            "this stream has no partial matches",
            where=at,
            hint="take .timed_out from what .match(…, timeouts=True), or match_rules, returns",
        )
    return Emitted(node, TIMED_OUT, node.does.one_row, at)


def _written(
    found: Clauses, variables: tuple[str, ...], instead: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, str], ...]:
    """Each variable with its condition, as it was written."""
    defined = {each.name.lower(): " ".join(each.holds.text.split()) for each in found.defines}
    said = []
    for name in variables:
        others = "".join(f", not {other}" for other in instead.get(name, ()))
        said.append((name, f"{defined.get(name.lower(), 'any row')}{others}"))
    return tuple(said)


def _instead(
    variables: tuple[str, ...], instead: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(variables.index, instead.get(name, ()))) for name in variables)


def _variables(
    found: Clauses, tree: Tree, instead: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """The variables of the pattern, each once, in the order in which they stand there."""
    first: dict[str, Variable] = {}
    for variable in variables_of(tree):
        first.setdefault(variable.name.lower(), variable)
    for others in instead.values():  # they may be in no place of the pattern itself
        for name in others:
            first.setdefault(name.lower(), Variable(name))
    seen: set[str] = set()
    for each in found.defines:
        if each.name.lower() not in first:
            known = ", ".join(variable.name for variable in first.values())
            raise found.source.error(
                f"{each.name} is defined, but not in the pattern", each.begin, f"there: {known}"
            )
        if each.name.lower() in seen:
            raise found.source.error(f"{each.name} is defined twice", each.begin)
        seen.add(each.name.lower())
    if len(first) > BITS:
        raise found.source.error(f"a pattern has at most {BITS} variables", 0)
    return tuple(each.name for each in first.values())


def _names(found: Clauses, variables: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """What each variable and subset stands for."""
    names: dict[str, tuple[int, ...]] = {name.lower(): (n,) for n, name in enumerate(variables)}
    for name, members in found.subsets.items():
        numbers: list[int] = []
        for member, begin in members:
            if member.lower() not in names:
                raise found.source.error(f"there is no variable {member!r}", begin)
            numbers += names[member.lower()]
        if name.lower() in names:
            raise found.source.error(f"there are two of the name {name!r}", members[0][1])
        names[name.lower()] = tuple(sorted(set(numbers)))
    return names


def _skip_to(source: Text, skip: Skip, scope: Scope, automaton: Automaton) -> tuple[int, ...]:
    if skip.variable is None:
        return ()
    members = scope.variables.get(skip.variable.lower())
    if members is None:
        raise source.error(f"there is no variable {skip.variable!r}", skip.begin)
    later = {t for targets in automaton.follow[:-1] for t in targets if t >= 0}
    begins = all(automaton.var[p] in members for p in automaton.first)
    again = skip.mode == "to first" or not any(automaton.var[p] in members for p in later)
    if begins and again:
        raise source.error(
            f"a match always begins with {skip.variable}: it would be found again and again",
            skip.begin,
            "SKIP TO NEXT ROW",
        )
    return members


def _own_columns(found: Clauses, given: tuple[Column, ...], options: Options) -> tuple[Column, ...]:
    """The key of the table that matches are, if they may be corrected."""
    if not options.on_arrival:
        return ()
    if Schema(given).taken(EVENT):
        places = {each.name.lower(): each.begin for each in found.measures}
        raise found.source.error(
            f"the name {EVENT!r} is taken",
            places.get(EVENT, 0),
            "with on_arrival=True the result is a table, and has a column of that name as its key: "
            "rename yours",
        )
    return (Column(EVENT, "VARCHAR"),)


def _numbers_for(source: Text, measures: Measures, options: Options) -> int | None:
    place = source.text.upper().find("MATCH_NUMBER")
    if measures.numbered and options.on_arrival:
        raise source.error(
            "MATCH_NUMBER is not for on_arrival=True",
            place,
            "a straggler would change the numbers of all later matches of its key",
        )
    if measures.numbered and options.match_numbers is None:
        raise source.error(
            "MATCH_NUMBER needs to know how long to count",
            place,
            'a count of each key would be kept for ever: match_numbers="1 day" starts over at 1 '
            "when a key has had no match for that long",
        )
    if options.match_numbers is None:
        return None
    return microseconds(options.match_numbers, source.at)


def _max_rows(given: int, at: Location) -> int:
    if given < 1:
        raise ProgramError("max_rows is at least 1", where=at, got=given)
    return given


def require_columns(rows: Node, found: Clauses) -> None:
    source, schema = found.source, rows.schema
    for name, begin in found.partition:
        if name not in schema.visible:
            raise source.error(f"there is no column {name!r}", begin, schema.suggestion(name))
    times = dict.fromkeys(time_columns(rows))
    for n, (name, begin) in enumerate(found.order):
        if n or name not in times:
            raise source.error(
                "rows are matched in the order of their event time",
                begin,
                f"that is {', '.join(times) or 'not a column here'}; rows of one time go by their "
                "place in the topic. ORDER BY may be left out",
            )


def time_columns(node: Node) -> Iterator[str]:
    """The columns that event time is taken from."""
    if isinstance(node, WithTime):
        yield plain(node.time)
        return
    if isinstance(node, ReadTopic):
        added = [each.name for each in node.time.added]
        yield from added[:1] or node.time.columns
        return
    for each in inputs_of(node):
        yield from time_columns(each)


def _require_new_names(found: Clauses, schema: Schema) -> None:
    keys = [name for name, _ in found.partition]
    taken = [Column(name, "") for name in (schema.visible.names if found.rows == "all" else keys)]
    for each in found.measures:
        if Schema(tuple(taken)).taken(each.name) or each.name.startswith(RESERVED):
            raise found.source.error(f"the name {each.name!r} is taken", each.begin)
        taken.append(Column(each.name, ""))
