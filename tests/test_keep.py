"""State that ends, at random, cut and restarted at random, against a model of single rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta

import pytest
from hypothesis import given

import riverrun as rr
from keeping import KEEP, LATENESS, NOON, SCHEMA, batches, run, send, sent, some, steps_of
from riverrun.kafka import admin
from riverrun.testing import Driver
from running import produce, table
from test_join_oracle import mishaps


def groups(rows, clock):
    """Rows of a key less than KEEP apart live together; the last life is shown until it ends."""
    lives = {}
    for time, _, key, value, _ in sorted(rows):
        times, values = lives.get(key, ([], []))
        if times and time - times[-1] >= KEEP:
            times, values = [], []
        lives[key] = ([*times, time], [*values, value])
    return {
        key: (len(values), sum(values), min(values))
        for key, (times, values) in lives.items()
        if times[-1] + KEEP > clock
    }


@some
@given(batches, mishaps)
def test_a_group_ends_some_time_after_its_last_row(batches, mishaps):
    app = rr.App("groups", pages=2)
    grouped = steps_of(app).group_by("k", keep=f"{KEEP} seconds")
    table = grouped.agg(n=rr.count(), v=rr.sum("v"), least=rr.min("v"))
    table.to("out")
    table.late.to("late")

    def check(driver, rows, clock):
        found = {each["k"]: (each["n"], each["v"], each["least"]) for each in driver.table("out")}
        assert found == groups(rows, clock)
        assert driver.outputs["late"] == []

    run(app, batches, mishaps, check)


@some
@given(batches, mishaps)
def test_a_row_of_a_table_ends_some_time_after_it(batches, mishaps):
    app = rr.App("tables", pages=2)
    rows = steps_of(app)
    rows.to_table("k", delete="gone", keep=f"{KEEP} seconds", name="a").to("kept")
    rows.to_table("k", delete="gone", keep_deletes="61 seconds", name="b").to("known")
    rows.to_table("k", delete="gone", name="c").to("ever")
    topic = app.table(
        "changelog", schema="k string, v bigint, at timestamp", key="k", time="at",
        lateness=f"{LATENESS} seconds", keep=f"{KEEP} seconds",
    )  # fmt: skip
    topic.to("last")

    def check(driver, rows, clock):
        latest = {row[2]: row for row in sorted(rows)}
        there = {key: row[3] for key, row in latest.items() if not row[4]}
        kept = {key: v for key, v in there.items() if latest[key][0] + KEEP > clock}
        last = {row[2]: row for row in rows}
        last = {k: r[3] for k, r in last.items() if not r[4] and r[0] + KEEP > clock}
        for name, wanted in (("kept", kept), ("known", there), ("ever", there), ("last", last)):
            assert {each["k"]: each["v"] for each in driver.table(name)} == wanted, name

    run(app, batches, mishaps, check, send_both)


def send_both(driver, rows):
    """The same rows as a changelog, where those that are gone have no value."""
    send(driver, rows)
    for row in rows:
        value = None if row[4] else {name: sent(row)[name] for name in ("k", "v", "at")}
        when = NOON + timedelta(seconds=row[0])
        driver.send("changelog", value, key=row[2], timestamp=int(when.timestamp() * 1000))


class Changes:
    """The rows of a table, and where the clock stood after the batch that changed each."""

    def __init__(self):
        self.rows, self.changed = {}, {}

    def note(self, rows, clock):
        latest = {row[2] + str(row[3] % 2): row for row in sorted(rows)}
        now = {key: (row[2], row[3], row[0]) for key, row in latest.items() if not row[4]}
        for key in now.keys() | self.rows.keys():
            if now.get(key) != self.rows.get(key):
                self.changed[key] = clock
        self.rows = now

    def kept(self, clock):
        return {k: row for k, row in self.rows.items() if self.changed[k] + KEEP > clock}


@some
@given(batches, mishaps)
def test_what_is_made_of_tables_forgets_rows_that_do_not_change(batches, mishaps):
    app = rr.App("over", pages=2)
    rows = steps_of(app).with_columns(id="k || (v % 2)")
    table = rows.to_table("id", delete="gone", name="table").select("id", "k", "v")
    table.group_by("k", keep=f"{KEEP} seconds", name="sums").agg(v=rr.sum("v")).to("sums")
    table.group_by("k", keep=f"{KEEP} seconds", name="best").top(1, by="v").to("best")
    other = table.select("id", "v as w")
    table.join(other, on="id", keep=f"{KEEP} seconds", name="pairs").to("pairs")
    changes = Changes()

    def check(driver, rows, clock):
        changes.note(rows, clock)
        kept, sums, best = changes.kept(clock), defaultdict(int), {}
        for key, (k, v, _) in sorted(kept.items()):
            sums[k] += v
            best[k] = max(best.get(k, (-1, "")), (v, key), key=lambda each: each[0])
        assert {each["k"]: each["v"] for each in driver.table("sums")} == sums
        assert {each["k"]: (each["v"], each["id"]) for each in driver.table("best")} == best
        pairs = {each["id"]: (each["v"], each["w"]) for each in driver.table("pairs")}
        assert pairs == {key: (v, v) for key, (_, v, _) in kept.items()}

    run(app, batches, mishaps, check)


def test_the_state_of_what_has_ended_is_gone():
    app = rr.App("ends", pages=1)
    rows = app.stream("rows", schema=SCHEMA, time="at")
    groups = rows.group_by("k", keep="1 minute", name="groups").agg(n=rr.count())
    groups.to("groups")
    rows.to_table("k", keep="1 minute", name="table").to("table")
    groups.group_by("n", keep="1 minute", name="over").agg(groups=rr.count()).to("over")
    driver = Driver(app)
    for minute in range(40):
        driver.send("rows", *(sent((minute * 60, 0, f"{minute}.{n}", 1, False)) for n in range(20)))
        driver.batch()
    assert len(driver.table("groups")) == 20
    assert len(driver.table("table")) == 20
    assert driver.table("over") == [{"n": 1, "groups": 20}]
    assert all(rows <= 160 for rows, _ in driver.last.state.values()), driver.last.state
    assert {each["n"] for each in driver.ask("groups", "select n from groups").rows} == {1}


def test_a_row_that_would_have_ended_already_is_late():
    app = rr.App("late")
    rows = app.stream("rows", schema=SCHEMA, time="at")
    table = rows.to_table("k", keep="1 minute", name="table")
    table.to("table")
    table.late.select("k", "v").to("late-table")
    groups = rows.group_by("k", keep="1 minute", name="groups").agg(n=rr.count())
    groups.to("groups")
    groups.late.select("k", "v").to("late-group")
    driver = Driver(app)
    for time, key in ((100, "a"), (39, "b"), (41, "c")):
        driver.send("rows", sent((time, 0, key, time, False)))
        driver.batch()
    assert [each["k"] for each in driver.table("table")] == ["a", "c"]
    assert [each["k"] for each in driver.table("groups")] == ["a", "c"]
    for name in ("late-table", "late-group"):
        assert [line["value"] for line in driver.outputs[name]] == [{"k": "b", "v": 39}]
    assert driver.status.late == {"table": 1, "groups": 1}


def test_a_row_from_before_a_deletion_that_is_forgotten_is_late():
    app = rr.App("deletes")
    rows = app.stream("rows", schema=SCHEMA, time="at")
    table = rows.to_table("k", delete="gone", keep_deletes="1 minute", name="table")
    table.to("table")
    table.late.select("k", "v").to("late")
    driver = Driver(app)
    told = (
        (0, "old", False),
        (10, "a", True),
        (100, "b", False),
        (5, "a", False),  # the deletion is forgotten: nobody knows whether it came before
        (5, "old", False),  # its row is there: this one is newer
    )
    for time, key, gone in told:
        driver.send("rows", sent((time, 0, key, time, gone)))
        driver.batch()
    assert {each["k"]: each["v"] for each in driver.table("table")} == {"old": 5, "b": 100}
    assert [line["value"] for line in driver.outputs["late"]] == [{"k": "a", "v": 5}]
    assert driver.last.state["table"][0] <= 4


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda rows: rows.group_by("k", keep="0 s").agg(n=rr.count()), "a period above zero"),
        (
            lambda rows: rows.group_by("k", keep="1 day").window(rr.tumbling("1 minute")),
            "a window ends by itself",
        ),
        (
            lambda rows: rows.to_table("k", keep="1 day", keep_deletes="1 day"),
            "keep is for deletions, too",
        ),
        (
            lambda rows: rows.join(
                rows.select("k", "v as w").to_table("k", keep="1 day"), on="k", as_of="event time"
            ),
            "keeps versions by its history",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(made, said):
    rows = rr.App("refused").stream("rows", schema=SCHEMA, time="at")
    with pytest.raises(rr.ProgramError, match=said):
        made(rows)


PROGRAM = """
import riverrun as rr
app = rr.App("keep")
rows = app.stream("keep-rows", schema="k string, v bigint, at timestamp", time="at")
table = rows.to_table("k", keep="1 minute", name="table")
table.to("keep-table")
rows.group_by("k", name="groups", keep="1 minute").agg(n=rr.count()).to("keep-groups")
table.group_by("v", name="best", keep="30 seconds").top(1, by="at").to("keep-best")
"""


@pytest.mark.broker
@pytest.mark.spark
def test_keys_end_on_kafka_and_spark(broker, tmp_path, once):
    """What has ended is a record without a value; a restart changes nothing."""
    admin.create_topic(broker, "keep-rows", partitions=1)
    file = tmp_path / "keep.py"
    file.write_text(PROGRAM)
    for number, time in enumerate((0, 10, 80, 110)):
        rows = [sent((time, 0, f"{number}.{n}", n, False)) for n in range(20)]
        rows += [sent((time, 0, "again", 50, False))]
        produce(broker, "keep-rows", [{n: r[n] for n in ("k", "v", "at")} for r in rows])
        once(file)
    there = {f"{number}.{n}" for number in (2, 3) for n in range(20)} | {"again"}
    tables = {name: table(broker, f"keep-{name}") for name in ("table", "groups", "best")}
    assert {row["k"] for row in tables["table"].values()} == there
    groups = {row["k"]: row["n"] for row in tables["groups"].values()}
    assert groups == {key: 2 if key == "again" else 1 for key in there}
    assert {row["k"] for row in tables["best"].values()} == {
        *(f"3.{n}" for n in range(20)), "again",
    }  # fmt: skip
