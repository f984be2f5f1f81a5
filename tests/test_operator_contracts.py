"""Every kind of step holds the contract of operators: the table of kinds says which there are."""

from __future__ import annotations

import inspect
import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass

import polars as pl
import pytest

import riverrun as rr
from envelopes import Database
from page_views import views
from riverrun.kernels.operator import Operator
from riverrun.operators.aggregate import Window
from riverrun.operators.registry import OPERATORS
from riverrun.testing.contracts import OperatorContract
from transfers import NAMES, TOLD, Bank

VIEWS = "id int, page string, user string, ms int, at timestamp"


class OverViews(OperatorContract):
    """One stream, late enough that no row is late, however it is cut."""

    def rows(self, app: rr.App) -> rr.Stream:
        return app.stream("views", schema=VIEWS, time="at", lateness="1 minute")

    def records(self):
        return {"views": views()}


class OfWindow(OverViews):
    def window(self) -> Window:
        raise NotImplementedError

    def program(self, app):
        grouped = self.rows(app).group_by("page").window(self.window(), updatable="30 seconds")
        grouped.agg(n=rr.count(), total=rr.sum("ms"), users=rr.distinct("user")).to("out")


@dataclass(frozen=True)
class Put:
    ms: int


@dataclass(frozen=True)
class Heap:
    ms: int = 0

    def decide(self, command: Put):
        return rr.Rejected("it is full") if self.ms > 40 else command

    def evolve(self, event: Put) -> Heap:
        return Heap(self.ms + event.ms)


class TestDecide(OperatorContract):
    arrival_matters = True  # events tell when they were decided

    def program(self, app):
        heaps = app.aggregate("heap", Heap, commands="commands", events="events")
        heaps.of(Put).select("aggregate", "version", "ms").to("out")

    def records(self):
        rows = enumerate(views(60))
        return {
            "commands": [
                {"id": str(n % 50), "aggregate": r["page"], "type": "Put", "data": {"ms": r["ms"]}}
                for n, r in rows
            ]
        }


class TestTumbling(OfWindow):
    def window(self):
        return rr.tumbling("20 seconds")


class TestHopping(OfWindow):
    def window(self):
        return rr.hopping("30 seconds", "10 seconds")


class TestSliding(OfWindow):
    def window(self):
        return rr.sliding("30 seconds")


class TestSession(OfWindow):
    def window(self):
        return rr.session("15 seconds")


class TestAllTime(OfWindow):
    def window(self):
        return rr.all_time()


class TestDeduplicate(OverViews):
    arrival_matters = True  # the first row to come passes

    def program(self, app):
        self.rows(app).deduplicate("page", within="20 seconds").to("out")


class TestMarkSeen(OverViews):
    arrival_matters = True

    def program(self, app):
        self.rows(app).mark_seen("user").to("out")


class TestMatch(OverViews):
    def program(self, app):
        self.rows(app).match("""
            PARTITION BY page ORDER BY at
            MEASURES FIRST(up.id) AS first, LAST(up.ms) AS top, COUNT(*) AS n
            AFTER MATCH SKIP TO NEXT ROW
            PATTERN (s up+) WITHIN INTERVAL '40' SECOND
            DEFINE up AS up.ms > PREV(up.ms) AND up.ms < 3 * FIRST(ms)
        """).to("out")


class TestMatchOnArrival(OverViews):
    def program(self, app):
        text = """
            PARTITION BY page ORDER BY at
            MEASURES FIRST(up.id) AS first, LAST(up.ms) AS top, COUNT(*) AS n
            AFTER MATCH SKIP TO NEXT ROW
            PATTERN (s up+) WITHIN INTERVAL '40' SECOND
            DEFINE up AS up.ms > PREV(up.ms) AND up.ms < 3 * FIRST(ms)
        """
        self.rows(app).match(text, on_arrival=True).to("out")


class TestRules(OverViews):
    def program(self, app):
        rising = """
            MEASURES FIRST(up.id) AS first, LAST(up.ms) AS top
            AFTER MATCH SKIP TO NEXT ROW
            PATTERN (s up+) WITHIN INTERVAL '40' SECOND
            DEFINE up AS up.ms > $least AND up.ms > PREV(up.ms)
        """
        self.rows(app).match_rules(
            "found", by="page", measures="first int, top int", templates={"rising": rising}
        ).to("out")

    def asked(self):
        rising = [
            {"name": f"r{n}", "template": "rising", "parameters": {"least": n}} for n in (1, 5)
        ]
        quiet = "MEASURES a.id AS first PATTERN (a TIMEOUT) WITHIN INTERVAL '10' SECOND"
        rules = [*rising, {"name": "quiet", "pattern": quiet, "metadata": {"why": "no views"}}]
        return [("rule", "found", each) for each in rules]


class TestSearch(OverViews):
    def program(self, app):
        self.rows(app).search("found", text=["page", "user"], keep=["id", "page"]).to("out")

    def asked(self):
        queries = {"a": "a", "both": "x OR y", "range": "z* ms:<5"}
        asked = [("query", "found", {"name": n, "query": q}) for n, q in queries.items()]
        sql = {"name": "sql", "query": "b -x", "where": "ms > 3", "owner": "ann"}
        return [*asked, ("query", "found", sql)]


class Counting(rr.Processor):
    state = "n bigint default 0"
    outputs = {"out": "page string, n bigint"}

    def on_event(self, event, state, context):
        state.n += 1
        context.timer("quiet", context.time)

    def on_timer(self, name, state, context):
        context.emit("out", page=context.key["page"], n=state.n)


class TestProcess(OverViews):
    arrival_matters = True  # timers fire after the events of their batch

    def program(self, app):
        self.rows(app).process(Counting, by="page").stream.to("out")


class Summing(rr.FrameProcessor):
    state = "total bigint default 0"
    outputs = {"out": "page string, total bigint"}

    def on_frame(self, events, state, context):
        sums = events.group_by("page").agg(pl.col("ms").sum().cast(pl.Int64), pl.col("__at").max())
        kept = state.join(sums, on="page").select("page", total=pl.col("total") + pl.col("ms"))
        return {"state": kept, "out": kept.join(sums.select("page", "__at"), on="page")}


class TestProcessFrames(OverViews):
    arrival_matters = True  # a row for each batch

    def program(self, app):
        self.rows(app).process(Summing, by="page").stream.to("out")


class TestToTable(OverViews):
    def program(self, app):
        self.rows(app).to_table("page", delete="ms = 9").to("out")


class TestCaptured(OperatorContract):
    def program(self, app):
        schema = "id bigint, name string, body string"
        app.table("users", schema=schema, key="id", format="debezium").to("out")

    def records(self):
        database = Database(4)
        database.act(80)
        found = [(json.loads(k or "null"), json.loads(v)) for k, v in database.log if v]
        return {"users": [{**e, "before": k if e["op"] == "d" else None} for k, e in found]}


class TestWhole(OperatorContract):
    arrival_matters = True  # rows that wait for others at the end of the input go on as they are

    def program(self, app):
        schema = "id bigint, money bigint, note string"
        captured = [
            app.table(f"bank.public.{name}", schema=schema, key="id", format="debezium")
            for name in NAMES
        ]
        for table in app.whole(*captured, transactions=TOLD):
            table.to(f"copy.of.{table.node.name}")

    def step(self):
        return next(s.does for s in self.app().program().steps if s.name == TOLD)

    def records(self):
        bank = Bank(7)
        records = bank.snapshot() + [r for _ in range(20) for r in bank.transact()]
        found = {topic: [] for topic in (*(f"bank.public.{name}" for name in NAMES), TOLD)}
        for topic, _, _, value in records:
            if value is not None:
                found[topic].append(json.loads(value))
        return found


class TestRank(OverViews):
    def program(self, app):
        table = self.rows(app).to_table("user", "page")
        table.group_by("page").top(2, by="ms", place="place").to("out")


class TestKeep(OverViews):
    arrival_matters = True  # changes count from the batch that brings them

    def program(self, app):
        table = self.rows(app).to_table("user", "page")
        table.join(table.select("user", "page", "ms as other"), on=["user", "page"],
                   keep="20 seconds", name="pairs").to("out")  # fmt: skip

    def step(self):
        return next(s.does for s in self.app().program().steps if s.does.kind == "keep")


class TestLife(OverViews):
    def program(self, app):
        users = self.rows(app).group_by("user", "page", keep="20 seconds")
        users.agg(n=rr.count(), total=rr.sum("ms"), pages=rr.distinct("id")).to("out")


class TestOfFinished(OverViews):
    def program(self, app):
        pages = self.rows(app).group_by("page").window(rr.tumbling("20 seconds"))
        of_all = pages.agg(n=rr.count()).group_by("window_start")
        of_all.agg(n=rr.sum("n"), pages=rr.count()).to("out")


class TestGather(OverViews):
    arrival_matters = True  # the changes of a batch are told

    def program(self, app):
        self.rows(app).to_table("page").changes().to("out")


class TestAlert(OverViews):
    arrival_matters = True  # people are told of what is there by then

    def program(self, app):
        self.rows(app).to_table("user", "page").where("ms > 4").alert(
            group_by="page", name="slow", wait="1 second", interval="1 second", repeat="2 seconds"
        )

    def asked(self):
        silence = {"id": "s", "matchers": [["page", "=", "a"]], "until": 2_000_000, "by": "ann"}
        return [("silence alerts", "slow", silence)]


class OverTwo(OperatorContract):
    def sides(self, app: rr.App) -> tuple[rr.Stream, rr.Stream]:
        streams = [
            app.stream(topic, schema=VIEWS, time="at", lateness="5 minutes")
            for topic in ("left", "right")
        ]
        return streams[0], streams[1]

    def records(self):
        return {"left": views(24, seed=7), "right": views(24, seed=8)}


class TestStreamJoin(OverTwo):
    def program(self, app):
        left, right = self.sides(app)
        left.join(right, on="page", within="10 seconds", how="full", prefix="r_").to("out")


class TestLatestJoin(OverTwo):
    arrival_matters = True  # the table as it stands

    def program(self, app):
        left, right = self.sides(app)
        left.join(right.to_table("page"), on="page", how="left", prefix="r_").to("out")


class TestVersionJoin(OverTwo):
    def program(self, app):
        left, right = self.sides(app)
        table = right.to_table("page")
        left.join(table, on="page", as_of="event time", how="left", prefix="r_").to("out")


class TestTableJoin(OverTwo):
    def program(self, app):
        left, right = self.sides(app)
        tables = left.to_table("user"), right.to_table("page")
        tables[0].join(tables[1], on="page", how="full", prefix="r_").to("out")


class TestLookup(OperatorContract):
    def program(self, app):
        with closing(sqlite3.connect("contract.db")) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS names (id INTEGER PRIMARY KEY, name TEXT)")
            rows = ((n, f"name {n}") for n in range(0, 40, 2))
            database.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", rows)
        stream = app.stream("orders", schema="customer bigint, total bigint")
        asked = {"table": "names", "on": {"customer": "id"}, "cache": "3 seconds", "entries": 12}
        stream.lookup("sqlite:///contract.db", **asked).to("out")

    def records(self):
        return {"orders": [{"customer": n * 7 % 40, "total": n} for n in range(120)]}


def contracts() -> list[OperatorContract]:
    found = vars(sys.modules[__name__]).items()
    return [kind() for name, kind in found if name.startswith("Test") and inspect.isclass(kind)]


def test_every_kind_of_step_is_under_contract():
    assert {contract.step().kind for contract in contracts()} == set(OPERATORS)


def test_every_kind_of_window_is_under_contract():
    steps = [contract.step() for contract in contracts()]
    tried = {type(step.window) for step in steps if step.kind == "aggregate"}
    ours = {kind for kind in _kinds(Window) if kind.__module__.startswith("riverrun.")}
    assert tried == {kind for kind in ours if not inspect.isabstract(kind)}


def test_the_table_has_every_operator():
    ours = {kind for kind in _kinds(Operator) if kind.__module__.startswith("riverrun.operators")}
    assert {kind for kind in ours if not inspect.isabstract(kind)} == set(OPERATORS.values())


@pytest.mark.parametrize("method", sorted(Operator.__abstractmethods__))
def test_an_operator_that_does_not_answer_cannot_be_made(method):
    whole = OPERATORS["aggregate"]
    partial = type("Partial", (whole,), {method: getattr(Operator, method)})
    with pytest.raises(TypeError, match=f"abstract method '?{method}"):
        partial()


def _kinds(base: type) -> set[type]:
    return {base} | {kind for each in base.__subclasses__() for kind in _kinds(each)}
