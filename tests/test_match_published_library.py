"""What the documentation of Flink's library of event patterns shows, drawn anew.

It gives every match unless it is told where to go on; here that is said: `after="every match"`.
"""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.testing import Driver


def letters(pattern, text, **options):
    """Matches in every way, each as the names of its rows."""
    app = rr.App("published")
    stream = app.stream("rows", schema="k string, name string, at timestamp", time="at")
    told = {"path": "string_agg(name, ' ')"}
    stream.match(pattern.within("1 hour"), by="k", measures=told, **options).to("out")
    driver = Driver(app)
    rows = [f"12:{n:02d} | x | {name}" for n, name in enumerate(text.split())]
    driver.run(rows="\n".join(["at | k | name", *rows]))
    driver.end()
    return sorted(line["value"]["path"] for line in driver.outputs["out"])


A, B, C = (f"name LIKE '{letter}%'" for letter in "abc")


@pytest.mark.parametrize(
    ("loop", "matches"),
    [
        ("consecutive", ["a b1 c", "a b2 c", "a b3 c"]),
        (None, ["a b1 b2 b3 c", "a b1 b2 c", "a b1 c", "a b2 b3 c", "a b2 c", "a b3 c"]),
        (
            "combinations",
            ["a b1 b2 b3 c", "a b1 b2 c", "a b1 b3 c", "a b1 c", "a b2 b3 c", "a b2 c", "a b3 c"],
        ),
    ],
)
def test_flink_library_contiguity_within_what_is_repeated(loop, matches):
    pattern = rr.pattern().begin("a", A).followed_by_any("b", B).one_or_more()
    pattern = (getattr(pattern, loop)() if loop else pattern).followed_by("c", C)
    assert letters(pattern, "a b1 d1 b2 d2 b3 c") == matches


@pytest.mark.parametrize(
    ("loop", "matches"),
    [
        ("consecutive", ["c a1 a2 a3 b", "c a1 a2 b", "c a1 b"]),
        (None, ["c a1 a2 a3 a4 b", "c a1 a2 a3 b", "c a1 a2 b", "c a1 b"]),
        (
            "combinations",
            [
                "c a1 a2 a3 a4 b", "c a1 a2 a3 b", "c a1 a2 a4 b", "c a1 a2 b",
                "c a1 a3 a4 b", "c a1 a3 b", "c a1 a4 b", "c a1 b",
            ],
        ),
    ],
)  # fmt: skip
def test_flink_library_what_is_repeated_begins_with_the_first_that_fits(loop, matches):
    pattern = rr.pattern().begin("c", C).followed_by("a", A).one_or_more()
    pattern = (getattr(pattern, loop)() if loop else pattern).followed_by("b", B)
    assert letters(pattern, "c d a1 a2 a3 d a4 b", after="every match") == matches


@pytest.mark.parametrize(
    ("after", "matches"),
    [
        ("every match", ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        ("to next row", ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        ("past last row", ["b1 b2 b3 c"]),
    ],
)
def test_flink_library_where_to_go_on_after_a_match(after, matches):
    pattern = rr.pattern().begin("b", B).one_or_more().consecutive().greedy().next("c", C)
    assert letters(pattern, "b1 b2 b3 c", after=after) == matches
