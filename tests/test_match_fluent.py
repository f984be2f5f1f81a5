"""Patterns in Python, and the three ways in which a row may follow another."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

import riverrun as rr
from riverrun.testing import Driver

LETTERS = "k string, letter string, n bigint, at timestamp"
A, B, C = (f"letter = '{letter}'" for letter in "abc")


def letters(text):
    """Rows a second apart: a1 is the letter a with the number 1."""
    made = [(each[0], int(each[1:] or 0)) for each in text.split()]
    return [
        {"k": "x", "letter": letter, "n": n, "at": f"2026-01-01T12:{at // 60:02d}:{at % 60:02d}Z"}
        for at, (letter, n) in enumerate(made)
    ]


def found(pattern, text, *, cut=100, **options):
    """The matches, each as the letters and numbers of its rows."""
    app = rr.App("patterns", pages=2)
    stream = app.stream("letters", schema=LETTERS, time="at")
    path = {"path": "list(letter || n)"}
    stream.match(pattern, by="k", measures=path, name="found", **options).to("out")
    driver, rows = Driver(app), letters(text)
    for start in range(0, len(rows), cut):
        driver.send("letters", *rows[start : start + cut])
        driver.batch()
    driver.end()
    assert not driver.outputs["dead"]
    return [" ".join(line["value"]["path"]) for line in driver.outputs["out"]]


def within(pattern):
    return pattern.within("1 hour")


@pytest.mark.parametrize(
    ("follows", "matches"),
    [("next", []), ("followed_by", ["a1 b1"]), ("followed_by_any", ["a1 b1", "a1 b2"])],
)
def test_a_row_follows_directly_or_later_or_each_later_one_does(follows, matches):
    pattern = getattr(rr.pattern().begin("a", A), follows)("b", B)
    assert found(within(pattern), "a1 c1 b1 b2") == matches


def test_a_relaxed_part_takes_the_first_row_that_fits_also_if_nothing_comes_of_it():
    pattern = rr.pattern().begin("a", A).followed_by("b", B).next("c", C)
    assert found(within(pattern), "a1 b1 b2 c1") == []
    assert found(within(pattern), "a1 c0 b1 c1") == ["a1 b1 c1"]


def test_what_is_repeated_may_have_rows_in_between_unless_it_is_consecutive():
    pattern = rr.pattern().begin("a", A).times(2).followed_by("b", B)
    assert found(within(pattern), "a1 c1 a2 c2 b1") == ["a1 a2 b1"]
    strict = rr.pattern().begin("a", A).times(2).consecutive().followed_by("b", B)
    assert found(within(strict), "a1 c1 a2 a3 b1") == ["a2 a3 b1"]


def test_greedy_takes_as_many_as_there_are_and_else_few_will_do():
    pattern = rr.pattern().begin("a", A).one_or_more()
    assert found(within(pattern.followed_by("b", B)), "a1 a2 b1") == ["a1 b1"]
    assert found(within(pattern.greedy().followed_by("b", B)), "a1 a2 b1") == ["a1 a2 b1"]
    several = rr.pattern().begin("a", A).times(1, 2).greedy().next("b", B)
    assert found(within(several), "a1 a2 a3 b1 b2") == ["a2 a3 b1"]


def test_an_optional_part_may_be_missing():
    pattern = rr.pattern().begin("a", A).next("b", B).optional().next("c", C)
    assert found(within(pattern), "a1 b1 c1 a2 c2") == ["a1 b1 c1", "a2 c2"]


def test_combinations_are_all_choices_of_the_rows_that_fit():
    pattern = rr.pattern().begin("a", A).times(2).combinations().next("b", B)
    assert found(within(pattern), "a1 a2 a3 b1") == ["a1 a3 b1", "a2 a3 b1"]
    pattern = rr.pattern().begin("c", C).followed_by("a", A).one_or_more().combinations()
    choices = ["c1 a1", "c1 a1 a2", "c1 a1 a2 a3", "c1 a1 a3"]
    assert sorted(found(within(pattern), "c1 a1 b1 a2 a3", cut=2)) == choices


def test_attempts_at_every_match_that_found_none_time_out():
    app = rr.App("patterns")
    stream = app.stream("letters", schema=LETTERS, time="at")
    pattern = rr.pattern().begin("a", A).followed_by_any("b", B).within("3 seconds")
    told = stream.match(pattern, by="k", measures={"n": "a.n"}, timeouts=True)
    told.timed_out.to("over")
    driver = Driver(app)
    for row in letters("a1 b1 a2 c1 c2 c3 c4 a3 b2"):
        driver.send("letters", row)
        driver.batch()
    driver.end()
    assert [line["value"]["n"] for line in driver.outputs["over"]] == [2]


def test_until_ends_what_is_repeated():
    pattern = rr.pattern().begin("a", A).one_or_more().greedy().until("n > 5").followed_by("c", C)
    assert found(within(pattern), "a1 a2 b9 a3 c1") == ["a1 a2 c1"]


def test_a_part_that_must_not_come_between_ends_the_attempt():
    pattern = rr.pattern().begin("a", A).not_followed_by("b", B).followed_by("c", C)
    assert found(within(pattern), "a1 b1 c1 a2 c2") == ["a2 c2"]


def test_absence_at_the_end_is_told_when_the_time_is_over():
    pattern = rr.pattern().begin("a", A).not_followed_by("b", B).within("10 seconds")
    assert found(pattern, "a1 c1 b1 a2 c2") == ["a2"]


def test_conditions_may_look_at_earlier_parts_and_skipped_rows_are_judged_alike():
    pattern = rr.pattern().begin("a", A).followed_by("b", "b.n > a.n").within("1 hour")
    assert found(pattern, "a5 b3 c4 b6 b7") == ["a5 b6"]
    rising = rr.pattern().begin("a", A).one_or_more().greedy()
    rising = rising.followed_by("b", "letter = 'b' AND b.n > SUM(a.n)")
    assert found(within(rising), "a1 a2 b2 b4") == ["a1 a2 b4"]


def test_all_rows_leave_out_those_that_were_passed_over():
    app = rr.App("patterns")
    stream = app.stream("letters", schema=LETTERS, time="at")
    pattern = rr.pattern().begin("a", A).followed_by("b", B).within("1 hour")
    stream.match(pattern, by="k", rows="all", measures={"part": "CLASSIFIER()"}).to("out")
    driver = Driver(app)
    driver.send("letters", *letters("a1 c1 b1"))
    driver.batch()
    driver.end()
    lines = [(each["value"]["n"], each["value"]["part"]) for each in driver.outputs["out"]]
    assert lines == [(1, "a"), (1, "b")]


@pytest.mark.parametrize("seed", range(20))
def test_every_match_is_every_choice_of_rows_however_input_is_cut(seed):
    dice = random.Random(seed)
    text = [f"{dice.choice('aabbc')}{n}" for n in range(9)]
    pattern = rr.pattern().begin("a", A).followed_by_any("b", "letter <> 'c' AND b.n > a.n + 1")
    pattern = pattern.followed_by_any("c", "letter <> 'a'").within(f"{dice.randint(2, 8)} seconds")
    seconds = pattern.duration // 1_000_000
    wanted = [
        " ".join((text[i], text[j], text[k]))
        for i, j, k in combinations(range(9), 3)
        if text[i][0] == "a" and text[j][0] != "c" and text[k][0] != "a"
        and j > i + 1 and k - i <= seconds
    ]  # fmt: skip
    assert sorted(found(pattern, " ".join(text), cut=dice.randint(1, 9))) == sorted(wanted)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: rr.pattern().next("a"), "starts with .begin"),
        (lambda: rr.pattern().begin("a").begin("b"), "one beginning"),
        (lambda: rr.pattern().begin("a").next("a"), "name of its own"),
        (lambda: rr.pattern().begin("a").times(0), "allows nothing"),
        (lambda: rr.pattern().begin("a").until("n > 1"), "for what is repeated"),
        (lambda: rr.pattern().optional(), "no part"),
        (lambda: rr.pattern().begin("a").combinations(), "of what is repeated"),
    ],
)
def test_what_makes_no_sense_is_an_error_at_once(made, message):
    with pytest.raises(rr.ProgramError, match=message):
        made()


def test_a_pattern_is_refused_with_its_place():
    with pytest.raises(rr.ProgramError, match=r"no \.within"):
        found(rr.pattern().begin("a", A), "a1")
    with pytest.raises(rr.ProgramError, match="there is no column 'price'") as error:
        found(within(rr.pattern().begin("a", "price > 1")), "a1")
    assert "a AS price > 1\n            ^" in str(error.value)
    each = within(rr.pattern().begin("a", A).followed_by_any("b", B))
    with pytest.raises(rr.ProgramError, match="for every match"):
        found(each, "a1", after="past last row")
    stream = rr.App("x").stream("t", schema=LETTERS, time="at")
    with pytest.raises(rr.ProgramError, match="says it all itself"):
        stream.match("PATTERN (a)", by="k")
