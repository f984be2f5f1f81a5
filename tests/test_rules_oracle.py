"""Live rules at random, added, changed and removed at random, against one program for each."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from brute_force import names_of
from riverrun.control import ANSWER, Command
from riverrun.durations import END
from riverrun.testing import Driver
from test_match_oracle import (
    DEPENDENT,
    LATENESS,
    MEASURES,
    NAMES,
    NEAR,
    NOON,
    OWN,
    PHASES,
    SCHEMA,
    SKIPS,
    patterns,
    record,
    rows,
    stream_of,
    text_with,
)
from thorough import examples

TOLD = 3
"""Measures that each rule may have."""
MEASURED = ", ".join(f"m{n} string" for n in range(TOLD))
OPEN = (
    "v > $p", "v >= $q", "v < $q", "v <= $p AND w IS NOT NULL", "v = $p", "w = $q AND v > 0",
    "k = $t", "v BETWEEN $p AND $q", "v % 2 = 0 OR w = $p", "v + $p > LAST(a.v)",
    "list_contains($l, v)", "v / 2 > $r", "$r < v", "v > $p AND v < $r",
    "k = $t AND v > PREV(v) AND v > $r", "SUM(a.v) < $q",
)  # fmt: skip
LITERALS = {int: "({}::BIGINT)", float: "({}::DOUBLE)", str: "'{}'"}


def joined(measures):
    return [f"({text})::VARCHAR" for text in measures]


@dataclass
class Text:
    """A pattern, perhaps with open parameters."""

    pattern: tuple
    defines: dict
    measures: list
    skip: tuple
    within: int
    over: bool
    open_time: bool = False
    """Whether WITHIN has a parameter."""

    def __str__(self):
        pattern = self.pattern
        if set(names_of(pattern)) != set(NAMES):  # measures and conditions name them all
            pattern = ("all", pattern, ("any", *(("row", name) for name in NAMES)))
        if self.over:
            pattern = ("all", pattern, ("over",))
        text = text_with(
            pattern, self.defines, joined(self.measures), skip=self.skip, within=self.within,
            every_row=False,
        )  # fmt: skip
        time = f"INTERVAL '{self.within}' SECOND"
        assert time in text
        return text.replace(time, "INTERVAL $s SECOND") if self.open_time else text


conditions = st.one_of(
    st.none(), st.sampled_from(list(OWN)), st.sampled_from(OPEN), st.sampled_from(OPEN),
    st.sampled_from(OPEN), st.sampled_from(list(NEAR)), st.sampled_from(list(DEPENDENT)),
)  # fmt: skip
texts = st.builds(
    Text, patterns, st.fixed_dictionaries(dict.fromkeys(NAMES, conditions)),
    st.lists(st.sampled_from(list(MEASURES)), unique=True, max_size=TOLD),
    st.sampled_from(list(SKIPS)), st.integers(1, 12), st.sampled_from([False, False, True]),
    st.booleans(),
)  # fmt: skip
values = st.fixed_dictionaries(
    {
        "p": st.integers(0, 3),
        "q": st.integers(0, 3),
        "r": st.sampled_from([0.5, 1.0, 1.5, 2.5]),
        "t": st.sampled_from(["x", "y", "z"]),
        "s": st.sampled_from([1, 4, 9]),
        "l": st.lists(st.integers(0, 3), min_size=1, max_size=3),
    }
)
orders = st.lists(
    st.tuples(
        st.integers(0, 4),  # the batch
        st.sampled_from("abcdefgh"),
        st.sampled_from(["add", "add", "add", "add", "remove"]),
        st.integers(0, 2),  # the text
        values,
    ),
    min_size=1,
    max_size=10,
)


def named_in(text):
    return {name for name in "pqrstl" if f"${name}" in text}


def with_literals(text, parameters):
    """The same for a program that has the values in its text."""

    def literal(found):
        value = parameters[found[1]]
        if isinstance(value, list):
            return f"[{', '.join(map(str, value))}]::BIGINT[]"
        return LITERALS[type(value)].format(value)

    text = text.replace("$s SECOND", f"'{parameters.get('s')}' SECOND")
    return re.sub(r"\$(\w)", literal, text)


@dataclass
class Version:
    text: str
    parameters: dict
    begins: int
    ends: int = END


@dataclass
class History:
    """What the control log says of rules, and what was answered."""

    asked: list[Command]
    versions: dict[tuple[str, int], Version] = field(default_factory=dict)
    refused: list[tuple[str, dict, dict]] = field(default_factory=list)

    def __post_init__(self):
        answers = {c.body["to"]: c.body for c in self.asked if c.kind == ANSWER}
        standing = {}
        for command in (c for c in self.asked if c.kind != ANSWER):
            answer, body = answers[command.offset], command.body
            if "refused" in answer:
                self.refused.append((command.kind, body, answer["refused"]))
                continue
            if before := standing.pop(body["name"], None):
                self.versions[before].ends = answer["effective"]
            if command.kind == "rule":
                place = (body["name"], answer["version"])
                text = TEXTS.get(body.get("template"), body.get("pattern"))
                made = Version(text, body.get("parameters", {}), answer["effective"])
                self.versions[place] = made
                standing[body["name"]] = place


TEXTS: dict[str | None, str] = {}
"""The templates of the program that is tried."""
TOLD_IN: set[str] = set()
"""Its outputs."""


def micros(row):
    return round(NOON.timestamp() * 1e6) + row["at"] * 1_000_000


def stream(app):
    return app.stream("t", schema=SCHEMA, time="at", lateness=f"{LATENESS} seconds")


def alone(version, arrived, most):
    """What a program with nothing but this pattern gives, over the rows that the version sees."""
    app = rr.App("alone", pages=1)
    text = with_literals(version.text, version.parameters)
    options = {"name": "found", "max_rows": most, "on_error": "drop", "timeouts": True}
    found = stream(app).match(text, **options)
    found.to("out")
    found.timed_out.to("partial")
    driver = Driver(app)
    driver.send("t", *(record(r) for r in arrived if version.begins <= micros(r) < version.ends))
    if version.ends < END:
        # exactly so far does time come: one more row, which itself is never reached
        seconds = (version.ends - round(NOON.timestamp() * 1e6)) / 1_000_000
        driver.send("t", record({"k": "?", "id": 0, "v": 0, "w": 0, "at": seconds + LATENESS}))
        driver.batch()
    else:
        driver.batch()
        driver.end()
    return outputs(driver)


def outputs(driver):
    """Matches and partial ones, with the output that they are in."""
    return [(name, line["value"]) for name in TOLD_IN for line in driver.outputs[name]]


def expected(history, arrived, most):
    found = Counter()
    for (name, number), version in history.versions.items():
        if version.ends <= version.begins:
            continue
        for output, value in alone(version, arrived, most):
            told = {f"m{n}": value.get(f"m{n}") for n in range(TOLD)}
            place = [output, name, number, value["k"], told]
            found[json.dumps(place, sort_keys=True)] += 1
    return found


def came_out(driver):
    found = Counter()
    for output, value in outputs(driver):
        told = {f"m{n}": value[f"m{n}"] for n in range(TOLD)}
        place = [output, value["rule"], value["version"], value["k"], told]
        found[json.dumps(place, sort_keys=True)] += 1
    return found


def program(pages, most):
    app = rr.App("rules", pages=pages)
    timeouts = "partial" in TOLD_IN
    found = stream(app).match_rules(
        "found", by="k", measures=MEASURED, templates=TEXTS, max_rows=most, on_error="drop",
        timeouts=timeouts,
    )  # fmt: skip
    found.to("out")
    if timeouts:
        found.timed_out.to("partial")
    return app


def readable(text):
    """Whether a program may have it as a template; a rule may have anything, and be refused."""
    try:
        stream(rr.App("t")).match_rules("r", by="k", measures=MEASURED, templates={"t": text})
    except rr.ProgramError:
        return False
    return True


def ask(driver, order, given):
    _, name, what, number, parameters = order
    if what == "remove":
        driver.control("remove rule", "found", name=name)
        return
    text = str(given[number % len(given)])
    own = {each: parameters[each] for each in named_in(text)}
    template = f"t{number % len(given)}"
    form = {"template": template} if number and template in TEXTS else {"pattern": text}
    driver.control("rule", "found", name=name, **form, parameters=own, metadata={})


def run(given, ordered, arrived, most, seed):
    TOLD_IN.clear()
    TOLD_IN.update(["out", "partial"] if seed % 2 else ["out"])
    TEXTS.clear()
    TEXTS.update({f"t{n}": str(text) for n, text in enumerate(given) if readable(str(text))})
    driver, dice = Driver(program(1 + seed % 3, most)), random.Random(seed)
    left, batch = list(arrived), 0
    while left or batch < 5:
        for order in ordered:
            if order[0] == batch:
                ask(driver, order, given)
        size = dice.randint(0, 5)
        driver.send("t", *map(record, left[:size]))
        left, batch = left[size:], batch + 1
        mishap = dice.choice(["", "", "crash", "restart"])
        if mishap:
            getattr(driver, mishap)()
        driver.batch()
    driver.end()
    assert not driver.outputs["dead"], driver.outputs["dead"]
    assert not driver.outputs["found.late"]
    return driver


@settings(deadline=None, max_examples=examples(25), phases=PHASES)
@given(
    st.lists(texts, min_size=1, max_size=3), orders, rows, st.sampled_from([10_000, 2, 3]),
    st.integers(0, 10**6),
)  # fmt: skip
def test_each_rule_gives_what_a_program_with_its_pattern_gives(given, ordered, drawn, most, seed):
    arrived = stream_of(drawn, seed)
    driver = run(given, ordered, arrived, most, seed)
    history = History(driver.topics.asked)
    wanted = expected(history, arrived, most)
    assert came_out(driver) == wanted, [each.body for each in driver.topics.asked]
    for kind, body, refused in history.refused:
        if kind == "rule":
            refused_rightly(body, refused)
    again = replay_from_the_log(driver, arrived, most)
    assert came_out(again) == wanted


def refused_rightly(body, refused):
    text = TEXTS.get(body.get("template"), body.get("pattern"))
    version = Version(text, body["parameters"], 0)
    with pytest.raises(rr.ProgramError) as error:
        alone(version, [], 10)
    assert error.value.fact == refused["fact"], text


def replay_from_the_log(driver, arrived, most):
    """Starts over with nothing but the topics, in one batch: rules have the times they had."""
    again = Driver(program(2, most))
    again.topics.asked = [replace(each) for each in driver.topics.asked]
    again.send("t", *map(record, arrived))
    again.batch()
    again.end()
    return again
