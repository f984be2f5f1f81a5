"""State rewritten for another number of pages: what follows is as if nothing had happened."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

import riverrun as rr
from processors import Log
from riverrun.errors import CheckpointError
from riverrun.kafka import admin
from riverrun.kernels.chunks import unpack
from riverrun.kernels.pages import Head
from riverrun.kernels.repaging import List, Repaging
from riverrun.kernels.state import Names
from riverrun.runtime import checkpoint
from riverrun.testing import Driver
from riverrun.testing.checkpoints import MemoryStore
from running import produce, records

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLICKS = "user string, page string, n bigint, at timestamp"


def clicks_of(app):
    return app.stream("clicks", schema=CLICKS, time="at", lateness="30 seconds")


def windows(app):
    clicks = clicks_of(app)
    by_user = clicks.group_by("user", name="a")
    by_user.window(rr.tumbling("1 minute"), updatable="1 minute").agg(n=rr.count()).to("a")
    hops = clicks.group_by("page", name="b").window(rr.hopping("2 minutes", "1 minute"))
    hops.agg(n=rr.sum("n")).to("b")
    sessions = clicks.group_by("user", name="c").window(rr.session("20 seconds"))
    sessions.agg(n=rr.count()).to("c")
    sliding = clicks.group_by("user", name="d").window(rr.sliding("1 minute"))
    sliding.agg(many=rr.count()).to("d")


def tables(app):
    clicks = clicks_of(app)
    latest = clicks.to_table("user", keep="3 minutes", name="latest")
    latest.to("latest")
    latest.group_by("page", name="pages").agg(users=rr.count()).to("pages")
    counts = clicks.group_by("user", name="users").agg(n=rr.count(), pages=rr.distinct("page"))
    counts.group_by("n", name="sizes").agg(users=rr.count()).to("sizes")
    counts.with_columns(one="1").group_by("one", name="best").top(3, by="n").to("best")
    clicks.deduplicate("user", "page", within="2 minutes", name="once").to("once")


def joins(app):
    clicks = clicks_of(app)
    others = clicks.select("user as who", "page as where_", "n as m")
    near = {"before": timedelta(seconds=20), "after": timedelta(seconds=20)}
    clicks.join(others, on={"page": "where_"}, how="left", name="near", **near).to("near")
    rates = app.stream("rates", schema="page string, rate bigint, at timestamp", time="at")
    table = rates.to_table("page", name="rates").select("page", "rate")
    clicks.join(table, on="page", how="left", as_of="event time", name="then").to("then")
    clicks.join(table, on="page", how="left", name="now").to("now")


def processors(app):
    clicks = app.stream("clicks", schema="user string, n bigint, at timestamp", time="at")
    clicks.process(Log(), by="user", name="log").stream.to("log")


def sent(driver, dice, batch):
    for _ in range(dice.randint(0, 25)):
        at = NOON + timedelta(seconds=60 * batch + dice.randint(-40, 60))
        user, page = f"u{dice.randint(0, 12)}", f"/{dice.randint(0, 5)}"
        row = {"user": user, "page": page, "n": dice.randint(0, 10), "at": at.isoformat()}
        driver.send("clicks", row)
        rate = {"page": page, "rate": dice.randint(1, 9), "at": row["at"]}
        if dice.random() < 0.3 and any(s.topic == "rates" for s in driver.program.sources):
            driver.send("rates", rate)


def moved(driver, build, pages):
    """As `riverrun rescale` does it: the checkpoint for so many pages, and the program."""
    before, now = driver.program.pages, Driver(made(build, pages)).program
    kept = driver.checkpoint
    stores, heads, kept.stores, kept.heads = kept.stores, kept.heads, {}, {}
    for level in range(driver.program.levels):
        known = {
            page: Head(**json.loads(data)) for (at, page), data in heads.items() if at == level
        }
        moving = Repaging(before, pages, known)
        for page, head in known.items():
            for step, lists in head.segments.items():
                for name, ids in lists.items():
                    for age, each in enumerate(reversed(ids)):
                        rows = unpack(stores[level, page].data[each])
                        moving.add(List(step, name), page, age, rows)
        for page in range(pages):
            head, segments = moving.page(page, Names(0))
            kept.heads[level, page] = json.dumps(vars(head)).encode()
            kept.stores[level, page] = MemoryStore(segments)
    driver.shape = {**driver.shape, "pages": pages}
    driver.restart(made(build, pages))
    assert driver.program.pages == now.pages


def made(build, pages):
    app = rr.App("moving", pages=pages)
    build(app)
    return app


@pytest.mark.parametrize("build", [windows, tables, joins, processors])
def test_after_a_change_of_pages_every_line_is_the_same(build):
    for seed in range(3):
        plain, moving = Driver(made(build, 4)), Driver(made(build, 4))
        dice = [random.Random(seed), random.Random(seed)]
        for batch in range(7):
            found = []
            for driver, own in zip((plain, moving), dice, strict=True):
                sent(driver, own, batch)
                driver.tick += 45_000_000
                found.append(driver.batch())
            assert found[0] == found[1], (seed, batch)
            if batch in (1, 3, 4):
                plain.restart()  # what may be late is not known after either
                moved(moving, build, {1: 12, 3: 5, 4: 1}[batch])
        assert plain.end() == moving.end()
        assert plain.last.state.keys() == moving.last.state.keys()


def test_rows_that_are_in_every_page_are_refused():
    rows = pl.DataFrame(
        {"__slot": [0], "__hash": [5]}, schema={"__slot": pl.Int64, "__hash": pl.UInt64}
    )
    moving = Repaging(4, 8, {0: Head(), 1: Head()})
    moving.add(List("users", ""), 1, 0, rows)
    with pytest.raises(CheckpointError, match="do not go by its key"):
        moving.add(List("users", ""), 0, 0, rows)


def test_whoever_is_killed_in_a_swap_leaves_the_old_state(tmp_path):
    (tmp_path / "query").mkdir()
    (tmp_path / "query" / "old").touch()
    (tmp_path / "query").rename(tmp_path / checkpoint.REPLACED)  # and here it is killed
    with checkpoint.held(tmp_path, "app"):
        assert (tmp_path / "query" / "old").exists()
        assert not (tmp_path / checkpoint.REPLACED).exists()
    (tmp_path / checkpoint.REPLACED).mkdir()  # or here, when the new one is there
    with checkpoint.held(tmp_path, "app"):
        assert (tmp_path / "query" / "old").exists()
        assert not (tmp_path / checkpoint.REPLACED).exists()


PROGRAM = """
import riverrun as rr
app = rr.App("{name}", pages={pages})
schema = "user string, page string, n bigint, at timestamp"
clicks = app.stream("{name}-clicks", schema=schema, time="at")
clicks.group_by("user", name="minutes").window(rr.tumbling("1 minute"), updatable="1 minute").agg(
    n=rr.count(), total=rr.sum("n")).to("{name}-minutes")
users = clicks.group_by("user", name="users").agg(n=rr.count())
users.to("{name}-users")
users.group_by("n", name="sizes").agg(users=rr.count()).to("{name}-sizes")
others = clicks.select("user as who", "page as where_", "n as m")
near = dict(before="5 seconds", after="5 seconds", name="near")
clicks.join(others, on={{"page": "where_"}}, **near).to("{name}-near")
"""


def clicks(count, start):
    dice = random.Random(start)
    at = [NOON + timedelta(seconds=start + n // 4 + dice.randint(-5, 5)) for n in range(count)]
    return [
        {"user": f"u{dice.randint(0, 40)}", "page": f"/{dice.randint(0, 30)}", "n": n,
         "at": when.isoformat()}
        for n, when in enumerate(at)
    ]  # fmt: skip


@pytest.mark.broker
@pytest.mark.spark
def test_a_job_goes_on_with_other_pages_as_if_nothing_had_happened(
    broker, tmp_path, once, riverrun
):
    def program(name, pages):
        file = tmp_path / f"{name}.py"
        file.write_text(PROGRAM.format(name=name, pages=pages))
        return file

    for name in ("paged", "plain"):
        admin.create_topic(broker, f"{name}-clicks")
        produce(broker, f"{name}-clicks", clicks(400, 0))
        once(program(name, 8))
    made = json.loads(once.command("rescale", "paged", "--pages", "24", "--json").out)
    assert (made["before"], made["now"]) == (8, 24)
    refused = once(program("paged", 8), code=2).error()
    assert "pages changed" in refused
    for name, pages in (("paged", 24), ("plain", 8)):
        produce(broker, f"{name}-clicks", clicks(400, 90))
        once(program(name, pages), "--close")
    for output in ("minutes", "users", "sizes", "near"):
        found, wanted = (
            sorted(records(broker, f"{name}-{output}"), key=str) for name in ("paged", "plain")
        )
        assert found == wanted, output
    state = json.loads(riverrun("state", "paged", "--json").out)
    assert state["pages"] == 24
