"""A changed program: what `riverrun check` says of it, and that Spark and the state agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

import riverrun as rr
from riverrun import config
from riverrun.compiler import upgrades
from riverrun.compiler.compile import compile_program
from riverrun.compiler.continued import NOTED, continued
from riverrun.compiler.shape import shape
from riverrun.delivery.status import last_status
from riverrun.errors import CheckpointError
from riverrun.outputs import Identity
from riverrun.runtime import checkpoint
from riverrun.sources.files import FileTopics
from riverrun.spark.lower import start_query
from riverrun.spark.source import Job

SCHEMA = "page string, user string, ms double, at timestamp_ms"


def changed(build, *, pages: int = 2, schema: str = SCHEMA, topics=("views",), **source) -> rr.App:
    app = rr.App("shop", pages=pages)
    views, *others = [app.stream(t, schema=schema, time="at", **source) for t in topics]
    for other in others:
        views = views.union(other)
    build(views)
    return app


def per_page(views, *, name="pages", was=None, out="out", by="page", window=None, **aggregates):
    grouped = views.group_by(by, name=name, was=was)
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


def best(views, *selected, **more):
    table = views.group_by("page", "user", name="pairs").agg(n=rr.count(), **more)
    ranked = table.select(*selected) if selected else table
    ranked.group_by("page", name="best").top(3, by="n").to("best")


NEAR = {"on": "page", "within": "1 minute", "name": "near"}
MINUTE = {"window": {"window": rr.tumbling("1 minute")}}
WAITING = {"window": rr.tumbling("1 minute"), "emit": "changes"}
LATER = {"window": {"window": rr.tumbling("1 minute"), "updatable": "1 hour", "emit": "final"}}


@pytest.mark.parametrize(
    ("before", "now", "part", "outcome", "why"),
    [
        (changed(per_page), changed(per_page, pages=4), "pages", "refused", "wrong page"),
        (changed(per_page), changed(two_levels), "exchanges", "refused", "each exchange"),
        (changed(two_levels), changed(per_page), "exchanges", "refused", "each exchange"),
        (changed(lambda v: v.to("out")), changed(per_page), "exchanges", "refused", "for each"),
        (changed(per_page), changed(through_spark), ".spark() steps", "refused", "log of offsets"),
        (changed(per_page), changed(lambda v: per_page(v, n=rr.sum("ms"))), "pages", "resumes",
         "n starts from now on, null before"),
        (changed(lambda v: per_page(v, n=rr.count(), most=rr.max("ms"))),
         changed(lambda v: per_page(v, n=rr.count(), total=rr.sum("ms"))), "pages", "resumes",
         "total starts from now on, null before; most is dropped"),
        (changed(lambda v: per_page(v, **MINUTE, n=rr.count())),
         changed(lambda v: per_page(v, **MINUTE, n=rr.compared_to("1 hour", rr.count()))), "pages",
         "refused", "comparisons"),
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
         "starts empty", "was it called 'pages'? was='pages' keeps its state"),
        (changed(per_page), changed(lambda v: per_page(v, name="renamed", was="pages")), "renamed",
         "resumes", "was 'pages'"),
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
        (changed(best), changed(lambda v: best(v, most=rr.max("ms"))), "best", "refused",
         "other columns"),
        (changed(best), changed(lambda v: best(v, "page", "user", "n", most=rr.max("ms"))), "best",
         "resumes", "other rows go in"),
        (changed(per_page), changed(per_page), "pages", "resumes", None),
    ],
)  # fmt: skip
def test_each_change_has_its_verdict(before, now, part, outcome, why):
    found = upgrades.verdicts(shape(before.program()), shape(now.program()))
    verdict = next(v for v in found if v.name == part and (outcome != "resumes" or v.outcome))
    assert verdict.outcome == outcome, found
    assert (verdict.why is None) if why is None else (why in verdict.why)
    assert all(each.ways_out for each in upgrades.refused(found))


def test_pages_that_went_by_another_text_of_structs_are_not_read():
    schema = SCHEMA.replace("page string", "page struct(a double)")
    now = shape(changed(per_page, schema=schema).program())
    assert not upgrades.refused(upgrades.verdicts(now, now))
    before = json.loads(json.dumps(now))
    del before["steps"]["pages"]["texts of keys"]
    [refused] = upgrades.refused(upgrades.verdicts(before, now))
    assert "other texts of keys" in refused.why


def test_a_ranking_whose_table_has_a_new_column_is_told_how_to_go_on_without_it():
    before, now = (
        shape(changed(program).program())
        for program in (best, lambda views: best(views, most=rr.max("ms")))
    )
    [refused] = upgrades.refused(upgrades.verdicts(before, now))
    assert '.select("page", "user", "n") before it' in refused.ways_out


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
    assert riverrun("check", str(file)).out.endswith("shop starts: it has not run yet\n")
    folder = config.load().checkpoint_root / "shop"
    folder.mkdir(parents=True)
    checkpoint.note(folder, shape(visits("page").program()))
    resumed = riverrun("check", str(file))
    assert (resumed.code, resumed.out.endswith("shop resumes\n")) == (0, True)

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
        upgrades.require_fit(upgrades.read(folder), shape(visits("user").program()), folder)


def test_a_program_with_other_pages_is_told_the_command_that_rewrites_its_state(tmp_path, riverrun):
    file = tmp_path / "app.py"
    file.write_text(PROGRAM.format(by="page").replace('"shop"', '"shop", pages=64'))
    folder = config.load().checkpoint_root / "shop"
    folder.mkdir(parents=True)
    checkpoint.note(folder, shape(visits("page").program()))
    told = riverrun("check", str(file))
    assert told.code == 2
    assert "program pages: rewrite its state: `riverrun rescale shop --pages 64`; or" in told.out


def test_a_program_that_does_not_fit_is_told_in_one_short_line_what_differs():
    before = shape(changed(lambda v: per_page(v, **MINUTE)).program())
    longer = {"window": rr.tumbling("5 minutes")}
    now = shape(changed(lambda v: per_page(v, window=longer)).program())
    with pytest.raises(CheckpointError) as refused:
        upgrades.require_fit(before, now, "here")
    assert refused.value.got == (
        "window: size: 60000000, hop: 60000000 became window: size: 300000000, hop: 300000000: "
        "other window: its state would be read as something else"
    )


class Versions:
    """Versions of a program, one after the other on one checkpoint of a real Spark."""

    def __init__(self, session, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.runs = 0

    def run(self, app: rr.App, *, key: str = "n") -> dict[str, int]:
        """One more batch; returns the rows of state that each step counts."""
        self.runs += 1
        now, before = shape(app.program()), upgrades.read(self.folder)
        how = continued(before, now)
        checkpoint.note(self.folder, {**now, NOTED: vars(how)})
        status, file = self.folder / f"status{self.runs}", self.folder / "views.jsonl"
        status.mkdir(parents=True)
        (self.folder / "out").mkdir(exist_ok=True)
        one = json.dumps({"page": "/a", "user": "ann", "ms": 1.0, "at": 1000})
        file.write_text("\n".join(f"{one}\n" for _ in range(self.runs)))
        job = Job(
            program=compile_program(app.plan(), how), source=FileTopics({"views": file}, False),
            status=status, collect=self.folder / "out", parallel=1, max_events=1000,
            batch_seconds=None, identity=Identity("t", 0), places=None,
            query_id=f"{self.folder}{self.runs}",
        )  # fmt: skip
        query = start_query(
            self.session, job, app.spark_functions(), checkpoint=self.folder / "query", once=True
        )
        query.awaitTermination()
        lines = [x for f in (self.folder / "out").glob("*.json") for x in json.loads(f.read_text())]
        self.clocks = last_status(status)["clocks"]
        counts = [(line["output"], line["value"].get(key) or 0) for line in lines]
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
def test_aggregates_come_and_go_and_a_step_is_renamed_on_one_checkpoint_of_spark(session, tmp_path):
    def version(**asked):
        return changed(lambda v: per_page(v, window=WAITING, **asked))

    versions = Versions(session, tmp_path)
    assert versions.run(version(n=rr.count()))["out"] == 1
    assert versions.run(version(n=rr.count(), total=rr.sum("ms")), key="total")["out"] == 1.0
    assert versions.run(version(total=rr.sum("ms")), key="total")["out"] == 2.0
    renamed = {"name": "renamed", "was": "pages"}
    assert versions.run(version(**renamed, total=rr.sum("ms")), key="total")["out"] == 3.0
    assert set(versions.clocks) == {"renamed"}
    assert versions.run(version(name="renamed", again=rr.count()), key="again")["out"] == 1


@pytest.mark.spark
def test_what_is_refused_for_spark_is_what_spark_cannot_do(session, tmp_path):
    versions = Versions(session, tmp_path)
    versions.run(changed(per_page))
    with pytest.raises(PySparkException, match="sources in the checkpoint"):
        versions.run(changed(through_spark))
