"""Patterns on arrival: matches are there at once, and stragglers correct them."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver
from test_match_oracle import (
    LATENESS,
    PHASES,
    SCHEMA,
    cases,
    expected,
    record,
    refused_rightly,
    stream_of,
)
from thorough import examples

RISE = """
    PARTITION BY symbol MEASURES a.price AS one, b.price AS other
    PATTERN (a b) WITHIN INTERVAL '1' HOUR DEFINE b AS price > a.price
"""


def matched(text, *, lateness="10 minutes", **options):
    app = rr.App("patterns", pages=2)
    stream = app.stream(
        "ticks", schema="symbol string, price bigint, at timestamp", time="at", lateness=lateness
    )
    found = stream.match(text, name="found", on_arrival=True, **options)
    found.to("out")
    if options.get("timeouts"):
        found.timed_out.to("over")
    return Driver(app)


def test_a_match_is_there_at_once_and_a_straggler_corrects_it():
    driver = matched(RISE)
    driver.run(
        ticks="""
        at    | symbol | price
        12:02 | x      | 5
        -----
        12:04 | x      | 7       # nothing waits for the ten minutes of lateness
    """
    ).assert_is("+- | symbol | one | other | revision\n + | x | 5 | 7 | 0")
    driver.run(
        ticks="""
        at    | symbol | price
        12:03 | x      | 6       # came later, was in between
    """
    ).assert_is("""
        +- | symbol | one | other | revision
        -  | x      | 5   | 7     | 0
        +  | x      | 5   | 6     | 1
    """)


def test_a_straggler_that_ends_a_match_takes_it_back():
    driver = matched(RISE)
    driver.run(ticks="at | symbol | price\n 12:02 | x | 5\n 12:04 | x | 7")
    driver.run(ticks="at | symbol | price\n 12:03 | x | 9").assert_is("""
        +- | symbol | one | other
        -  | x      | 5   | 7
        +  | x      | 5   | 9
    """)
    driver.run(ticks="at | symbol | price\n 12:02:30 | x | 1").assert_is("""
        +- | symbol | one | other
        -  | x      | 5   | 9
        +  | x      | 1   | 9
    """)


def test_stragglers_beyond_the_lateness_are_late_rows():
    driver = matched(RISE)
    driver.run(ticks="at | symbol | price\n 12:02 | x | 5\n 12:30 | x | 7")
    out = driver.run(ticks="at | symbol | price\n 12:10 | x | 6")
    assert not out.of("out")
    out.of("found.late").assert_is("at | symbol | price\n 12:10 | x | 6")


def test_absence_and_partial_matches_are_told_by_the_clock_alone():
    text = """
        PARTITION BY symbol MEASURES a.price AS one
        PATTERN (a b | a TIMEOUT) WITHIN INTERVAL '5' MINUTE
        DEFINE a AS price = 1, b AS price = 2
    """
    driver = matched(text)
    first = driver.run(ticks="at | symbol | price\n 12:00 | x | 1\n 12:08 | x | 3")
    assert not first  # the row of 12:08 is beyond the five minutes; others may still come
    driver.run(ticks="at | symbol | price\n 12:16 | y | 3").assert_is("+- | one\n + | 1")
    partial = matched(RISE.replace("'1' HOUR", "'5' MINUTE"), timeouts=True)
    partial.run(ticks="at | symbol | price\n 12:00 | x | 1\n 12:08 | x | 3")
    assert not partial.outputs["over"]
    partial.run(ticks="at | symbol | price\n 12:16 | y | 3").of("over").assert_is("one\n 1")


def test_all_rows_of_a_match_are_corrected_row_by_row():
    text = """
        PARTITION BY symbol MEASURES COUNT(*) AS n ALL ROWS PER MATCH
        PATTERN (a b+ c) WITHIN INTERVAL '1' HOUR
        DEFINE a AS price = 1, b AS price = 2, c AS price = 3
    """
    driver = matched(text)
    driver.run(ticks="at | symbol | price\n 12:00 | x | 1\n 12:02 | x | 2\n 12:04 | x | 3")
    driver.run(ticks="at | symbol | price\n 12:01 | x | 2").assert_is("""
        +- | at    | price | n
        -  | 12:02 | 2     | 2
        +  | 12:02 | 2     | 3
        -  | 12:04 | 3     | 3
        +  | 12:04 | 3     | 4
        +  | 12:01 | 2     | 2
    """)


def test_what_is_computed_of_matches_is_corrected_too():
    app = rr.App("patterns")
    schema = "symbol string, price bigint, at timestamp"
    stream = app.stream("ticks", schema=schema, time="at", lateness="10 minutes")
    found = stream.match(RISE, on_arrival=True)
    found.group_by("symbol").agg(top=rr.max("other"), n=rr.count()).to("tops")
    driver = Driver(app)
    driver.run(ticks="at | symbol | price\n 12:02 | x | 5\n 12:04 | x | 7")
    driver.run(ticks="at | symbol | price\n 12:03 | x | 6").assert_is("""
        +- | symbol | top | n
        -  | x      | 7   | 1
        +  | x      | 6   | 1
    """)


def test_a_measure_that_fails_is_set_aside_once_its_match_cannot_change():
    other = "CASE WHEN b.price = 7 THEN error('seven') ELSE b.price END AS other"
    text = RISE.replace("b.price AS other", other)
    driver = matched(text)
    rows = "at | symbol | price\n 12:02 | x | 5\n 12:04 | x | 7"
    assert not driver.run(ticks=rows)
    driver.run(ticks="at | symbol | price\n 12:05 | x | 7")
    assert not driver.outputs["dead"]
    driver.end()
    [letter] = driver.outputs["dead"]
    assert "seven" in letter["value"]["cause"]


def test_what_cannot_be_corrected_is_refused():
    numbered = RISE.replace("a.price AS one", "MATCH_NUMBER() AS one")
    with pytest.raises(rr.ProgramError, match="not for on_arrival"):
        matched(numbered, match_numbers="1 day")
    with pytest.raises(rr.ProgramError, match="'event' is taken"):
        matched(RISE.replace("AS one", "AS event"))


def test_crashes_and_restarts_change_nothing():
    story = """
        at    | symbol | price
        12:02 | x      | 5
        12:04 | x      | 7
        -----
        12:03 | x      | 6
        12:02 | y      | 6
        -----
        12:03 | y      | 9
        12:50 | x      | 1
        -----
        12:49 | x      | 0
        15:00 | y      | 0
    """
    assert_mishaps_change_nothing(lambda: matched(RISE), "ticks", story)


class Both:
    """A pattern on arrival, and the same one behind the clock, over one stream."""

    def __init__(self, case):
        app = rr.App("patterns", pages=1 + case.seed % 3)
        stream = app.stream("t", schema=SCHEMA, time="at", lateness=f"{LATENESS} seconds")
        for name, arrival in (("ordinary", False), ("arrival", True)):
            found = stream.match(
                case.text(), name=name, on_arrival=arrival, timeouts=True, max_rows=case.most
            )
            found.to(name)
            found.timed_out.to(f"{name}-over")
        self.case, self.driver, self.dice = case, Driver(app), random.Random(case.seed)
        self.standing, self.rows, self.newest, self.told = {}, [], None, 0

    @property
    def clock(self):
        return -1 if self.newest is None else self.newest - LATENESS

    def send(self, rows):
        in_time = [row for row in rows if row["at"] >= self.clock]
        self.rows += in_time
        self.newest = max(row["at"] for row in [*rows, {"at": self.newest or 0}])
        self.driver.send("t", *map(record, rows))
        mishap = self.dice.choice(["", "", "crash", "restart"])
        if mishap:
            getattr(self.driver, mishap)()
        self.driver.batch()
        self.read()

    def read(self):
        """Applies what was told to the table: what is taken back was there."""
        lines = self.driver.outputs["arrival"]
        for line in lines[self.told :]:
            event, value = line["key"], line["value"]
            if line["op"] == "-":
                assert self.standing.pop(event) == value
            else:
                assert event not in self.standing
                self.standing[event] = value
        self.told = len(lines)

    def lines(self, values):
        found = Counter()
        for value in values:
            row = {"id": value["id"]} if self.case.every_row else {}
            told = [value[f"m{n}"] for n in range(len(self.case.measures))]
            found[json.dumps({"k": value["k"], **row, "told": told}, sort_keys=True)] += 1
        return found

    def expected(self):
        force = self.case.force()
        used = {name: text for name, text in self.case.defines.items() if text}
        force.ahead = any("NEXT" in text for text in [*used.values(), *self.case.measures])
        force.clock = self.clock
        return expected(force, self.rows, self.case.measures, every_row=self.case.every_row)


@settings(deadline=None, max_examples=examples(60), phases=PHASES)
@given(cases)
def test_after_every_batch_the_table_is_that_of_all_rows_so_far_in_the_order_of_their_time(case):
    error, both = "", None
    try:
        both = Both(case)
    except rr.ProgramError as refused:
        error = str(refused)
    if both is None:
        assert refused_rightly(error, case.pattern, case.skip)
        return
    arrived = stream_of(case.given, case.seed, LATENESS + 2)
    while arrived:
        size = both.dice.randint(1, 4)
        both.send(arrived[:size])
        arrived = arrived[size:]
        assert both.lines(both.standing.values()) == both.expected(), case.text()
    both.driver.end()
    both.read()
    outputs = both.driver.outputs
    ordinary = [line["value"] for line in outputs["ordinary"]]
    assert both.lines(both.standing.values()) == both.lines(ordinary), case.text()
    assert sorted(map(str, outputs["arrival-over"])) == sorted(
        str({**line, "output": "arrival-over"}) for line in outputs["ordinary-over"]
    )
    letters = [(each["value"]["step"], each["value"]["offset"]) for each in outputs["dead"]]
    by_step = [sorted(o for step, o in letters if step == name) for name in ("ordinary", "arrival")]
    assert by_step[0] == by_step[1], case.text()
