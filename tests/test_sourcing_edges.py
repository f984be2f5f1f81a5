"""Aggregates with odd fields, odd rules and odd records: nothing is lost, and nothing stops."""

from __future__ import annotations

import enum
import json
import math
import sys
from dataclasses import dataclass, field, make_dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pyspark import cloudpickle

import riverrun as rr
from riverrun.errors import JobError, ProgramError
from riverrun.operators.decide.kinds import Kind
from riverrun.operators.decide.written import encoded
from riverrun.partitions import Partition
from riverrun.sources.admission import admit
from riverrun.sources.course import Course
from riverrun.sources.histories import Histories
from riverrun.testing import Driver


class Colour(enum.Enum):
    RED = "r"


class Point(NamedTuple):
    x: int
    y: Decimal


@dataclass(frozen=True)
class Part:
    name: str
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Do:
    what: str = ""


@dataclass(frozen=True)
class Did:
    n: int = 0


def rules(command: type = Do, event: type = Did, *fields, **upcasters) -> type:
    """Rules that give the command's fields as an event."""

    def decide(self, given):
        return event(**vars(given))

    def evolve(self, event):
        return self

    decide.__annotations__["given"] = command
    evolve.__annotations__["event"] = event
    methods = {"decide": decide, "evolve": evolve}
    return make_dataclass("State", fields, frozen=True, namespace=methods)


def of_value(hint: Any, *, upcast: bool = False) -> tuple[type, type]:
    """Classes of a command and an event with one field."""
    more = {"same": staticmethod(rr.upcast(to=2)(lambda fields: fields))} if upcast else {}
    put = make_dataclass("Put", [("value", hint)], frozen=True)
    return put, make_dataclass("Was", [("value", hint)], frozen=True, namespace=more)


def built(given: type) -> tuple[rr.App, Any]:
    app = rr.App("edges")
    return app, app.aggregate("thing", given, commands="asked", events="happened")


def asked(what: str = "", to: Any = "x", **more: Any) -> dict[str, Any]:
    return {"aggregate": to, "type": "Do", "data": {"what": what}, **more}


def replies(driver: Driver) -> list[tuple[str, str | None]]:
    found = (each["value"] for each in driver.outputs["asked.replies"])
    return [(each["outcome"], each["reason"]) for each in found]


EAST = timezone(timedelta(hours=2))
HELD = [
    (datetime, datetime(2026, 1, 1, 12, tzinfo=EAST), "2026-01-01T10:00:00Z"),
    (list[datetime], [datetime(2026, 1, 1, 12)], ["2026-01-01T12:00:00Z"]),
    (Decimal, Decimal("-1.123456789"), -1.123456789),
    (Decimal, Decimal("1E-7"), 1e-7),
    (int, 2**63 - 1, 2**63 - 1),
    (UUID, UUID(int=5), str(UUID(int=5))),
    (bytes, b"\x00\xff", "AP8="),
    (tuple[int, str], (1, "a"), '[1,"a"]'),
    (tuple[int, ...], (1, 2), [1, 2]),
    (list[list[int]], [[1], []], [[1], []]),
    (Part | None, None, None),
    (list[Part], [Part("a")], '[{"name":"a","colour":"r"}]'),
    (dict[int, Part], {10: Part("a"), 9: Part("b")}, None),
    (dict[date, int], {date(2026, 1, 1): 1}, '{"2026-01-01":1}'),
    (frozenset[Part], frozenset({Part("b"), Part("a")}), None),
    (Point, Point(1, Decimal("2.0")), '[1,"2.0"]'),
    (str, "ü漢😀\x00", "ü漢😀\x00"),
    (float, -0.0, -0.0),
]  # fmt: skip


@pytest.mark.parametrize("upcast", [False, True])
def test_fields_of_every_kind_come_back_as_they_were_and_stand_in_columns(upcast):
    for hint, value, column in HELD:
        put, was = of_value(hint, upcast=upcast)
        app, things = built(rules(put, was))
        things.of(was).select("aggregate", "value").to("seen")
        driver = Driver(app)
        row = things.command(put(value), to="x", id="1")
        driver.send("asked", {**row, "data": json.loads(row["data"])})
        driver.batch()
        assert replies(driver) == [("accepted", None)], hint
        data = json.dumps(driver.outputs["happened"][0]["value"]["data"]).encode()
        assert Kind(was).made(data) == was(value)
        [seen] = driver.outputs["seen"]
        assert column is None or seen["value"]["value"] == column, hint


@pytest.mark.parametrize(
    ("hint", "value", "fact"),
    [
        (int, 2**63, "Could not convert"),
        (Decimal, Decimal("0.1234567891"), "0.1234567891 is no DECIMAL(38, 9)"),
        (Decimal, Decimal("1E-12"), "1E-12 is no DECIMAL(38, 9)"),
        (Decimal, Decimal("1E+50"), "Could not convert"),
    ],
)
def test_what_a_column_cannot_hold_is_a_dead_letter_and_never_null(hint, value, fact):
    put, was = of_value(hint)
    app, things = built(rules(put, was))
    things.of(was).select("aggregate", "value").to("seen")
    driver = Driver(app)
    row = things.command(put(value), to="x", id="1")
    driver.send("asked", {**row, "data": json.loads(row["data"])})
    driver.batch()
    assert len(driver.outputs["happened"]) == 1
    assert driver.outputs["seen"] == []
    assert fact in driver.outputs["dead"][0]["value"]["cause"]


def test_columns_of_old_events_that_lack_a_field_have_its_default():
    @dataclass(frozen=True)
    class Was:
        n: int
        unit: str = "cm"
        tags: list[str] = field(default_factory=lambda: ["new"])

    app = rr.App("edges-old")
    app.events("happened", rules(Do, Was)).of(Was).select("n", "unit", "tags").to("seen")
    driver = Driver(app)
    event = {"aggregate": "x", "version": 1, "type": "Was", "schema_version": 1, "data": {"n": 1},
             "at": "2026-01-01T00:00:00Z", "command": "c"}  # fmt: skip
    driver.send("happened", event)
    driver.batch()
    assert driver.outputs["seen"][0]["value"] == {"n": 1, "unit": "cm", "tags": ["new"]}


@pytest.mark.parametrize("hint", [float, float | None, list[float], Any, dict[str, Any]])
def test_what_is_no_number_is_refused_and_not_written_as_null(hint):
    put, _ = of_value(hint)
    for value in (math.nan, math.inf):
        whole = {list[float]: [value], dict[str, Any]: {"a": value}}.get(hint, value)
        with pytest.raises(ValueError, match="no number that JSON can hold"):
            encoded(put(whole))


def test_classes_travel_to_workers_whatever_their_fields_are():
    @dataclass(frozen=True)
    class Was:
        colour: Colour
        point: Point
        part: Part

    _, things = built(rules(Do, Was, ("colour", Colour, Colour.RED)))
    step = things.node.does
    for kind in (Was, step.rules.state):
        Kind(kind).made(
            encoded(Was(Colour.RED, Point(1, Decimal(1)), Part("a"))) if kind is Was else b"{}"
        )
    step.owned()
    for each in (Colour, Point, Part):
        assert "__msgspec_cache__" not in vars(each)
    assert cloudpickle.dumps(step)


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        (("v", list[int], ()), "another one when it is written and read"),
        (("v", int, None), "another one when it is written and read"),
        (("v", float, math.nan), "another one when it is written and read"),
        (("v", dict[tuple[int, int], int], field(default_factory=dict)), "cannot be written"),
        (("v", int, field(default=1, init=False)), "cannot be written"),
    ],
)
def test_states_that_cannot_be_kept_are_refused_when_the_program_is_built(given, fact):
    with pytest.raises(ProgramError, match=fact):
        built(rules(Do, Did, given))


def test_names_that_columns_cannot_tell_apart_are_refused_as_columns_alone():
    nothing = make_dataclass("Do", [], frozen=True)
    for names in (["a", "A"], ["At"]):
        event = make_dataclass("Was", [(name, int, 1) for name in names], frozen=True)
        app, things = built(rules(nothing, event))
        with pytest.raises(ProgramError):
            things.of(event)
        things.events.select("data").to("seen")
        driver = Driver(app)
        driver.send("asked", {"aggregate": "x", "type": "Do"})
        driver.batch()
        data = driver.outputs["seen"][0]["value"]["data"]
        assert json.loads(data) == dict.fromkeys(names, 1)


def test_a_program_that_goes_back_behind_an_upcaster_stops_until_one_leads_back():
    to_2 = {"to_2": staticmethod(rr.upcast(to=2)(lambda fields: {"count": fields["n"]}))}
    to_3 = {"to_3": staticmethod(rr.upcast(to=3)(lambda fields: {"n": fields["count"]}))}

    def program(name, upcasters):
        put = make_dataclass("Do", [(name, int)], frozen=True)
        was = make_dataclass("Was", [(name, int)], frozen=True, namespace=upcasters)
        return built(rules(put, was))[0]

    driver = Driver(program("n", {}))
    driver.send("asked", {"aggregate": "x", "type": "Do", "data": {"n": 1}})
    driver.batch()
    driver.restart(program("count", to_2))
    driver.send("asked", {"aggregate": "x", "type": "Do", "data": {"count": 2}})
    driver.batch()
    driver.restart(program("n", {}))
    with pytest.raises(JobError, match="Was is of version 2, the program's of 1"):
        driver.batch()
    driver.restart(program("n", {**to_2, **to_3}))
    driver.send("asked", {"aggregate": "x", "type": "Do", "data": {"n": 3}})
    assert [each["value"]["version"] for each in driver.batch().of("happened")] == [3]


def test_unknown_fields_are_refused_within_fields_too():
    put, was = of_value(list[Part])
    app, _ = built(rules(put, was))
    driver = Driver(app)
    part = {"name": "a", "color": "r"}
    driver.send("asked", {"aggregate": "x", "type": "Put", "data": {"value": [part]}})
    driver.batch()
    [(outcome, reason)] = replies(driver)
    assert outcome == "failed"
    assert "Part has no field 'color'" in reason


@dataclass(frozen=True)
class Odd:
    n: int = 0

    def decide(self, command: Do):
        match command.what:
            case "exit":
                sys.exit(3)
            case "half":
                raise ValueError("\ud800")
            case "refused half":
                return rr.Rejected("\ud800")
            case "refused":
                return rr.Rejected(5)
            case "many":
                return (Did(n) for n in range(10_000))
            case "evolve":
                return Did(-1)
        return Did(1)

    def evolve(self, event: Did) -> Odd:
        if event.n < 0:
            sys.exit(4)
        return Odd(self.n + event.n)


def test_whatever_decide_and_evolve_do_the_aggregate_goes_on():
    driver = Driver(built(Odd)[0])
    words = ("exit", "half", "refused half", "refused", "evolve", "many", "")
    driver.send("asked", *map(asked, words))
    driver.batch()
    assert [each[0] for each in replies(driver)] == [
        "failed", "failed", "rejected", "rejected", "failed", "accepted", "accepted",
    ]  # fmt: skip
    assert replies(driver)[0][1].startswith("SystemExit: 3 (test_sourcing_edges.py:")
    assert [each[1] for each in replies(driver)[2:4]] == ["\\ud800", "5"]
    many = driver.outputs["asked.replies"][5]["value"]
    assert [each["data"]["n"] for each in many["events"]] == list(range(10_000))
    assert [each["version"] for each in many["events"]] == list(range(1, 10_001))
    assert len(driver.outputs["happened"]) == 10_001


def test_an_empty_name_is_none():
    driver = Driver(built(Odd)[0])
    driver.send("asked", asked(to=""))
    driver.batch()
    assert driver.outputs["happened"] == []
    assert driver.outputs["dead"][0]["value"]["cause"] == "the command names no aggregate"


def test_a_state_need_not_be_comparable():
    @dataclass(frozen=True, eq=False)
    class Quiet(Odd):
        pass

    driver = Driver(built(Quiet)[0])
    driver.send("asked", asked())
    driver.batch()
    assert replies(driver) == [("failed", "TypeError: evolve gave Odd(n=1), not Quiet")]


@pytest.mark.parametrize(
    ("event", "fact"),
    [
        ({"aggregate": "x", "note": "not ours"}, "no event"),
        ({"aggregate": "x", "version": 1, "type": "Did", "schema_version": 1, "data": {"n": "1"}},
         "cannot be made of an event that has happened"),
    ],
)  # fmt: skip
def test_history_that_is_none_stops_the_job_and_says_where(event, fact):
    driver = Driver(built(Odd)[0])
    driver.send("happened", {"at": "2026-01-01T00:00:00Z", "command": "c", **event})
    with pytest.raises(JobError, match=fact):
        driver.batch()


def test_a_history_is_read_though_its_topic_is_paused():
    first = Driver(built(Odd)[0])
    first.send("asked", asked(id="1"), asked(id="2"))
    first.batch()
    anew = Driver(built(Odd)[0])
    anew.topics = first.topics
    anew.control("pause", "happened")
    anew.send("asked", asked(id="3"))
    anew.batch()
    assert [each["value"]["version"] for each in anew.outputs["happened"]] == [3]


def test_rules_that_change_while_a_history_is_read_begin_with_all_of_it():
    zero, one = Partition("happened", 0), Partition("happened", 1)
    waiting = Partition("asked", 0)
    starts, ends = {zero: 0, one: 0}, {zero: 2, one: 50, waiting: 9}
    at, targets, versions = {**starts, waiting: 0}, {}, {}
    read = []
    for version in ("a", "a", "b", "b", "b", "b", "b", "b"):
        histories = Histories.after(versions, {"happened": version}, ())
        begin = histories.begin(at, lambda _: starts)
        found = admit(
            begin, histories.ends(begin, ends, targets), 12,
            first={"asked": {"happened"}}, targets=histories.targets(targets),
            course=Course(),
        )  # fmt: skip
        at, targets, versions = found.ends, found.targets, histories.versions
        read.append((version, *(at[each] - begin[each] for each in (zero, one, waiting))))
    of_second = [each[1:] for each in read if each[0] == "b"]
    assert [sum(column) for column in zip(*of_second, strict=True)] == [2, 50, 9]
    last = max(number for number, each in enumerate(of_second) if each[1])
    assert not any(each[2] for each in of_second[:last])  # no command before the last event
