"""Random programs on random input: the driver against Polars over the whole input at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.testing import Driver

NOON = datetime(2026, 1, 1, 12)
SCHEMA = "id bigint, page string, user bigint, x double, at timestamp"

AGGREGATES = {
    "n": (rr.count(), pl.len()),
    "known": (rr.count("x"), pl.col("x").count()),
    "total": (rr.sum("x"), pl.when(pl.col("x").count() > 0).then(pl.col("x").sum())),
    "users": (rr.sum("user"), pl.when(pl.col("user").count() > 0).then(pl.col("user").sum())),
    "mean": (rr.avg("x"), pl.col("x").mean()),
    "least": (rr.min("x"), pl.col("x").min()),
    "most": (rr.max("page"), pl.col("page").max()),
    "first": (rr.first("x"), pl.col("x").drop_nulls().first()),
    "last": (rr.last("x"), pl.col("x").drop_nulls().last()),
    "all": (rr.collect("x"), pl.col("x").drop_nulls()),
}
CONDITIONS = {
    None: pl.lit(True),
    "x > 0": pl.col("x") > 0,
    "page <> '/b' or user = 1": (pl.col("page") != "/b") | (pl.col("user") == 1),
}
EVENT = {
    "id": pl.Int64, "topic": pl.String, "partition": pl.Int64, "page": pl.String,
    "user": pl.Int64, "x": pl.Float64, "at": pl.Datetime("us"),
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A program: what it reads, keeps, groups by and computes."""

    topics: tuple[str, ...]
    condition: str | None
    keys: tuple[str, ...]
    size: int
    """Seconds; 0 is no window."""
    updatable: int
    emit: str
    lateness: int
    aggregates: tuple[str, ...]
    pages: int

    def driver(self) -> Driver:
        return Driver(self.app())

    def app(self) -> rr.App:
        app = rr.App("oracle", pages=self.pages)
        late = timedelta(seconds=self.lateness)
        streams = [app.stream(t, schema=SCHEMA, time="at", lateness=late) for t in self.topics]
        rows = streams[0].union(*streams[1:]) if streams[1:] else streams[0]
        if self.condition:
            rows = rows.where(self.condition)
        grouped = rows.group_by(*self.keys, name="step")
        if self.size:
            window = rr.tumbling(timedelta(seconds=self.size))
            updatable = timedelta(seconds=self.updatable)
            grouped = grouped.window(window, updatable=updatable, emit=self.emit)
        grouped.agg(**{name: AGGREGATES[name][0] for name in self.aggregates}).to("out")
        return app


@dataclass(frozen=True)
class Event:
    topic: str
    partition: int
    after: int
    """Seconds after noon; some are before."""
    page: str | None
    user: int | None
    x: float | None


shapes = st.builds(
    Shape,
    topics=st.sampled_from([("a",), ("a",), ("a", "b")]),
    condition=st.sampled_from(list(CONDITIONS)),
    keys=st.sampled_from([("page",), ("user",), ("page", "user")]),
    size=st.sampled_from([0, 10, 60, 60, 77]),
    updatable=st.sampled_from([0, 0, 30, 120]),
    emit=st.sampled_from(["changes", "ready", "final"]),
    lateness=st.sampled_from([0, 5, 60]),
    aggregates=st.just(tuple(AGGREGATES))
    | st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, unique=True).map(tuple),
    pages=st.integers(1, 3),
)
events = st.builds(
    Event,
    topic=st.sampled_from("ab"),
    partition=st.integers(0, 2),
    after=st.integers(-50, 250),
    page=st.sampled_from([None, "/a", "/b"]),
    user=st.sampled_from([None, 1, 2]),
    x=st.none() | st.integers(-64, 64).map(lambda n: n / 8),  # sums of these are exact
)
seconds = st.sampled_from([0, 0, 1, 9, 30])
batches = st.lists(st.tuples(st.lists(events, max_size=8), seconds), min_size=1, max_size=6)
"""Events, and the seconds of wall clock that pass before their batch."""
mishaps = st.lists(st.sampled_from(["", "", "crash", "restart"]), min_size=6, max_size=6)

oracle, twice = (settings(deadline=None, max_examples=count) for count in (50, 20))


def run(shape, batches, mishaps=("",) * 6):
    """Sends and reads batch by batch, then ends the input; returns the driver and all its lines."""
    driver, lines, number = shape.driver(), [], 0
    for (batch, seconds), mishap in zip(batches, mishaps, strict=False):
        driver.tick += seconds * 1_000_000
        for event in batch:
            topic = event.topic if event.topic in shape.topics else "a"
            value = {"id": number, "page": event.page, "user": event.user, "x": event.x}
            value["at"] = (NOON + timedelta(seconds=event.after)).isoformat() + "Z"
            driver.send(topic, value, partition=event.partition)
            number += 1
        if mishap:
            getattr(driver, mishap)()
        lines += driver.batch()
    lines += driver.end()
    return driver, lines


def kept(shape, batches):
    """The rows that enter the step, in canonical order."""
    rows = [
        {"id": number, "topic": e.topic if e.topic in shape.topics else "a",
         "partition": e.partition, "page": e.page, "user": e.user, "x": e.x,
         "at": NOON + timedelta(seconds=e.after)}
        for number, e in enumerate(e for batch, _ in batches for e in batch)
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=EVENT).filter(CONDITIONS[shape.condition])
    return frame.sort("at", "topic", "partition", "id")


def expected(shape, rows):
    """The table that Polars computes from the rows."""
    keys = [pl.col(key) for key in shape.keys]
    if shape.size:
        at = pl.col("at").dt.timestamp("us")
        keys.append((at - at % (shape.size * 1_000_000)).alias("window_start"))
    results = (AGGREGATES[name][1].alias(name) for name in shape.aggregates)
    return normal(shape, rows.group_by(keys, maintain_order=True).agg(*results).to_dicts())


def normal(shape, rows):
    """Rows by key, with times as numbers."""
    found = {}
    for row in rows:
        start = row.pop("window_start", None)
        if isinstance(start, str):
            start = round(datetime.fromisoformat(start).astimezone(UTC).timestamp() * 1_000_000)
        row.pop("window_end", None)
        found[(*(row[key] for key in shape.keys), start)] = row
    assert len(found) == len(rows)
    return found


def late_ids(driver):
    return [line["value"]["id"] for line in driver.outputs.get("step.late", [])]


@oracle
@given(shapes, batches, mishaps)
def test_the_table_is_that_of_all_rows_but_the_late_ones(shape, batches, mishaps):
    driver, _ = run(shape, batches, mishaps)
    rows, late = kept(shape, batches), late_ids(driver)
    assert len(set(late)) == len(late) == sum(driver.status.late.values())
    assert set(late) <= set(rows["id"])
    on_time = rows.filter(~pl.col("id").is_in(late))
    assert normal(shape, driver.table("out")) == expected(shape, on_time)
    assert driver.status.dead == 0


@twice
@given(shapes, batches, mishaps)
def test_crashes_restarts_and_replays_change_no_line(shape, batches, mishaps):
    driver, lines = run(shape, batches, mishaps)
    assert lines == run(shape, batches)[1]
    assert driver.replay() == lines


@twice
@given(shapes, batches)
def test_rows_combined_before_the_exchange_or_not_give_the_same_lines(shape, batches):
    assert run(shape, batches, ["restart"] * 6)[1] == run(shape, batches)[1]


@twice
@given(shapes, batches)
def test_the_number_of_pages_changes_no_line(shape, batches):
    assert run(replace(shape, pages=1), batches)[1] == run(replace(shape, pages=7), batches)[1]


@twice
@given(
    shapes.map(lambda shape: replace(shape, lateness=3600)),
    st.lists(events, max_size=20, unique_by=lambda event: event.after),
    st.data(),
)
def test_with_lateness_enough_cuts_and_partitions_do_not_matter(shape, events, data):
    for _ in range(2):
        spread = [replace(e, partition=data.draw(st.integers(0, 3))) for e in events]
        cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
        bounds = zip([0, *cuts], [*cuts, len(events)], strict=True)
        cut = [(spread[start:end], 0) for start, end in bounds]
        driver, _ = run(shape, cut)
        assert late_ids(driver) == []
        assert normal(shape, driver.table("out")) == expected(shape, kept(shape, [(events, 0)]))


@oracle
@given(shapes, batches)
def test_every_change_takes_back_the_row_before_it(shape, batches):
    _, lines = run(shape, batches)
    standing = {}
    for line in lines:
        if line["output"] != "out":
            continue
        key = str(line["key"])
        before = standing.pop(key, None)
        if line["op"] == "-":
            assert before == (line["value"], line["revision"])
            standing[key] = (None, line["revision"])
        else:
            assert before in (None, (None, line["revision"] - 1))
            standing[key] = (line["value"], line["revision"])
    assert all(value is not None for value, _ in standing.values())
