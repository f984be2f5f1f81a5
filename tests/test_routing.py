"""Routing: rows go along their branches once, and nowhere else."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.clock import Punctuation
from riverrun.edges import DEAD, MARK, STATUS, Edge
from riverrun.kernels import pages
from riverrun.kernels.chunks import unpack
from riverrun.kernels.messages import marks
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.state import SegmentCache
from riverrun.testing import Driver
from riverrun.testing.checkpoints import MemoryStore

EDGES = [
    DEAD, MARK, STATUS,
    Edge("source", "web.views-2"), Edge("step", "größe_by_maß", "right"),
    Edge("out", "webhook:https://host:8080/a/b"), Edge("out", "parquet:/a/b c"),
    Edge("stream", "p", "seen"), Edge("late", "a.b-c", "right"),
]  # fmt: skip


@pytest.mark.parametrize("edge", EDGES, ids=str)
def test_an_edge_is_read_as_it_was_written(edge):
    assert Edge.parse(str(edge)) == edge


def enriched() -> rr.App:
    """A step whose rows stay in their page, for the join with a table that is in every page."""
    app = rr.App("shop", pages=2)
    orders = app.stream("orders", schema="id int, user string, at timestamp", time="at")
    users = app.table("users", schema="id string, country string", key="id", replicate=True)
    once = orders.deduplicate("id", within="1 minute", name="once")
    once.join(users, on={"user": "id"}, how="left", prefix="user_", name="known").to("out")
    return app


def visited(app: rr.App, count: int = 20) -> list:
    """The chunks that leave the first page, given rows for its first step."""
    driver = Driver(app)
    program, reader = driver.program, driver.reader
    assert program.levels == 1
    for number in range(count):
        driver.send("orders", {"id": number, "user": "ann", "at": "2026-01-01T12:00:00Z"})
    chunks = driver._read({}, driver.topics.ends(), Punctuation())
    kernel = PageKernel(reader.program, 0, SegmentCache(1 << 20), "test")
    ours = [chunk for chunk in chunks if chunk.page == 0 and chunk.edge != MARK]
    _, out = kernel.visit(0, None, MemoryStore(), [*ours, *marks(Punctuation(), 1)])
    return out


def test_rows_that_stay_in_a_page_are_not_sent_to_the_writer_as_well():
    leaving = {chunk.edge for chunk in visited(enriched())}
    assert Edge("stream", "known") in leaving
    assert Edge("stream", "once") not in leaving
    assert {edge.kind for edge in leaving} == {"stream", "status"}


def test_rows_that_stay_in_a_page_are_not_packed(monkeypatch):
    packed = []
    real = pages.pack
    monkeypatch.setattr(pages, "pack", lambda frame: packed.append(frame.columns) or real(frame))
    out = visited(enriched())
    assert len(packed) == 1
    [known] = [unpack(chunk.data) for chunk in out if chunk.edge == Edge("stream", "known")]
    assert known.height > 0


def test_rows_that_stay_and_leave_do_both():
    app = enriched()
    app2 = rr.App("shop", pages=2)
    orders = app2.stream("orders", schema="id int, user string, at timestamp", time="at")
    users = app2.table("users", schema="id string, country string", key="id", replicate=True)
    once = orders.deduplicate("id", within="1 minute", name="once")
    once.join(users, on={"user": "id"}, how="left", prefix="user_", name="known").to("out")
    once.to("copy")
    assert app.program().levels == app2.program().levels == 1
    assert {Edge("stream", "once"), Edge("stream", "known")} <= {c.edge for c in visited(app2)}


def test_what_no_branch_takes_does_not_leave():
    class Two(rr.Processor):
        outputs = {"used": "n int", "unused": "n int"}

        def on_event(self, event, state, context):
            context.emit("used", n=event.n)
            context.emit("unused", n=event.n)

    app = rr.App("shop", pages=1)
    numbers = app.stream("orders", schema="id int, user string, at timestamp, n int", time="at")
    numbers.process(Two, by="user", name="two")["used"].to("out")
    assert Edge("stream", "two", "unused") not in {chunk.edge for chunk in visited(app)}
