"""Live rules: what the control log says of them, from when on they see rows, and what they cost."""

from __future__ import annotations

import json

import pytest

import riverrun as rr
from riverrun.bench import rules as bench
from riverrun.bench.report import Report
from riverrun.errors import InputError
from riverrun.operators.rules.rule import Rule, RuleSet
from riverrun.testing import Driver
from riverrun.told import read_file, told
from ruling import PATTERN, SCHEMA, SPREE, add, answers, found, pay, program


@pytest.fixture
def driver():
    return Driver(program())


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


def test_a_rule_that_is_asked_for_again_keeps_its_version_and_what_it_has_begun(driver):
    add(driver, "large")
    pay(driver, 0.5, 0.2, 0.9)
    driver.batch()
    add(driver, "large")
    pay(driver, 900, 9, start=3)
    driver.end()
    assert found(driver) == [("large", 1, 900.0)]
    first, again = answers(driver)
    assert (again["version"], again["effective"]) == (first["version"], first["effective"])
    add(driver, "large", large=500.0)  # a number of another type
    driver.batch()
    assert answers(driver)[-1]["version"] == 2


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


def test_absence_is_told_by_the_clock_when_input_is_quiet():
    driver = Driver(program())
    quiet = "MEASURES a.at AS since PATTERN (a TIMEOUT) WITHIN INTERVAL '5' MINUTE"
    driver.control("rule", "fraud", name="quiet", pattern=quiet)
    pay(driver, 3)
    assert not driver.batch()
    [line] = driver.pass_time("10 minutes")
    assert line["value"]["since"] == "2026-01-01T12:00:00Z"


WINDOW = """
    MEASURES LAST(b.amount) AS amount
    PATTERN (a b{$least,}) WITHIN $window DEFINE b AS amount > $x
"""


def test_parameters_may_say_how_many_rows_there_are_and_how_long_a_match_takes():
    driver = Driver(program(templates={"w": WINDOW}))
    for name, least, window in [("a", 2, "2 minutes"), ("b", 3, "3 minutes"), ("c", 2, "60 s")]:
        given = {"least": least, "window": window, "x": 5}
        driver.control("rule", "fraud", name=name, template="w", parameters=given)
    pay(driver, 1, 6, 7, 1, 6, 7, 8, 1, 1)
    driver.end()
    assert sorted(found(driver)) == [("a", 1, 7.0), ("a", 1, 7.0), ("b", 1, 8.0)]


def test_a_template_may_leave_its_time_and_its_numbers_open():
    text = "PATTERN (a{$least,4} b{3,$most}) WITHIN INTERVAL $n MINUTE"
    assert program(templates={"t": text}).program().steps


def test_partial_matches_of_rules_that_ran_out_of_time_are_an_output():
    app = rr.App("partial", pages=2)
    stream = app.stream("payments", schema=SCHEMA, time="at")
    alerts = stream.match_rules(
        "fraud", by="card", measures="since timestamp, amount double",
        templates={"spree": SPREE}, timeouts=True,
    )  # fmt: skip
    alerts.to("out")
    alerts.timed_out.to("partial")
    text = SPREE.replace("$small", "100").replace("$large", "5000")
    alone = stream.match(f"PARTITION BY card {text}", name="alone", timeouts=True)
    alone.to("out-alone")
    alone.timed_out.to("partial-alone")
    driver = Driver(app)
    add(driver, "few")
    add(driver, "many", small=100, large=5000)
    pay(driver, 0.5, 0.2, 900, 7, 70, 2)
    driver.batch()
    pay(driver, 3, start=7)
    driver.batch()
    driver.pass_time("30 minutes")
    assert found(driver) == [("few", 1, 900.0)]
    partial = [line["value"] for line in driver.outputs["partial"]]
    assert {each["rule"] for each in partial} == {"many"}
    wanted = [line["value"]["since"] for line in driver.outputs["partial-alone"]]
    assert sorted(each["since"] for each in partial) == sorted(wanted)
    assert len(wanted) == 4


def test_only_a_step_that_is_asked_for_it_tells_partial_matches():
    app = rr.App("none", pages=2)
    stream = app.stream("payments", schema=SCHEMA, time="at")
    with pytest.raises(rr.ProgramError, match="this stream has no partial matches"):
        stream.match_rules("fraud", by="card", measures="n int").timed_out.to("partial")


def test_two_steps_with_rules_do_not_hear_of_each_other():
    app = rr.App("both", pages=2)
    stream = app.stream("payments", schema=SCHEMA, time="at")
    for name in ("one", "two"):
        given = {"measures": "since timestamp, amount double", "templates": {"spree": SPREE}}
        stream.match_rules(name, by="card", **given).to(f"out-{name}")
    driver = Driver(app)
    for step, large in (("one", 500), ("two", 5000)):
        given = {"small": 1, "large": large}
        driver.control("rule", step, name="r", template="spree", parameters=given)
    pay(driver, 0.5, 0.2, 900, 5)
    driver.end()
    assert [len(driver.outputs[f"out-{name}"]) for name in ("one", "two")] == [1, 0]


def test_a_rule_that_is_added_changed_back_and_removed_in_one_batch_has_each_version(driver):
    for large in (500, 700, 500):
        add(driver, "large", large=large)
    driver.control("remove rule", "fraud", name="large")
    add(driver, "large", large=600)
    pay(driver, 0.5, 0.2, 650, 5)
    driver.end()
    assert [answer["version"] for answer in answers(driver)] == [1, 2, 3, 3, 4]
    assert found(driver) == [("large", 4, 650.0)]


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


def test_rules_in_state_are_read_back_also_those_of_earlier_checkpoints():
    rules = tuple(Rule(name, SPREE, {"small": 1}, {"b": "ö"}, "spree") for name in "ab")
    kept = RuleSet(rules, {"a": 1, "b": 1})
    assert RuleSet.decoded(kept.encoded()) == kept
    assert kept.encoded().count("PATTERN") == 1
    earlier = json.dumps({"rules": [vars(each) for each in rules], "last": kept.last})
    assert RuleSet.decoded(earlier) == kept


def test_files_of_rules_are_toml_or_json(tmp_path):
    rule = {"name": "a", "template": "spree", "parameters": {"small": 1}}
    (tmp_path / "one.json").write_text(json.dumps(rule))
    (tmp_path / "two.json").write_text(json.dumps([rule, rule]))
    (tmp_path / "a.toml").write_text(
        '[[rule]]\nname = "a"\ntemplate = "spree"\nparameters = {small = 1}'
    )
    (tmp_path / "bad.toml").write_text("name = 7-")
    assert (
        read_file(tmp_path / "one.json", "rule") == read_file(tmp_path / "a.toml", "rule") == [rule]
    )
    assert read_file(tmp_path / "two.json", "rule") == [rule, rule]
    with pytest.raises(InputError, match="the file of rules cannot be read"):
        read_file(tmp_path / "bad.toml", "rule")


def test_a_file_with_something_else_than_rules_or_queries_is_refused(tmp_path):
    file = tmp_path / "typo.toml"
    file.write_text('[[querry]]\nname = "a"\nquery = "river"')
    with pytest.raises(InputError, match="the file has no queries") as caught:
        read_file(file, "query")
    assert caught.value.got == "querry"
    file.write_text("")
    with pytest.raises(InputError, match="the file has no rules"):
        read_file(file, "rule")
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    with pytest.raises(InputError, match="the file has no rules") as caught:
        read_file(empty, "rule")
    assert "\n" not in (caught.value.hint or "")


def test_a_thousand_rules_are_measured_next_to_one():
    report = Report()
    bench.measure(report, 4_000, 1_000, without_template=20)
    assert report.figures["kernel, 1,000 live rules: matches"] > 0
    assert {each.name.partition(":")[0] for each in report.targets} == {"1,000 live rules"}


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
