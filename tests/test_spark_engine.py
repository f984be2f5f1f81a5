"""Both engines of `riverrun try` print the same rows: random programs, on a real Spark."""

from __future__ import annotations

import json
import os
import random
import subprocess
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import riverrun as rr
from recipes import module
from riverrun.runtime.trial import run_files
from riverrun.sources.files import read_files
from riverrun.testing import Driver
from running import COMMAND
from test_odd_numbers import OF_FLOATS
from test_oracle import (
    NOON,
    SCHEMA,
    WINDOWS,
    Event,
    Shape,
    alike,
    batches,
    expected,
    kept,
    normal,
    shapes,
)

pytestmark = pytest.mark.spark


def write(shape, drawn, folder: Path) -> dict[str, Path]:
    """The batches as files of JSON lines, one per topic."""
    texts = dict.fromkeys(shape.topics, "")
    number = 0
    for events, _ in drawn:
        for event in events:
            topic = event.topic if event.topic in shape.topics else "a"
            value = {"id": number, "page": event.page, "user": event.user, "x": event.x}
            value["at"] = (NOON + timedelta(seconds=event.after)).isoformat() + "Z"
            value |= {"tick": event.tick, "source": f"{event.partition}/{topic}"}
            texts[topic] += json.dumps({"value": value, "partition": event.partition}) + "\n"
            number += 1
        texts = {topic: text + "\n" for topic, text in texts.items()}
    files = {topic: folder / f"{topic}.jsonl" for topic in texts}
    for topic, file in files.items():
        file.write_text(texts[topic])
    return files


def on_driver(app: rr.App, files: dict[str, Path]) -> tuple[Driver, list[dict[str, object]]]:
    driver = Driver(app)
    driver.topics = read_files(files)
    lines = [line for cut in driver.topics.cuts for line in driver.batch_up_to(cut)]
    return driver, [*lines, *driver.end()]


@settings(
    deadline=None,
    max_examples=6,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(shape=shapes, drawn=batches)
def test_spark_and_the_driver_give_the_same_lines(shape, drawn, session, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    files = write(shape, drawn, folder)
    driver, lines = on_driver(shape.app(), files)
    assert alike(run_files(session, shape.app(), files, folder / "run", ended=True), lines)
    late = {line["value"]["id"] for line in driver.outputs.get("step.late", [])}
    rows = kept(shape, drawn).filter([i not in late for i in kept(shape, drawn)["id"]])
    assert alike(normal(shape, driver.table("out")), expected(shape, rows))


def every_step() -> rr.App:
    """A program with each kind of step, some fed by others."""
    app = rr.App("every", pages=3)
    a = app.stream("a", schema=SCHEMA, time="at", lateness="5 seconds")
    for number, window in enumerate(WINDOWS):
        for emit in ("changes", "ready", "final") if window.kind != "all" else ("changes",):
            grouped = a.group_by("page", name=f"w{number}-{emit}")
            grouped = grouped.window(window, updatable="20 seconds", emit=emit)
            table = grouped.agg(n=rr.count(), total=rr.sum("x"), middle=rr.median("x"))
            table.to(f"w{number}-{emit}")
    once = a.deduplicate("user", within="30 seconds", name="once")
    once.to("once")
    a.mark_seen("page", "user", name="marked").where("seen").to("again")
    minutes = once.group_by("user", name="minutes")
    per_user = minutes.window(rr.tumbling("1 minute"), updatable="1 hour").agg(n=rr.count())
    ranking = per_user.group_by("window_start", name="ranking")
    ranking.agg(users=rr.count(), most=rr.max("n"), top=rr.top("user", k=1, weight="n")).to("top")
    compared = a.group_by("page", name="compared").window(rr.tumbling("20 seconds"))
    compared.agg(n=rr.compared_to("1 minute", rr.count())).to("compared")
    return app


def of_ones_own(folder: Path) -> rr.App:
    """The operator and the window of docs/extend.md."""
    app = rr.App("own", pages=3)
    a = app.stream("a", schema=SCHEMA, time="at", lateness="5 seconds")
    a.apply(module("first_rows", folder).first_rows("page", limit=3)).to("first")
    monthly = module("monthly", folder).monthly()
    a.group_by("user").window(monthly, updatable="1 day").agg(n=rr.count()).to("months")
    return app


def test_steps_of_ones_own_give_the_drivers_lines(session, tmp_path):
    chosen, shape = random.Random(2), Shape(("a",), None, ("page",), WINDOWS[0], 0, "changes", 5,
                                            ("n",), 3)  # fmt: skip
    drawn = [
        ([Event("a", chosen.randrange(2), 900_000 * batch + chosen.randrange(-60, 60),
                chosen.choice([None, "/a", "/b"]), chosen.choice([1, 2, None]), 1.0)
          for _ in range(10)], 0)
        for batch in range(4)
    ]  # fmt: skip
    files = write(shape, drawn, tmp_path)
    _, lines = on_driver(of_ones_own(tmp_path), files)
    assert {line["output"] for line in lines} >= {"first", "months"}
    again = run_files(session, of_ones_own(tmp_path), files, tmp_path / "run", ended=True)
    assert alike(again, lines)


def test_every_kind_of_step_gives_the_drivers_lines(session, tmp_path):
    """Random input, out of order, with stragglers, in batches."""
    chosen = random.Random(1)
    shape = Shape(("a",), None, ("page",), WINDOWS[0], 0, "changes", 5, ("n",), 3)
    drawn = [
        ([Event("a", chosen.randrange(2), 20 * batch + chosen.randrange(-60, 60),
                chosen.choice([None, "/a", "/b"]), chosen.choice([1, 2, None]),
                chosen.randrange(64) / 8) for _ in range(25)], 0)
        for batch in range(5)
    ]  # fmt: skip
    files = write(shape, drawn, tmp_path)
    driver, lines = on_driver(every_step(), files)
    assert driver.status.late
    assert alike(run_files(session, every_step(), files, tmp_path / "run", ended=True), lines)


def of_odd_numbers() -> rr.App:
    app = rr.App("odd", pages=3)
    rows = app.stream("t", schema="id bigint, g bigint, x string, i bigint")
    rows = rows.with_columns(x="x::double", y="x::double")
    rows.group_by("g", name="all").agg(**OF_FLOATS, total_i=rr.sum("i")).to("all")
    table = rows.to_table("id", name="table").group_by("g", name="of_table")
    table.agg(**OF_FLOATS, total_i=rr.sum("i")).to("of_table")
    rows.group_by("x", name="by_x").agg(count=rr.count()).to("by_x")
    rows.deduplicate("x", within="1 day").to("once")
    return app


def test_odd_keys_and_numbers_give_the_drivers_lines(session, tmp_path):
    values = ["nan", "1.5", None, "0.0", "-0.0", "inf", "-inf", "-0.0", "nan", "3e10", "0.0", "inf"]
    text = ""
    for number, value in enumerate(values):
        record = {"id": number % 3, "g": 1, "x": value, "i": (-1) ** (number % 3) * (2**63 - 1)}
        text += json.dumps({"value": record}) + "\n" * (2 if number % 6 == 5 else 1)
    files = {"t": tmp_path / "t.jsonl"}
    files["t"].write_text(text)
    driver, lines = on_driver(of_odd_numbers(), files)
    assert not driver.status.causes
    again = run_files(session, of_odd_numbers(), files, tmp_path / "run", ended=True)
    assert sorted(map(repr, again)) == sorted(map(repr, lines))


def every_join() -> rr.App:
    """A program with each kind of join and table, some fed by others."""
    app = rr.App("joins", pages=3)
    timed = "id bigint, k string, v bigint, at timestamp"
    a, b = (app.stream(topic, schema=timed, time="at", lateness="5 seconds") for topic in "ab")
    t, u = (app.table(topic, schema=timed, key="id", time="at") for topic in "tu")
    small = app.table("s", schema="k string, w bigint", key="k", replicate=True)
    near = a.join(b, on="k", within="10 seconds", how="full", prefix="b_", where="v <> b_v")
    near.to("near")
    near.join(small, on="k", how="left").group_by("w").agg(n=rr.count()).to("per")
    a.join(t, on={"v": "id"}, how="left", prefix="t_").to("latest")
    a.join(t, on={"v": "id"}, as_of="event time", prefix="t_", name="then").to("then")
    a.join(u, on={"v": "id"}, as_of="event time", prefix="u_", corrections=True).to("corrected")
    both = t.join(u, on={"v": "id"}, how="left", prefix="u_")
    both.to("both")
    both.group_by("k").top(2, by="u_v", place="place").to("top")
    t.join(u, on="k", how="full", prefix="u_", name="many").changes().to("changes")
    return app


def test_every_kind_of_join_gives_the_drivers_lines(session, tmp_path):
    chosen = random.Random(2)
    texts = dict.fromkeys("abstu", "")
    for batch in range(6):
        for topic in texts:
            for _ in range(8):
                key = chosen.randrange(4)
                at = (NOON + timedelta(seconds=20 * batch + chosen.randrange(25))).isoformat()
                value = {"id": key, "k": chosen.choice("pqr"), "v": chosen.randrange(4)}
                value |= {"at": f"{at}Z", "w": chosen.randrange(2)}
                gone = topic in "tu" and chosen.random() < 0.2
                record = {"key": value["k"] if topic == "s" else str(key), "timestamp": 0}
                texts[topic] += json.dumps({**record, "value": None if gone else value}) + "\n"
            texts[topic] += "\n"
    files = {topic: tmp_path / f"{topic}.jsonl" for topic in texts}
    for topic, file in files.items():
        file.write_text(texts[topic])
    driver, lines = on_driver(every_join(), files)
    assert all(driver.outputs[name] for name in ("near", "per", "then", "corrected", "both"))
    assert all(driver.outputs[name] for name in ("latest", "top", "changes"))
    assert alike(run_files(session, every_join(), files, tmp_path / "run", ended=True), lines)


VIEWS = """{"page": "/a", "ms": 100, "at": "2026-01-01T00:00:01Z"}
{"page": "/b", "ms": 250, "at": "2026-01-01T00:00:02Z"}
broken

{"page": "/a", "ms": 300, "at": "2026-01-01T00:01:30Z"}
"""


def views(app: rr.App) -> rr.Stream:
    return app.stream("views", schema="page string, ms bigint, at timestamp", time="at")


def trial(session, app, tmp_path):
    file = tmp_path / "views.jsonl"
    file.write_text(VIEWS)
    return run_files(session, app, {"views": file}, tmp_path / "run", ended=True)


def test_a_program_without_state_is_one_map(session, tmp_path):
    app = rr.App("stateless")
    views(app).where("ms > 100").select("page", seconds="ms / 1000").to("slow")
    lines = trial(session, app, tmp_path)
    assert [line["value"] for line in lines if line["output"] == "slow"] == [
        {"page": "/b", "seconds": 0.25},
        {"page": "/a", "seconds": 0.3},
    ]
    assert [line["value"]["offset"] for line in lines if line["output"] == "dead"] == [2]


def test_producers_punctuations_and_repaired_times_are_the_drivers(session, tmp_path):
    def program():
        app = rr.App("devices", pages=3)
        stream = app.stream(
            "t",
            schema="device string, kind string, at timestamp, sent timestamp",
            time=rr.device_time(occurred="at", sent="sent"),
            producer="device",
            punctuation="kind = 'tick'",
            lateness="10 seconds",
        )
        stream.group_by("device").window(rr.tumbling("1 minute")).agg(n=rr.count()).to("out")
        return app

    noon = 1_767_268_800_000
    file = tmp_path / "t.jsonl"
    lines = []
    for number in range(60):
        off = number % 3 * 3600
        at = (NOON + timedelta(seconds=number * 7 - off)).isoformat() + "Z"
        value = {"device": f"d/{number % 3}", "at": at, "sent": at}
        value["kind"] = "tick" if number % 7 == 6 else None
        lines.append(json.dumps({"value": value, "timestamp": noon + number * 7000}))
        lines += [""] * (number % 10 == 9)
    file.write_text("\n".join(lines) + "\n")
    driver, found = on_driver(program(), {"t": file})
    assert run_files(session, program(), {"t": file}, tmp_path / "run", ended=True) == found
    assert driver.status.dead == 0
    assert sum(row["n"] for row in driver.table("out")) == 52


class Visits(rr.Processor):
    """Counts a page's views until there is none for a minute; refuses slow ones."""

    state = "n bigint default 0, times bigint[] default []"
    outputs = {"visits": "page string, n bigint, times bigint[]"}

    def on_event(self, event, state, context):
        if event.ms > 900:
            raise ValueError("too slow")
        state.n += 1
        state.times.append(event.ms)
        context.timer("over", context.time + timedelta(minutes=1))

    def on_timer(self, name, state, context):
        context.emit("visits", page=context.key["page"], n=state.n, times=state.times)
        state.clear()


class VisitFrames(rr.FrameProcessor):
    state = "n bigint default 0, timer timestamp"
    outputs = {"visits": "page string, n bigint"}

    def on_frame(self, events, state, context):
        seen = events.group_by("page").agg(
            more=pl.len(), timer=pl.col("__at").max().dt.offset_by("1m")
        )
        new = state.drop("timer").join(seen, on="page").with_columns(n=pl.col("n") + pl.col("more"))
        return {"state": new.drop("more")}

    def on_timers(self, state, context):
        return {"visits": state.select("page", "n", __at="timer"), "state": state.clear()}


@pytest.mark.parametrize("processor", [Visits, VisitFrames])
def test_a_processor_gives_the_drivers_lines(processor, session, tmp_path):
    def program():
        app = rr.App("visits", pages=3)
        visits = views(app).process(processor(), by="page")["visits"]
        visits.to("visits")
        visits.group_by("page").window(rr.tumbling("5 minutes")).agg(n=rr.sum("n")).to("totals")
        return app

    lines = []
    for number in range(200):
        at = (NOON + timedelta(seconds=number * number % 4000)).isoformat() + "Z"
        lines.append(json.dumps({"page": f"/{number % 7}", "ms": number * 5, "at": at}))
        lines += [""] * (number % 40 == 39)
    file = tmp_path / "views.jsonl"
    file.write_text("\n".join(lines) + "\n")
    driver, found = on_driver(program(), {"views": file})
    assert run_files(session, program(), {"views": file}, tmp_path / "run", ended=True) == found
    assert len(driver.outputs["visits"]) > 20
    assert driver.status.dead == (19 if processor is Visits else 0)


def test_a_spark_function_is_a_step_like_any_other(session, tmp_path):
    def doubled(rows):
        return rows.withColumn("ms", rows.ms * 2)

    app = rr.App("doors")
    per_page = (
        views(app)
        .spark(doubled, schema="page string, ms bigint, at timestamp")
        .group_by("page")
        .window(rr.tumbling("1 minute"))
        .agg(total=rr.sum("ms"))
    )
    per_page.to("totals")
    lines = trial(session, app, tmp_path)
    totals = [
        (line["value"]["page"], line["value"]["total"])
        for line in lines
        if line["output"] == "totals"
    ]
    assert totals == [("/a", 200), ("/b", 500), ("/a", 600)]


def test_an_expression_that_fails_on_a_table_row_names_the_users_line(session, tmp_path):
    app = rr.App("failing")
    table = views(app).group_by("page").agg(total=rr.sum("ms"))
    table.select("page", bad="('x' || total)::int").to("out")
    with pytest.raises(rr.RiverrunError, match="an expression fails on a row") as caught:
        trial(session, app, tmp_path)
    assert "test_spark_engine.py" in str(caught.value.where)


def test_spark_runs_on_the_java_from_packages(tmp_path):
    program, file = tmp_path / "app.py", tmp_path / "views.jsonl"
    program.write_text(
        "import riverrun as rr\n"
        "app = rr.App('packaged')\n"
        "views = app.stream('views', schema='page string, ms bigint, at timestamp', time='at')\n"
        "views.group_by('page').agg(n=rr.count()).to('counts')\n"
    )
    file.write_text(VIEWS)
    arguments = ["try", str(program), "--input", f"views={file}", "--engine", "spark", "--json"]
    outcome = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, "RIVERRUN_JAVA": "pypi", "RIVERRUN_HOME": str(tmp_path / "home")},
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr == ""
    lines = [json.loads(text) for text in outcome.stdout.splitlines()]
    counts = [line["value"]["n"] for line in lines if line["output"] == "counts"]
    assert counts == [1, 1, 1, 2]
