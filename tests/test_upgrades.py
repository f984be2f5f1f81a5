"""A changed program: what `riverrun check` says of it, and that Spark and the state agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

import riverrun as rr
from riverrun import config
from riverrun.compiler.shape import shape
from riverrun.errors import CheckpointError
from riverrun.runtime import checkpoint, upgrades
from riverrun.sources.files import FileTopics
from riverrun.spark.lower import start_query
from riverrun.spark.source import Job
from riverrun.spark.writer import Identity, last_status

SCHEMA = "page string, user string, ms double, at timestamp_ms"


def changed(build, *, pages: int = 2, schema: str = SCHEMA, topics=("views",), **source) -> rr.App:
    app = rr.App("shop", pages=pages)
    views, *others = [app.stream(t, schema=schema, time="at", **source) for t in topics]
    for other in others:
        views = views.union(other)
    build(views)
    return app


def per_page(views, *, name="pages", out="out", by="page", window=None, **aggregates):
    grouped = views.group_by(by, name=name)
    if window is not None:
        grouped = grouped.window(**window)
    table = grouped.agg(**(aggregates or {"n": rr.count()}))
    table.to(out)
    return table


def two_levels(views):
    per_page(views).group_by("n", name="second").agg(k=rr.count()).to("counts")


def through_spark(views):
    per_page(views)
    views.spark(same_rows, schema=SCHEMA).to("spark")


def same_rows(frame):
    return frame


def another_step(views):
    per_page(views)
    per_page(views, name="users", by="user", out="users")


def only_users(views):
    per_page(views, name="users", by="user", out="users")


def near(**join):
    return lambda views: views.join(views.select("page", "ms as other"), **join).to("out")


NEAR = {"on": "page", "within": "1 minute", "name": "near"}
MINUTE = {"window": {"window": rr.tumbling("1 minute")}}
LATER = {"window": {"window": rr.tumbling("1 minute"), "updatable": "1 hour", "emit": "final"}}


@pytest.mark.parametrize(
    ("before", "now", "part", "outcome", "why"),
    [
        (changed(per_page), changed(per_page, pages=4), "pages", "refused", "wrong page"),
        (changed(per_page), changed(two_levels), "exchanges", "refused", "one part for each"),
        (changed(two_levels), changed(per_page), "exchanges", "refused", "one part for each"),
        (changed(lambda v: v.to("out")), changed(per_page), "exchanges", "refused", "one part"),
        (changed(per_page), changed(through_spark), ".spark() steps", "refused", "log of offsets"),
        (changed(per_page), changed(lambda v: per_page(v, n=rr.sum("ms"))), "pages", "refused",
         "other aggregates"),
        (changed(per_page), changed(lambda v: per_page(v, by="user")), "pages", "refused", "keys"),
        (changed(per_page), changed(per_page, schema=SCHEMA.replace("page string", "page int")),
         "pages", "refused", "other types of keys"),
        (changed(lambda v: per_page(v, **MINUTE)), changed(per_page), "pages", "refused", "window"),
        (changed(lambda v: per_page(v, **MINUTE)), changed(lambda v: per_page(v, **LATER)),
         "pages", "resumes", "other emit, updatable"),
        (changed(per_page), changed(lambda v: per_page(v.where("ms > 0"))), "pages", "resumes",
         "what was counted stays counted"),
        (changed(per_page), changed(another_step), "users", "starts empty", None),
        (changed(another_step), changed(only_users), "pages", "forgotten", "its state is deleted"),
        (changed(per_page), changed(lambda v: per_page(v, name="renamed")), "renamed",
         "starts empty", "was it called 'pages'"),
        (changed(per_page), changed(lambda v: per_page(v, out="other")), "other", "starts here",
         "not what is in state"),
        (changed(per_page), changed(per_page, lateness="1 minute"), "views", "resumes",
         "other lateness"),
        (changed(per_page), changed(per_page, topics=("views", "zoo")), "zoo", "starts here",
         "from its `start` on"),
        (changed(per_page), changed(per_page, topics=("apes", "views")), "apes", "refused",
         "in the order of the topics' names"),
        (changed(per_page, topics=("views", "zoo")), changed(per_page), "zoo", "refused", "order"),
        (changed(near(**NEAR)), changed(near(**{**NEAR, "within": "2 minutes"})), "near", "refused",
         "other bounds"),
        (changed(near(**NEAR)), changed(near(**NEAR, how="left")), "near", "refused", "keeps"),
        (changed(near(**NEAR)), changed(near(**NEAR, where="ms > 0")), "near", "resumes",
         "other condition"),
        (changed(per_page), changed(per_page), "pages", "resumes", None),
    ],
)  # fmt: skip
def test_each_change_has_its_verdict(before, now, part, outcome, why):
    found = upgrades.verdicts(shape(before.program()), shape(now.program()))
    verdict = next(v for v in found if v.name == part and (outcome != "resumes" or v.outcome))
    assert verdict.outcome == outcome, found
    assert (verdict.why is None) if why is None else (why in verdict.why)
    assert all(each.ways_out for each in upgrades.refused(found))


PROGRAM = """
import riverrun as rr
app = rr.App("shop")
views = app.stream("views", schema="page string, user string")
views.group_by({by!r}, name="visits").agg(n=rr.count()).to("visits")
"""


def visits(by: str) -> rr.App:
    app = rr.App("shop")
    views = app.stream("views", schema="page string, user string")
    views.group_by(by, name="visits").agg(n=rr.count()).to("visits")
    return app


def test_check_tells_people_and_programs_before_anything_starts(tmp_path, riverrun):
    file = tmp_path / "app.py"
    file.write_text(PROGRAM.format(by="page"))
    assert riverrun("check", str(file)).out.endswith("shop resumes\n")
    folder = config.load().checkpoint_root / "shop"
    folder.mkdir(parents=True)
    checkpoint.note(folder, shape(visits("page").program()))
    assert riverrun("check", str(file)).code == 0

    file.write_text(PROGRAM.format(by="user"))
    outcome = riverrun("check", str(file))
    assert outcome.code == 2
    assert "other keys: its state would be read as something else" in outcome.out
    assert "step visits: give the step a new name" in outcome.out
    found = json.loads(riverrun("check", str(file), "--json").out)
    assert found["resumes"] is False
    assert found["made_by"] == "0.1.0"
    assert {(p["part"], p["name"], p["outcome"]) for p in found["parts"]} >= {
        ("source", "views", "resumes"),
        ("step", "visits", "refused"),
        ("output", "visits", "resumes"),
    }
    with pytest.raises(CheckpointError, match="the step 'visits' changed"):
        upgrades.require_fit(folder, shape(visits("user").program()))


class Versions:
    """Versions of a program, one after the other on one checkpoint of a real Spark."""

    def __init__(self, session, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.runs = 0

    def run(self, app: rr.App) -> dict[str, int]:
        """One more batch; returns the rows of state that each step counts."""
        self.runs += 1
        status, file = self.folder / f"status{self.runs}", self.folder / "views.jsonl"
        status.mkdir(parents=True)
        (self.folder / "out").mkdir(exist_ok=True)
        one = json.dumps({"page": "/a", "user": "ann", "ms": 1.0, "at": 1000})
        file.write_text("\n".join(f"{one}\n" for _ in range(self.runs)))
        job = Job(
            program=app.program(), source=FileTopics({"views": file}, False), status=status,
            collect=self.folder / "out", parallel=1, max_events=1000, batch_seconds=None,
            identity=Identity("t", 0),
            places=None, query_id=f"{self.folder}{self.runs}",
        )  # fmt: skip
        query = start_query(
            self.session, job, app.spark_functions(), checkpoint=self.folder / "query", once=True
        )
        query.awaitTermination()
        lines = [x for f in (self.folder / "out").glob("*.json") for x in json.loads(f.read_text())]
        self.clocks = last_status(status)["clocks"]
        counts = [(line["output"], line["value"].get("n", 0)) for line in lines]
        return dict(sorted(counts))


@pytest.mark.spark
def test_state_stays_and_a_step_that_was_removed_starts_empty_when_it_comes_back(session, tmp_path):
    versions = Versions(session, tmp_path)
    assert versions.run(changed(per_page))["out"] == 1
    found = versions.run(changed(another_step))
    assert (found["out"], found["users"]) == (2, 1)
    assert versions.run(changed(only_users))["users"] == 2
    assert set(versions.clocks) == {"users"}
    found = versions.run(changed(lambda v: (per_page(v, out="again"), only_users(v))))
    assert (found["again"], found["users"]) == (1, 3)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (per_page, two_levels, "OPERATOR_NOT_MATCH"),
        (lambda v: v.to("out"), per_page, "MISSING_STATE_DIRECTORY"),
        (per_page, through_spark, "sources in the checkpoint"),
    ],
)
def test_what_is_refused_for_spark_is_what_spark_cannot_do(before, now, says, session, tmp_path):
    versions = Versions(session, tmp_path)
    versions.run(changed(before))
    with pytest.raises(PySparkException, match=says):
        versions.run(changed(now))


def test_a_captured_table_that_has_another_column_goes_on_with_those_that_it_has():
    def captured(schema: str) -> upgrades.Shape:
        app = rr.App("copies")
        app.capture("users", name="shop", schema=schema, key="id").to("copy")
        return shape(app.program())

    before = captured("id bigint, name string, tags string[]")
    [found] = upgrades.refused(upgrades.verdicts(before, captured("id bigint, name string")))
    assert found.ways_out is not None
    kept = found.ways_out.split("schema='")[1].split("'")[0]
    assert not upgrades.refused(upgrades.verdicts(before, captured(kept)))
