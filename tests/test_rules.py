"""Live rules: what the control log says of them, from when on they see rows, and what they cost."""

from __future__ import annotations

import json

import pytest

import riverrun as rr
from riverrun.bench import rules as bench
from riverrun.bench.report import Report
from riverrun.control import ANSWER
from riverrun.errors import InputError
from riverrun.rules import read_rules, told
from riverrun.testing import Driver

SPREE = """
    MEASURES LAST(small.at) AS since, large.amount AS amount
    PATTERN (small{2,} large) WITHIN INTERVAL '10' MINUTE
    DEFINE small AS amount < $small, large AS amount > $large
"""
SCHEMA = "card string, amount double, country string, at timestamp"


def program(app=None, **options):
    app = app or rr.App("shop", pages=2)
    stream = app.stream("payments", schema=SCHEMA, time="at")
    given = {"measures": "since timestamp, amount double", "templates": {"spree": SPREE}}
    stream.match_rules("fraud", by="card", **{**given, **options}).to("out")
    return app


@pytest.fixture
def driver():
    return Driver(program())


def add(driver, name, small=1, large=500, **more):
    parameters = {"small": small, "large": large}
    driver.control("rule", "fraud", name=name, template="spree", parameters=parameters, **more)


def pay(driver, *amounts, start=0, card="c1"):
    for n, amount in enumerate(amounts, start):
        at = f"2026-01-01T12:{n:02d}:00Z"
        driver.send("payments", {"card": card, "amount": amount, "country": "NL", "at": at})


def found(driver):
    names = ("rule", "version", "amount")
    return [tuple(line["value"][name] for name in names) for line in driver.outputs["out"]]


def answers(driver):
    return [each.body for each in driver.topics.asked if each.kind == ANSWER]


def refusal(driver, **body):
    """What is answered to a rule that is wrong."""
    driver.control("rule", "fraud", **body)
    driver.batch()
    answer = answers(driver)[-1]
    assert "refused" in answer, answer
    return answer["refused"]


def test_rows_tell_their_rule_its_version_and_its_metadata(driver):
    add(driver, "large", metadata={"owner": "risk", "level": 3})
    pay(driver, 0.5, 0.2, 900, 7)
    out = driver.batch()
    [line] = [line["value"] for line in out]
    assert line == {
        "card": "c1",
        "rule": "large",
        "version": 1,
        "metadata": '{"owner": "risk", "level": 3}',
        "since": "2026-01-01T12:01:00Z",
        "amount": 900.0,
    }


def test_each_of_many_thresholds_finds_its_own(driver):
    for n in range(200):
        add(driver, f"r{n}", large=n * 10)
    pay(driver, 0.5, 0.2, 905, 7)
    driver.batch()
    assert {name for name, _, _ in found(driver)} == {f"r{n}" for n in range(91)}


def test_a_rule_sees_rows_from_the_clock_on_not_those_before(driver):
    pay(driver, 0.5, 0.2, 0.1)  # the clock is at 12:02
    driver.batch()
    add(driver, "large")
    pay(driver, 900, start=3)
    driver.end()
    assert found(driver) == []
    assert answers(driver)[0]["effective"] == 1_767_268_920_000_000


def test_a_change_is_a_new_version_that_starts_empty_and_ends_what_the_old_one_had_begun(driver):
    add(driver, "large")
    pay(driver, 0.5, 0.2, 0.9)
    driver.batch()
    add(driver, "large", large=700)
    pay(driver, 900, 0.1, 0.1, 800, 9, start=3)
    driver.end()
    assert found(driver) == [("large", 2, 800.0)]


def test_a_rule_that_is_removed_finds_nothing_more_and_may_come_again(driver):
    add(driver, "large")
    pay(driver, 0.5, 0.2, 900, 5)
    driver.batch()
    driver.control("remove rule", "fraud", name="large")
    pay(driver, 0.5, 0.2, 900, 5, start=4)
    driver.batch()
    add(driver, "large")
    pay(driver, 0.5, 0.2, 900, 5, start=8)
    driver.end()
    assert found(driver) == [("large", 1, 900.0), ("large", 2, 900.0)]


def test_a_rule_that_is_not_there_cannot_be_removed(driver):
    add(driver, "large")
    driver.control("remove rule", "fraud", name="larger")
    driver.batch()
    refused = answers(driver)[-1]["refused"]
    assert (refused["fact"], refused["hint"]) == ("there is no rule 'larger'", "there are: large")


def test_absence_is_told_by_the_clock_when_input_is_quiet():
    driver = Driver(program())
    quiet = "MEASURES a.at AS since PATTERN (a TIMEOUT) WITHIN INTERVAL '5' MINUTE"
    driver.control("rule", "fraud", name="quiet", pattern=quiet)
    pay(driver, 3)
    assert not driver.batch()
    [line] = driver.pass_time("10 minutes")
    assert line["value"]["since"] == "2026-01-01T12:00:00Z"


def test_one_rule_that_is_wrong_leaves_the_others_in_effect(driver):
    add(driver, "large")
    driver.control("rule", "fraud", name="large", template="spree", parameters={"small": 1})
    pay(driver, 0.5, 0.2, 900, 5)
    driver.batch()
    assert found(driver) == [("large", 1, 900.0)]
    refused = answers(driver)[1]["refused"]
    assert refused["fact"] == "the parameter $large has no value"
    assert refused["where"] == "the rule 'large', line 4, column 56 of the pattern"


PATTERN = "PATTERN (a) WITHIN INTERVAL '1' MINUTE"


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
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_one_is_refused_with_its_error(driver, body, fact):
    assert refusal(driver, **body)["fact"].startswith(fact)


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


def test_a_template_that_changes_is_for_rules_that_come_after():
    driver = Driver(program())
    add(driver, "large")
    pay(driver, 0.5)
    driver.batch()
    driver.program = program(templates={"spree": SPREE.replace("{2,}", "{5,}")}).program()
    driver.restart()
    pay(driver, 0.2, 900, 3, start=1)
    driver.batch()
    assert found(driver) == [("large", 1, 900.0)]


def test_commands_and_answers_are_told_in_their_order(driver):
    add(driver, "large")
    add(driver, "wrong", small="x")
    driver.batch()
    add(driver, "larger", large=900)
    known = list(told(driver.topics.asked))
    assert [(each.name, each.state) for each in known] == [
        ("large", "in effect"),
        ("wrong", "refused"),
        ("larger", "not answered"),
    ]
    assert (known[0].version, known[0].effective) == (1, "the beginning")
    assert "RR103" in str(known[1].error)


def test_files_of_rules_are_toml_or_json(tmp_path):
    rule = {"name": "a", "template": "spree", "parameters": {"small": 1}}
    (tmp_path / "one.json").write_text(json.dumps(rule))
    (tmp_path / "two.json").write_text(json.dumps([rule, rule]))
    (tmp_path / "a.toml").write_text(
        '[[rule]]\nname = "a"\ntemplate = "spree"\nparameters = {small = 1}'
    )
    (tmp_path / "bad.toml").write_text("name = 7-")
    assert read_rules(tmp_path / "one.json") == read_rules(tmp_path / "a.toml") == [rule]
    assert read_rules(tmp_path / "two.json") == [rule, rule]
    with pytest.raises(InputError, match="the file of rules cannot be read"):
        read_rules(tmp_path / "bad.toml")


def test_a_thousand_rules_are_measured_next_to_one():
    report = Report()
    bench.measure(report, 4_000, 1_000)
    assert report.figures["kernel, 1,000 live rules: matches"] > 0
    assert [each.name for each in report.targets] == ["1,000 live rules: events/s of one"]


def test_rules_are_tried_on_files_and_one_that_is_wrong_is_an_error(tmp_path, riverrun):
    (tmp_path / "app.py").write_text(TRIED)
    (tmp_path / "rows.jsonl").write_text('{"k": 1, "v": 5, "at": "2026-01-01T12:00:00Z"}\n')
    rule = {"name": "r", "pattern": f"MEASURES a.v AS v {PATTERN} DEFINE a AS v > $n"}
    file = tmp_path / "rule.json"
    file.write_text(json.dumps({**rule, "parameters": {"n": 4}}))
    tried = ("try", str(tmp_path / "app.py"), "--input", f"rows={tmp_path / 'rows.jsonl'}")
    outcome = riverrun(*tried, "--rules", str(file), "--json")
    assert json.loads(outcome.out)["value"]["rule"] == "r", outcome.err
    file.write_text(json.dumps(rule))
    outcome = riverrun(*tried, "--rules", f"found={file}")
    assert outcome.err.startswith("error: the parameter $n has no value [RR103]")
    outcome = riverrun(*tried, "--rules", f"lost={file}")
    assert "rules are given as STEP=FILE" in outcome.err


TRIED = """
import riverrun as rr
app = rr.App("tried")
rows = app.stream("rows", schema="k int, v int, at timestamp", time="at")
rows.match_rules("found", by="k", measures="v int").to("out")
"""


@rr.function("double")
def doubled(value: float):
    return 2 * value


def test_a_rule_calls_functions_that_the_program_sees():
    driver = Driver(program())
    text = f"MEASURES doubled(a.amount) AS amount {PATTERN} DEFINE a AS doubled(amount) > $least"
    driver.control("rule", "fraud", name="twice", pattern=text, parameters={"least": 1000})
    pay(driver, 400, 600, 7)
    driver.end()
    assert found(driver) == [("twice", 1, 1200.0)], answers(driver)


def test_a_key_may_be_called_by_any_name():
    app = rr.App("odd", pages=1)
    stream = app.stream("t", schema='"count" int, "at" int, v int, t timestamp', time="t")
    stream.match_rules("r", by=["count", "at"], measures="v int").to("out")
    driver = Driver(app)
    text = "MEASURES LAST(b.v) AS v PATTERN (a b+) WITHIN INTERVAL '1' MINUTE DEFINE b AS v > $n"
    driver.control("rule", "r", name="a", pattern=text, parameters={"n": 3})
    for second, v in enumerate([1, 4, 1, 5, 6, 1]):
        at = f"2026-01-01T12:00:0{second}Z"
        driver.send("t", {"count": 1, "at": None, "v": v, "t": at})
        driver.batch()
    driver.end()
    assert [line["value"]["v"] for line in driver.outputs["out"]] == [4, 6]
