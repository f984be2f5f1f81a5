"""Whatever is passed to a public function and cannot be meant is an error at the user's line.

Every public function is found by inspection, and called once for each of its parameters and each
wrong kind of value, all other arguments being right. A new one is tried by itself; it needs an
entry in `RIGHT` only for parameters that have no default and whose name is new.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import pytest

import riverrun as rr
from meant import MEANT
from riverrun.operators.match.fluent import Pattern
from riverrun.processed import Processed

SCHEMA = "user string, page string, ms bigint, tags string[], at timestamp"


class Echo(rr.Processor):
    outputs = {"seen": "user string"}

    def on_event(self, event, state, context):
        context.emit("seen", user=event.user)


@cache
def app():
    return rr.App("shop")


@cache
def stream():
    return app().stream("views", schema=SCHEMA, key="user", time="at")


@cache
def table():
    return app().table("users", schema="user string, country string", key="user")


@cache
def output():
    other = rr.App("other")
    other.stream("views", schema=SCHEMA).to("out")
    return other.outputs[0]


def doubled():
    @rr.function("double")
    def twice(x: float):
        return 2 * x

    return twice


def once():
    return lambda rows, at: stream().deduplicate("user", within="1 hour").node


def captured():
    return [app().table("captured", schema=SCHEMA, key="user", format="debezium")]


def latest():
    return lambda rows, at: table().node


OBJECTS = {
    rr.App: app,
    rr.Stream: stream,
    rr.Table: table,
    rr.Grouped: cache(lambda: stream().group_by("page")),
    Pattern: cache(lambda: rr.pattern().begin("long", "ms > 9").one_or_more()),
    Processed: cache(lambda: stream().process(Echo, by="user")),
    "Pattern.begin": rr.pattern,
    "Grouped.top": cache(lambda: table().group_by("country")),
    "Grouped.bottom": cache(lambda: table().group_by("country")),
}
"""What has public methods, and how one of it is made; of one method, if it needs another."""


@dataclass(frozen=True)
class Count:
    events: int = 0

    def decide(self, command: Count):
        return command

    def evolve(self, event: Count) -> Count:
        return Count(self.events + 1)


REFUSED = ("Table.map", "Table.lookup", "App.send")
"""Methods of streams that tables have only to say that they cannot; and one for running ones."""

NOT_MADE = {
    rr.Aggregate, rr.Stream, rr.Table, rr.Grouped, rr.ProgramError, rr.RiverrunError, rr.Rejected,
}  # fmt: skip
"""Classes that programs name, but do not call."""

RIGHT = {
    "agg": rr.count(),
    "aggregates": [rr.count()],
    "by": "user",
    "channels": [],
    "column": "tags",
    "columns": ["user"],
    "condition": "user > 'a'",
    "edges": [1, 10],
    "expression": "ms",
    "fraction": 0.5,
    "function": lambda: lambda df: df,
    "gap": "1 minute",
    "group": "workers",
    "group_by": "user",
    "hop": "1 minute",
    "key": "user",
    "limit": 10,
    "name": "shop",
    "named": ["user"],
    "occurred": "at",
    "of": ["/a"],
    "on": "user",
    "other": table,
    "others": [],
    "output": "seen",
    "count": 2,
    "duration": "1 minute",
    "pattern": rr.pattern().begin("long", "ms > 9").within("1 minute"),
    "period": "1 day",
    "processor": Echo,
    "schema": SCHEMA,
    "sent": "at",
    "sinks": ["out"],
    "subject": "user",
    "size": "1 minute",
    "topic": "views",
    "type": "double",
    "window": rr.tumbling("1 minute"),
    "within": "1 minute",
    # sinks
    "file": "shop.db",
    "folder": "views",
    "table": "views",
    "queries": "saved",
    "text": "page",
    "time": "at",
    "url": "https://example.com/views",
}
"""Right arguments by the name of the parameter, or of function and parameter."""

AGAIN = {
    "correlation": {"other": "ms"},
    "Stream.join": {"other": stream, "within": "1 minute", "prefix": "other_"},
    "Stream.join as of event time": {"other": table, "as_of": "event time"},
    "Stream.match": {"by": "user"},
    "Stream.match_rules": {"measures": "longest double"},
    "Stream.to_table": {"key": ["user"]},
    "Stream.lookup": {
        "database": "sqlite:///shop.db",
        "table": "users",
        "schema": "country string",
        "columns": None,
    },
    "Table.join": {"prefix": "other_"},
    "App.add": {"output": output},
    "App.aggregate": {"rules": lambda: Count, "commands": "commands", "events": "events"},
    "App.events": {"rules": lambda: Count},
    "upcast": {"to": 2},
    "App.capture": {"schema": SCHEMA, "key": "user"},
    "App.whole": {"tables": captured, "transactions": "shop.transaction"},
    "App.named": {"function": doubled},
    "App.stream_of": {"node": lambda: stream().node},
    "email": {"to": "ops@example.com"},
    "Stream.apply": {"operator": once},
    "Stream.apply_to_table": {"operator": latest},
    "Table.apply": {"operator": once},
    "Table.apply_to_table": {"operator": latest},
}
"""The same for one function; one that takes several kinds is tried once with each."""


WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "5": lambda: 5,
    "-1": lambda: -1,
    "a huge number": lambda: 10**30,
    "1.5": lambda: 1.5,
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "True": lambda: True,
    "empty text": lambda: "",
    "blank text": lambda: " ",
    "bytes": lambda: b"x",
    "an empty list": list,
    "a list": lambda: [1, None],
    "a dictionary": dict,
    "a tuple": lambda: (1, 2),
    "a set": lambda: {1},
    "an object": object,
    "a function": lambda: print,
    "a class": lambda: int,
    "an app": app,
    "a stream": stream,
    "a table": table,
    "groups": lambda: stream().group_by("page"),
    "an aggregate": rr.count,
    "a window": lambda: rr.tumbling("1 minute"),
    "a processor": Echo,
    "a module": lambda: rr,
}


@dataclass(frozen=True)
class Public:
    """A public function, or a method with how its object is made."""

    name: str
    function: Callable[..., Any]
    of: Callable[[], Any] | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def parameters(self) -> list[inspect.Parameter]:
        found = list(inspect.signature(self.function).parameters.values())
        return found[1:] if self.of else found

    def call(self, **wrong: Any) -> Any:
        """With right arguments, but for those given."""
        args, options = [], {}
        for each in self.parameters:
            several = each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            if each.name in wrong:
                given = [wrong[each.name]] if several else wrong[each.name]
            elif each.default is each.empty or each.name in AGAIN.get(self.name, {}):
                given = self.right(each)
            else:
                continue
            if each.kind is each.VAR_KEYWORD:
                options |= {"x": given[0]}
            elif each.kind is each.KEYWORD_ONLY:
                options[each.name] = given
            else:
                args += given if several else [given]
        made = OBJECTS.get(self.name, self.of)
        function = getattr(made(), self.function.__name__) if made else self.function
        return function(*args, **options)

    def right(self, parameter: inspect.Parameter) -> Any:
        known = RIGHT | AGAIN.get(self.name, {})
        assert parameter.name in known, f"RIGHT has no {parameter.name}, for {self.name}"
        given = known[parameter.name]
        return given() if callable(given) and given is not Echo else given


def functions(names: dict[str, Any]) -> Iterator[Public]:
    for name, each in names.items():
        if isinstance(each, ModuleType):
            yield from functions({n: getattr(each, n) for n in each.__all__})
        elif each not in NOT_MADE:
            yield Public(name, each)


def methods() -> Iterator[Public]:
    for kind, made in OBJECTS.items():
        if isinstance(kind, str):
            continue
        for name, each in inspect.getmembers(kind, inspect.isfunction):
            called = f"{kind.__name__}.{name}"
            if called not in REFUSED and (not name.startswith("_") or name == "__getitem__"):
                others = [other for other in AGAIN if other.startswith(f"{called} ")]
                yield from (Public(again, each, made) for again in (called, *others))


EVERY = [*functions({name: getattr(rr, name) for name in rr.__all__}), *methods()]
TRIED = [
    pytest.param(each, parameter, id=f"{each}-{parameter.name}")
    for each in EVERY
    for parameter in each.parameters
]


@pytest.mark.parametrize("public", EVERY, ids=str)
def test_right_arguments_are_taken(public):
    if public.name != "App.program":
        assert public.call() is not public


@pytest.mark.parametrize(("public", "parameter"), TRIED)
def test_what_cannot_be_meant_is_an_error_at_its_line(public, parameter):
    meant = MEANT.get(f"{public}.{parameter.name}", set())
    accepted, otherwise = set(), {}
    for kind, make in WRONG.items():
        if kind == "None" and "None" in str(parameter.annotation):
            continue
        try:
            public.call(**{parameter.name: make()})
        except rr.ProgramError as error:
            if getattr(error.where, "file", None) != __file__:
                otherwise[kind] = f"where: {error.where}"
        except Exception as error:
            otherwise[kind] = f"{type(error).__name__}: {error}"
        else:
            accepted.add(kind)
    assert otherwise == {}
    assert accepted == meant


CALLED_WRONGLY = {
    "stream() has no argument 'shema'": lambda: app().stream("t", shema="x int"),
    "stream() missing a required argument: 'schema'": lambda: app().stream("t"),
    "App() missing a required argument: 'name'": lambda: rr.App(pages=5),
    "count() has no argument 'of'": lambda: rr.count(of="ms"),
    "all_time() has no argument 'size'": lambda: rr.all_time(size="1 h"),
    "tumbling() too many positional arguments": lambda: rr.tumbling("1 h", "2 h"),
}


@pytest.mark.parametrize("fact", CALLED_WRONGLY)
def test_an_argument_that_is_missing_or_unknown_is_an_error_at_its_line(fact):
    with pytest.raises(rr.ProgramError) as caught:
        CALLED_WRONGLY[fact]()
    assert caught.value.fact == fact
    assert caught.value.where.line == CALLED_WRONGLY[fact].__code__.co_firstlineno


def test_an_unknown_argument_names_the_one_that_was_meant():
    with pytest.raises(rr.ProgramError) as caught:
        app().stream("t", shema="x int")
    assert caught.value.hint.startswith("did you mean 'schema'? stream(topic, schema, key, time,")


def test_an_error_says_what_is_expected_and_what_was_found():
    with pytest.raises(rr.ProgramError) as caught:
        stream().where(table())
    assert (caught.value.fact, caught.value.got) == ("condition is text", "a Table")
    with pytest.raises(rr.ProgramError) as caught:
        app().table("t", schema="id int", key="id", replicate=1)
    assert (caught.value.fact, caught.value.got) == ("replicate is True or False", "1")
