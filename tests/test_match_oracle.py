"""Patterns at random over streams at random, cut and restarted at random, against brute force."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import riverrun as rr
from brute_force import BruteForce, Seen, may_be_empty, names_of, text_of
from riverrun.testing import Driver
from thorough import examples

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = "k string, id bigint, v bigint, w bigint, at timestamp"
NAMES = ("a", "b", "c")
LATENESS = 4
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""No shrinking: programs are small, and take a while to build."""
SKIPS = {
    ("past",): "SKIP PAST LAST ROW",
    ("next",): "SKIP TO NEXT ROW",
    ("first", "b"): "SKIP TO FIRST b",
    ("last", "b"): "SKIP TO LAST b",
    ("last", "u"): "SKIP TO u",
}


def both(left, right):
    return False if left is False or right is False else None if None in (left, right) else True


def compared(left, right, holds):
    return None if left is None or right is None else holds(left, right)


def less(left, right):
    return compared(left, right, lambda x, y: x < y)


def same(left, right):
    return compared(left, right, lambda x, y: x == y)


def either(left, right):
    return True if left is True or right is True else None if None in (left, right) else False


def no(value):
    return None if value is None else not value


def sum_of(values):
    return sum(values) if values else None


def mean(values):
    return sum(values) / len(values) if values else None


OWN = {
    "v > 1": lambda s: less(1, s.last(None, "v")),
    "v < 2": lambda s: less(s.last(None, "v"), 2),
    "w IS NOT NULL": lambda s: s.last(None, "w") is not None,
    "v = w": lambda s: same(s.last(None, "v"), s.last(None, "w")),
    "v % 2 = 0 OR w = 1": lambda s: either(s.last(None, "v") % 2 == 0, same(s.last(None, "w"), 1)),
}
NEAR = {
    "v > PREV(v)": lambda s: less(s.last(None, "v", 0, -1), s.last(None, "v")),
    "PREV(v, 2) IS NULL": lambda s: s.last(None, "v", 0, -2) is None,
    "v <= NEXT(v)": lambda s: no(less(s.last(None, "v", 0, 1), s.last(None, "v"))),
}
DEPENDENT = {
    "v > LAST(a.v)": lambda s: less(s.last("a", "v"), s.last(None, "v")),
    "v > LAST(b.v, 1)": lambda s: less(s.last("b", "v", 1), s.last(None, "v")),
    "NOT (v = FIRST(v))": lambda s: no(same(s.last(None, "v"), s.first(None, "v"))),
    "SUM(a.v) < 4 AND v < 3": lambda s: both(
        less(sum_of(s.values("a", "v")), 4), s.last(None, "v") < 3
    ),
    "AVG(u.v) >= 1": lambda s: compared(mean(s.values("u", "v")), 1, lambda x, y: x >= y),
    "COUNT(*) < 4": lambda s: len(s.numbers(None)) < 4,
    "COUNT(w) + COUNT(c.*) <= 2": lambda s: len(s.values(None, "w")) + len(s.numbers("c")) <= 2,
    "coalesce(LAST(b.w), 1) <= v": lambda s: (
        (1 if s.last("b", "w") is None else s.last("b", "w")) <= s.last(None, "v")
    ),
    "v IN (LAST(a.w), 1)": lambda s: either(
        same(s.last(None, "v"), s.last("a", "w")), same(s.last(None, "v"), 1)
    ),
    "w IS NULL OR MIN(u.v) < w": lambda s: either(
        s.last(None, "w") is None, less(min(s.values("u", "v"), default=None), s.last(None, "w"))
    ),
    "at - FIRST(at) < INTERVAL '4 seconds'": lambda s: s.last(None, "at") - s.first(None, "at") < 4,
    "v >= PREV(LAST(a.v), 1)": lambda s: no(less(s.last(None, "v"), s.last("a", "v", 0, -1))),
}  # fmt: skip
MEASURES = {
    "list(CLASSIFIER())": lambda s, f: [of for _, of, _ in (s.whole if f else s.path)],
    "list(id)": lambda s, f: [s.rows[n]["id"] for n in s.numbers(None, final=f)],
    "a.v": lambda s, f: s.last("a", "v", final=f),
    "FIRST(b.id, 1)": lambda s, f: s.first("b", "id", 1, final=f),
    "LAST(u.v, 1) + 1": lambda s, f: (
        None if s.last("u", "v", 1, final=f) is None else s.last("u", "v", 1, final=f) + 1
    ),
    "SUM(u.w)": lambda s, f: sum_of(s.values("u", "w", final=f)),
    "FINAL COUNT(a.*)": lambda s, f: len(s.numbers("a", final=True)),
    "RUNNING LAST(v)": lambda s, f: s.last(None, "v"),
    "PREV(FIRST(id))": lambda s, f: s.first(None, "id", 0, -1, final=f),
    "NEXT(id)": lambda s, f: s.last(None, "id", 0, 1, final=f),
    "CLASSIFIER(u)": lambda s, f: (
        [of for _, of, _ in (s.whole if f else s.path) if of in s.subsets["u"]] or [None]
    )[-1],
}  # fmt: skip


def joined(parts):
    return f"({parts[0]}) AND ({parts[1]})"


rows_of = st.sampled_from([("row", name) for name in NAMES])


def grown(parts):
    repeated = st.tuples(
        parts,
        st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (1, 2), (2, None), (0, 2)]),
        st.booleans(),
    ).map(lambda each: ("times", each[0], *each[1], each[2]))
    several = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(
        repeated,
        several.map(lambda each: ("all", *each)),
        several.map(lambda each: ("all", *each)),
        several.map(lambda each: ("any", *each)),
        st.lists(parts, min_size=2, max_size=2).map(lambda each: ("orders", *each)),
        parts.map(lambda each: ("hide", each)),
    )


patterns = st.recursive(rows_of, grown, max_leaves=6)
conditions = st.one_of(
    st.none(), st.sampled_from(list(OWN)), st.sampled_from(list(OWN)),
    st.sampled_from(list(NEAR)), st.sampled_from(list(DEPENDENT)),
    st.tuples(st.sampled_from(list(OWN)), st.sampled_from(list(DEPENDENT))).map(joined),
)  # fmt: skip
rows = st.lists(
    st.tuples(
        st.sampled_from("xy"),
        st.integers(0, 3),
        st.sampled_from([None, 0, 1, 2]),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=14,
)  # fmt: skip


def condition_of(text):
    known = {**OWN, **NEAR, **DEPENDENT}
    if text in known:
        return known[text]
    own, dependent = next(
        (one, other) for one in OWN for other in DEPENDENT if text == joined((one, other))
    )
    return lambda seen: both(known[own](seen), known[dependent](seen))


def stream_of(given, seed, behind=LATENESS):
    """Rows in the order in which they come, some seconds `behind` at most; `at` in seconds."""
    dice, at, made = random.Random(seed), 0, []
    for n, (k, v, w, gap) in enumerate(given):
        at += gap
        made.append({"k": k, "id": n, "v": v, "w": w, "at": at})
    arrival = [each["at"] + dice.randint(0, behind) for each in made]
    return [made[n] for n in sorted(range(len(made)), key=lambda n: arrival[n])]


def record(row):
    return {**row, "at": (NOON + timedelta(seconds=row["at"])).isoformat()}


def expected(force, arrived, measures, *, every_row):
    """What leaves, and in which form, as lines of JSON."""
    found = Counter()
    for k in "xy":
        own = [each for each in arrived if each["k"] == k]
        own.sort(key=lambda each: each["at"])  # rows of one time as they came
        for path, _ in force.matches(own):
            points = range(len(path)) if every_row else [len(path) - 1]
            for n in points:
                if every_row and path[n][2]:
                    continue
                seen = Seen(own, path[: n + 1], force.within, force.subsets, path)
                told = {name: MEASURES[name](seen, not every_row) for name in measures}
                row = {"id": own[path[n][0]]["id"]} if every_row else {}
                found[json.dumps({"k": k, **row, "told": list(told.values())}, sort_keys=True)] += 1
    return found


def came_out(driver, measures, *, every_row):
    found = Counter()
    for line in driver.outputs["out"]:
        value = line["value"]
        row = {"id": value["id"]} if every_row else {}
        told = [value[f"m{n}"] for n in range(len(measures))]
        found[json.dumps({"k": value["k"], **row, "told": told}, sort_keys=True)] += 1
    return found


def run(text, arrived, *, seed, pages=2, **options):
    app = rr.App("patterns", pages=pages)
    stream = app.stream("t", schema=SCHEMA, time="at", lateness=f"{LATENESS} seconds")
    stream.match(text, name="found", **options).to("out")
    driver, dice = Driver(app), random.Random(seed)
    left = list(arrived)
    while left:
        size = dice.randint(1, 5)
        driver.send("t", *map(record, left[:size]))
        left = left[size:]
        mishap = dice.choice(["", "", "crash", "restart"])
        if mishap:
            getattr(driver, mishap)()
        driver.batch()
    driver.end()
    assert not driver.outputs["dead"], driver.outputs["dead"]
    assert not driver.outputs["found.late"]
    return driver


def text_with(pattern, defines, measures, *, skip, within, every_row):
    names = names_of(pattern)
    clauses = ["PARTITION BY k ORDER BY at"]
    if measures:
        made = ", ".join(f"{text} AS m{n}" for n, text in enumerate(measures))
        clauses.append(f"MEASURES {made}")
    clauses.append("ALL ROWS PER MATCH" if every_row else "ONE ROW PER MATCH")
    clauses.append(f"AFTER MATCH {SKIPS[skip]}")
    clauses.append(f"PATTERN ({text_of(pattern)}) WITHIN INTERVAL '{within}' SECOND")
    clauses.append("SUBSET u = (a, b)")
    conditions = [f"{name} AS {text}" for name, text in defines.items() if name in names and text]
    if conditions:
        clauses.append(f"DEFINE {', '.join(conditions)}")
    return "\n".join(clauses)


@dataclass
class Case:
    """A pattern, what it is to tell, and a stream."""

    pattern: tuple
    defines: dict
    given: list
    measures: list
    skip: tuple
    within: int
    every_row: bool
    over: bool
    """Whether a match is there only when its time is over."""
    most: int
    """Rows of a match."""
    seed: int

    def __post_init__(self):
        if set(names_of(self.pattern)) != set(NAMES):  # measures and conditions name them all
            self.pattern = ("all", self.pattern, ("any", *(("row", name) for name in NAMES)))
        if self.over:
            self.pattern = ("all", self.pattern, ("over",))

    def text(self):
        return text_with(
            self.pattern, self.defines, self.measures, skip=self.skip, within=self.within,
            every_row=self.every_row,
        )  # fmt: skip

    def force(self):
        made = {name: condition_of(each) for name, each in self.defines.items() if each}
        subsets = {"u": {"a", "b"}}
        return BruteForce(self.pattern, made, self.within, self.skip, subsets, self.most)


cases = st.builds(
    Case, patterns, st.fixed_dictionaries(dict.fromkeys(NAMES, conditions)), rows,
    st.lists(st.sampled_from(list(MEASURES)), unique=True, max_size=4),
    st.sampled_from(list(SKIPS)), st.integers(1, 12), st.booleans(),
    st.sampled_from([False, False, False, True]), st.sampled_from([10_000, 10_000, 2, 3]),
    st.integers(0, 10**6),
)  # fmt: skip


@settings(deadline=None, max_examples=examples(60), phases=PHASES)
@given(cases)
def test_patterns_match_what_trying_everything_finds(case):
    arrived = stream_of(case.given, case.seed)
    error, driver = None, None
    try:
        few = {"max_rows": case.most, "on_error": "drop"}
        driver = run(case.text(), arrived, seed=case.seed, pages=1 + case.seed % 3, **few)
    except rr.ProgramError as refused:
        error = str(refused)
    if driver is None:
        assert refused_rightly(error, case.pattern, case.skip), (case.text(), error)
        return
    wanted = expected(case.force(), arrived, case.measures, every_row=case.every_row)
    assert came_out(driver, case.measures, every_row=case.every_row) == wanted, case.text()


def refused_rightly(error, pattern, skip):
    if "matches without any row" in error:
        return may_be_empty(pattern)
    if "found again and again" in error:
        return skip[0] in ("first", "last")
    return "is never reached" in error or "stands here twice" in error
