"""What happens to rows that fail: they are set aside, dropped, or stop the job, as is told."""

from __future__ import annotations

import base64
import json

import pytest

import riverrun as rr
from riverrun.compiler.shape import shape
from riverrun.compiler.upgrades import refused, verdicts
from riverrun.errors import JobError, ProgramError
from riverrun.testing import Driver

AT = "2026-01-01T12:00:00Z"
SENT = 1_767_268_800_005
SCHEMA = "page string, ms bigint, at timestamp"
BAD = "not json"


class Fragile(rr.Processor):
    outputs = {"out": "page string"}

    def on_event(self, event, state, context):
        if event.page == "/bad":
            raise ValueError("no such page")
        context.emit("out", page=event.page)


class FragileFrames(rr.FrameProcessor):
    outputs = {"out": "page string"}

    def on_frame(self, events, state, context):
        if (events["page"] == "/bad").any():
            raise ValueError("no such page")
        return {"out": events.select("page", "__at", "__pos", "__sub")}


def source(on_error=None):
    app = rr.App("shop", pages=2)
    return app, app.stream("views", schema=SCHEMA, time="at", on_error=on_error)


def into_source(on_error):
    app, views = source(on_error)
    views.to("out")
    return app, {"ms": "slow", "at": AT}


def into_aggregate(on_error):
    app, views = source()
    counted = views.group_by("page", on_error=on_error).window(rr.tumbling("1 minute"))
    counted.agg(n=rr.count(), ms=rr.sum("cast(page as int)")).to("out")
    return app, {"page": "x", "at": AT}


def into_deduplicate(on_error):
    app, views = source()
    numbers = views.with_columns(number="cast(page as int)")
    numbers.deduplicate("number", within="1 hour", on_error=on_error).to("out")
    return app, {"page": "x", "at": AT}


def into_mark_seen(on_error):
    app, views = source()
    numbers = views.with_columns(number="cast(page as int)")
    numbers.mark_seen("number", on_error=on_error).to("out")
    return app, {"page": "x", "at": AT}


def into_processor(on_error, kind=Fragile):
    app, views = source()
    views.process(kind, by="page", on_error=on_error).stream.to("out")
    return app, {"page": "/bad", "at": AT}


def into_frame_processor(on_error):
    return into_processor(on_error, FragileFrames)


def into_output(on_error):
    app, views = source()
    views.select(number="cast(page as int)").to("out", on_error=on_error)
    return app, {"page": "x", "at": AT}


def into_output_of_a_step(on_error):
    app, views = source()
    once = views.deduplicate("page", within="1 hour")
    once.select(number="cast(page as int)").to("out", on_error=on_error)
    return app, {"page": "x", "at": AT}


def into_step_of_a_step(on_error):
    app, views = source()
    once = views.deduplicate("page", within="1 hour")
    numbers = once.select("page", number="cast(page as int)")
    numbers.group_by("number", on_error=on_error).agg(n=rr.count()).to("out")
    return app, {"page": "x", "at": AT}


PLACES = [
    into_source, into_aggregate, into_deduplicate, into_mark_seen, into_processor,
    into_frame_processor, into_output, into_output_of_a_step, into_step_of_a_step,
]  # fmt: skip
places = pytest.mark.parametrize("program", PLACES, ids=lambda p: p.__name__)
GOOD = [{"page": "1", "ms": 1, "at": AT}, {"page": "2", "ms": 1, "at": AT}]


def run(app, bad):
    driver = Driver(app)
    driver.send("views", GOOD[0], bad, GOOD[1], key="k", headers={"trace": "7"}, timestamp=SENT)
    return driver, [*driver.batch(), *driver.end()]


def rows(lines):
    return [line for line in lines if line["output"] == "out" and line["op"] == "+"]


@places
def test_a_row_is_set_aside_with_its_record_as_it_was_written(program):
    app, bad = program(None)
    driver, lines = run(app, bad)
    [letter] = [line["value"] for line in lines if line["output"] == "dead"]
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("views", 0, 1)
    assert (letter["key"], letter["value"]) == ("k", json.dumps(bad))
    assert letter["headers"] == [{"name": "trace", "value": "7", "value_base64": None}]
    assert letter["timestamp"] == "2026-01-01T12:00:00.005000Z"
    assert len(rows(lines)) == 2
    assert (driver.status.dead, driver.status.dropped) == (1, 0)
    assert list(driver.status.causes.values()) == [1]


@places
def test_a_dropped_row_is_counted_and_not_written(program):
    app, bad = program("drop")
    driver, lines = run(app, bad)
    assert [line for line in lines if line["output"] == "dead"] == []
    assert len(rows(lines)) == 2
    assert (driver.status.dead, driver.status.dropped) == (0, 1)
    assert list(driver.status.causes.values()) == [1]


@places
def test_a_row_that_is_to_stop_the_job_says_where_it_is_and_why(program):
    app, bad = program("stop")
    with pytest.raises(JobError, match="a record cannot be processed") as caught:
        run(app, bad)
    assert str(caught.value.where) == "views/0/1"
    assert caught.value.got
    assert 'on_error="set aside"' in str(caught.value.hint)


def test_after_a_stop_the_batch_runs_again_under_another_policy():
    app, bad = into_processor("stop")
    driver = Driver(app)
    driver.send("views", GOOD[0])
    driver.batch()
    driver.send("views", bad, GOOD[1])
    with pytest.raises(JobError):
        driver.batch()
    driver.program = into_processor(None)[0].program()
    driver.restart()
    lines = driver.batch()
    assert [line["value"]["page"] for line in lines.of("out")] == ["2"]
    assert [line["value"]["offset"] for line in lines.of("dead")] == [1]


@places
def test_another_policy_fits_the_checkpoint(program):
    before, now = shape(program("stop")[0].program()), shape(program(None)[0].program())
    assert refused(verdicts(before, now)) == []


@pytest.mark.parametrize(
    ("value", "expression", "kind"),
    [
        ({"page": "x"}, "cast(page as int)", "Conversion Error"),
        ({"ms": 2**62}, "ms * 4", "Out of Range Error"),
        ({"page": "x"}, "error('no')", "Invalid Input Error"),
    ],
)
def test_failures_are_counted_by_step_and_kind_of_cause(value, expression, kind):
    app, views = source()
    views.select(made=expression).to("out")
    driver = Driver(app)
    driver.send("views", *[{"at": AT, **value}] * 3, BAD, {"ms": "a", "at": AT}, {})
    driver.batch()
    counted = {name.split(": ")[-1]: count for name, count in driver.status.causes.items()}
    assert counted == {
        kind: 3,
        "the value is not JSON": 1,
        "ms is not a BIGINT": 1,
        "no time": 1,
    }
    assert driver.status.dead == 6


def test_a_record_from_the_future_is_counted_without_its_time():
    app, views = source("drop")
    views.to("out")
    driver = Driver(app, now=AT)
    driver.send("views", {"at": "2030-01-01T00:00:00Z"})
    driver.batch()
    assert driver.status.causes == {"max_ahead: too far ahead": 1}


def test_a_record_that_is_dropped_in_one_branch_and_set_aside_in_another_is_a_letter():
    app, views = source()
    views.select(a="cast(page as int)").to("a", on_error="drop")
    views.select(b="cast(page as int)").to("b")
    driver = Driver(app)
    driver.send("views", {"page": "x", "at": AT})
    assert len(driver.batch().of("dead")) == 1
    assert (driver.status.dead, driver.status.dropped) == (1, 0)


def test_keys_and_values_that_are_not_text_are_kept():
    app, views = source()
    views.to("out")
    driver = Driver(app)
    driver.send("views", b"\xff\xfe", key=b"\xfe")
    [letter] = [line["value"] for line in driver.batch().of("dead")]
    assert (letter["key"], letter["value"]) == (None, None)
    assert base64.b64decode(letter["key_base64"]) == b"\xfe"
    assert base64.b64decode(letter["value_base64"]) == b"\xff\xfe"


def test_many_letters_are_completed_some_at_a_time(monkeypatch):
    monkeypatch.setattr("riverrun.kernels.letters.AT_ONCE", 3)
    app, views = source()
    views.to("out")
    driver = Driver(app)
    driver.send("views", *[BAD] * 10, headers={"trace": "7"})
    letters = [line["value"] for line in driver.batch().of("dead")]
    assert [letter["offset"] for letter in letters] == list(range(10))
    assert all(letter["headers"][0]["value"] == "7" for letter in letters)


def test_a_row_of_a_step_tells_what_the_step_was_given():
    app, bad = into_step_of_a_step(None)
    letter = next(line["value"] for line in run(app, bad)[1] if line["output"] == "dead")
    assert json.loads(letter["row"])["page"] == "x"


def test_a_change_of_a_table_cannot_be_left_out():
    _, views = source()
    table = views.group_by("page").agg(n=rr.count())
    with pytest.raises(ProgramError, match="a change of a table cannot be left out"):
        table.to("out", on_error="drop")
    with pytest.raises(ProgramError, match="a change of a table cannot be left out"):
        table.group_by("n", on_error="set aside")
    table.to("out", on_error="stop")


def test_an_unknown_policy_is_an_error_where_it_is_written():
    _, views = source()
    with pytest.raises(ProgramError, match="on_error is one of") as caught:
        views.to("out", on_error="ignore")
    assert __file__ in str(caught.value.where)


def test_policies_that_the_program_chooses_are_described(riverrun, tmp_path):
    (tmp_path / "app.py").write_text(
        "import riverrun as rr\n"
        'app = rr.App("shop")\n'
        'views = app.stream("views", schema="page string", on_error="stop")\n'
        'views.group_by("page", on_error="drop").agg(n=rr.count()).to("counts")\n'
        'views.to("copy", on_error="drop")\n'
    )
    text = riverrun("describe", "app.py").out
    assert text.count("  on_error  stop\n") == 1
    assert text.count("  on_error  drop\n") == 2
    found = json.loads(riverrun("describe", "app.py", "--json").out)
    assert found["sources"][0]["on_error"] == "stop"
    assert found["steps"][0]["on_error"] == "drop"
    assert ["on_error" in each for each in found["outputs"]] == [False, True, False]
