"""Live rules that are wrong: refused with an error that says where, and the job goes on."""

from __future__ import annotations

import math

import pytest

import riverrun as rr
from riverrun.control import ANSWER, Command
from riverrun.testing import Driver
from riverrun.told import told
from ruling import PATTERN, add, answers, found, pay, program, refusal


@pytest.fixture
def driver():
    return Driver(program())


def test_a_rule_that_is_not_there_cannot_be_removed(driver):
    add(driver, "large")
    driver.control("remove rule", "fraud", name="larger")
    driver.batch()
    refused = answers(driver)[-1]["refused"]
    assert (refused["fact"], refused["hint"]) == ("there is no rule 'larger'", "there are: large")


def test_one_rule_that_is_wrong_leaves_the_others_in_effect(driver):
    add(driver, "large")
    driver.control("rule", "fraud", name="large", template="spree", parameters={"small": 1})
    pay(driver, 0.5, 0.2, 900, 5)
    driver.batch()
    assert found(driver) == [("large", 1, 900.0)]
    refused = answers(driver)[1]["refused"]
    assert refused["fact"] == "the parameter $large has no value"
    assert refused["where"] == "the rule 'large', line 4, column 56 of the pattern"


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ({"name": "a b", "pattern": PATTERN}, "a rule's name has letters, digits, _ . and -"),
        ({"name": "a"}, "a rule has either a pattern or a template"),
        ({"name": "a", "pattern": PATTERN, "patern": ""}, "a rule has no 'patern'"),
        ({"name": "a", "template": "x"}, "the program has no template 'x'"),
        ({"name": "a", "pattern": 7}, "a pattern is text"),
        ({"name": "a", "pattern": "PATTERN (a)"}, "the pattern has no WITHIN"),
        ({"name": "a", "pattern": PATTERN, "parameters": [1]}, "parameters are names with values"),
        (
            {"name": "a", "pattern": PATTERN, "parameters": {"x": None}},
            "the parameter 'x' cannot be used",
        ),
        ({"name": "a", "pattern": PATTERN, "parameters": {"x": 1}}, "the pattern has no param"),
        (
            {"name": "a", "pattern": PATTERN.replace("'1' MINUTE", "'2' HOUR")},
            "a match takes at most 1 hour here",
        ),
        (
            {"name": "a", "pattern": f"PARTITION BY country {PATTERN}"},
            "the rows are matched by card",
        ),
        (
            {"name": "a", "pattern": f"MEASURES a.at AS at {PATTERN}"},
            "the program has no measure 'at'",
        ),
        (
            {"name": "a", "pattern": f"MEASURES a.country AS amount {PATTERN}"},
            "the measure 'amount' is DOUBLE, not VARCHAR",
        ),
        (
            {"name": "a", "pattern": f"ALL ROWS PER MATCH {PATTERN}"},
            "a rule gives one row per match",
        ),
        (
            {"name": "a", "pattern": f"{PATTERN} DEFINE a AS amount > $1"},
            "a parameter has a name",
        ),
        ({"name": "a", "pattern": f"ORDER BY amount {PATTERN}"}, "rows are matched in the order"),
        ({"name": "a", "pattern": f"MEASURES MATCH_NUMBER() AS amount {PATTERN}"}, "a rule has no"),
        ({"name": "a", "template": ["spree"]}, "the program has no template ['spree']"),
        ({"name": "a", "template": {"spree": 1}}, "the program has no template {'spree': 1}"),
        ({"name": "a" * 256, "pattern": PATTERN}, "a rule's name has letters"),
        ({"name": "a", "pattern": PATTERN, "parameters": 0}, "parameters are names with values"),
        ({"name": "a", "pattern": PATTERN, "metadata": ["b"]}, "metadata are names with values"),
        ({"name": "a", "pattern": PATTERN, "metadata": {"b": "\ud800"}}, "a rule is JSON in UTF-8"),
        ({"name": "a", "pattern": PATTERN, "metadata": {"b": math.nan}}, "a rule is JSON in UTF-8"),
        ({"name": "a", "pattern": "-" * 16_385}, "a pattern has at most 16,384 characters"),
        ({"name": "a", "pattern": PATTERN, "metadata": {"b": "x" * 300_000}}, "a rule has at most"),
        ({"name": "a", "pattern": ""}, "there is no PATTERN"),
        (
            {"name": "a", "pattern": "PATTERN (" + "(" * 5_000 + "a" + ")" * 5_000 + ")"},
            "the pattern has no WITHIN",
        ),
        (
            {"name": "a", "pattern": PATTERN.replace("(a)", "(" * 5_000 + "a" + ")" * 5_000)},
            "the rule is nested too deeply",
        ),
        (
            {"name": "a", "pattern": PATTERN.replace("(a)", f"(a{{{'9' * 5_000}}})")},
            "a whole number is expected",
        ),
        (
            {"name": "a", "pattern": PATTERN.replace("'1'", f"'{'9' * 5_000}'")},
            "a duration cannot be read",
        ),
        (
            {"name": "a", "pattern": f"{PATTERN} DEFINE a AS list_contains($x, 1)",
             "parameters": {"x": [[1]]}},
            "the parameter 'x' cannot be used",
        ),
        (
            {"name": "a", "pattern": f"{PATTERN} DEFINE a AS amount > $x AND amount < $X",
             "parameters": {"x": 1, "X": 2}},
            "a parameter cannot have the name 'x'",
        ),
        (
            {"name": "a", "pattern": f"{PATTERN} DEFINE a AS error('no') IS NULL"},
            "an expression cannot be evaluated",
        ),
        (
            {"name": "a", "pattern": f"{PATTERN} DEFINE a AS len(range(1000000000)) > 1"},
            "range() cannot be used here",
        ),
        (
            {"name": "a", "pattern": f"MEASURES len(lpad(a.country, 9, 'x')) AS amount {PATTERN}"},
            "lpad() cannot be used here",
        ),
        (
            {"name": "a", "pattern": f"{PATTERN} DEFINE a AS replace(country, 'a', country) = ''"},
            "replace() puts in a constant here",
        ),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_one_is_refused_with_its_error(driver, body, fact):
    assert refusal(driver, **body)["fact"].startswith(fact)


def place_of(driver, text, **parameters):
    refused = refusal(driver, name="a", pattern=text, parameters=parameters)
    return refused["fact"], refused["where"].rpartition(" of ")[0].partition(", ")[2]


def test_a_parameter_that_cannot_be_a_duration_or_a_number_of_rows_is_refused_at_its_place(driver):
    rows = "PATTERN (a{$n}) WITHIN INTERVAL '1' MINUTE"
    assert place_of(driver, rows, n="3") == (
        "$n stands for a number of rows, not '3'",
        "line 1, column 12",
    )
    assert place_of(driver, rows, n=-1)[0] == "$n stands for a number of rows, not -1"
    assert place_of(driver, rows, n=0) == ("a quantifier allows nothing", "line 1, column 11")
    assert place_of(driver, "PATTERN ($n) WITHIN INTERVAL '1' MINUTE", n=1) == (
        "a parameter is no variable",
        "line 1, column 10",
    )
    time = "PATTERN (a)\nWITHIN INTERVAL $n MINUTE"
    assert place_of(driver, time, n="soon") == (
        "a duration cannot be read: 'soon MINUTE'",
        "line 2, column 8",
    )
    assert place_of(driver, time, n=90) == ("a match takes at most 1 hour here", "line 2, column 1")
    assert place_of(driver, time, n=0) == ("WITHIN needs a time above zero", "line 2, column 8")
    assert place_of(driver, time)[0] == "the parameter $n has no value"


def test_what_was_refused_can_be_shown():
    value = b'{"kind": "rule", "target": "fraud", "name": "a", "metadata": {"b": "\\ud800"}}'
    [known] = told([Command.decoded(0, value)])
    assert (known.name, known.asked["metadata"]) == ("a", {"b": "?"})


def test_answers_that_no_step_wrote_change_nothing(driver):
    for body in ({}, {"to": [1]}, {"to": 9}, {"to": 9, "effective": "x", "version": 1}):
        driver.control(ANSWER, "fraud", **body)
    driver.topics.asked.append(Command.decoded(4, b"[" * 100_000))
    add(driver, "large")
    pay(driver, 0.5, 0.2, 900, 5)
    driver.batch()
    assert found(driver) == [("large", 1, 900.0)]
    assert [each.state for each in told(driver.topics.asked)] == ["in effect"]


def test_a_rule_that_a_changed_program_does_not_understand_ends_and_says_so():
    driver = Driver(program())
    add(driver, "large")
    long = PATTERN.replace("'1'", "'30'")
    driver.control("rule", "fraud", name="long", pattern=long)
    pay(driver, 0.5)
    driver.batch()
    driver.program = program(longest="10 minutes").program()
    driver.restart()
    pay(driver, 0.2, 900, 3, start=1)
    driver.batch()
    driver.batch()
    assert found(driver)[-1] == ("large", 1, 900.0)
    known = {each.name: each for each in told(driver.topics.asked)}
    assert (known["large"].state, known["long"].state) == ("in effect", "ended")
    assert known["long"].refused["fact"] == "a match takes at most 10 minutes here"


def test_a_function_that_raises_is_a_condition_that_does_not_hold_and_a_measure_that_is_a_letter():
    driver = Driver(program())
    condition = f"MEASURES a.amount AS amount {PATTERN} DEFINE a AS fussy(amount) > $x"
    measure = f"MEASURES fussy(a.amount) AS amount {PATTERN} DEFINE a AS amount > 200"
    driver.control("rule", "fraud", name="condition", pattern=condition, parameters={"x": 1})
    driver.control("rule", "fraud", name="measure", pattern=measure)
    pay(driver, 50, 300, 1)
    driver.end()
    assert found(driver) == [("condition", 1, 50.0)]
    [letter] = driver.outputs["dead"]
    assert letter["value"]["cause"].startswith("ValueError: too much")


def test_a_condition_that_fails_on_a_row_does_not_hold_there_and_the_job_goes_on(driver):
    number = "MEASURES a.amount AS amount " + PATTERN + " DEFINE a AS country::INT > $n"
    driver.control("rule", "fraud", name="n", pattern=number, parameters={"n": 0})
    pay(driver, 3, 4)
    driver.send(
        "payments", {"card": "c", "amount": 1, "country": "7", "at": "2026-01-01T12:02:00Z"}
    )
    driver.end()
    assert found(driver) == [("n", 1, 1.0)]
    assert not driver.outputs["dead"]


def test_a_template_that_no_rule_could_use_is_an_error_of_the_program():
    with pytest.raises(rr.ProgramError) as error:
        program(templates={"wrong": "MEASURES a.at AS nothing " + PATTERN})
    assert error.value.fact == "the template 'wrong': the program has no measure 'nothing'"
    with pytest.raises(rr.ProgramError, match="the name 'rule' is taken"):
        program(measures="rule string", templates={})
