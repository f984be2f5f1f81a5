"""Random programs on random input: the driver against Polars over the whole input at once."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.operators.aggregate import Window
from riverrun.operators.windows import panes
from riverrun.testing import Driver
from thorough import examples

NOON, EPOCH = datetime(2026, 1, 1, 12), datetime(1970, 1, 1)
SCHEMA = "id bigint, page string, user bigint, x double, at timestamp, tick boolean, source string"

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
    "spread": (rr.variance("x"), pl.col("x").var()),
    "deviation": (rr.stddev("user"), pl.col("user").std()),
    "kinds": (rr.distinct("x"), pl.col("x").drop_nulls().n_unique()),
    "middle": (rr.median("x"), pl.col("x").median()),
    "high": (rr.percentile("x", 0.9), pl.col("x").quantile(0.9, "linear")),
    "quarters": (
        rr.percentile("x", [0.25, 0.75]),
        pl.when(pl.col("x").count() > 0).then(
            pl.concat_list(pl.col("x").quantile(q, "linear") for q in (0.25, 0.75))
        ),
    ),
    "pages": (rr.top("page", k=1), pl.col("page").drop_nulls()),
    "speed": (rr.rate(), pl.len() / pl.col("size").first()),
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


WINDOWS = [
    rr.all_time(),
    rr.tumbling("10 seconds"),
    rr.tumbling("1 minute"),
    rr.tumbling("77 seconds", offset="5 seconds"),
    rr.hopping("1 minute", "20 seconds"),
    rr.hopping("50 seconds", "20 seconds", offset="7 seconds"),
    rr.hopping("10 seconds", "1 second"),
    rr.sliding("30 seconds"),
    rr.sliding("1 second"),
    rr.session("10 seconds"),
    rr.session("45 seconds"),
]


@dataclass(frozen=True)
class Shape:
    """A program: what it reads, keeps, groups by and computes."""

    topics: tuple[str, ...]
    condition: str | None
    keys: tuple[str, ...]
    window: Window
    updatable: int
    emit: str
    lateness: int
    aggregates: tuple[str, ...]
    pages: int
    producer: str | None = None
    compared: dict[str, object] | None = None

    def driver(self) -> Driver:
        return Driver(self.app())

    def app(self) -> rr.App:
        app = rr.App("oracle", pages=self.pages)
        late = timedelta(seconds=self.lateness)
        options = {"time": "at", "lateness": late, "punctuation": "tick", "producer": self.producer}
        streams = [app.stream(t, schema=SCHEMA, **options) for t in self.topics]
        rows = streams[0].union(*streams[1:]) if streams[1:] else streams[0]
        if self.condition:
            rows = rows.where(self.condition)
        grouped = rows.group_by(*self.keys, name="step")
        if self.window.kind != "all":
            updatable = timedelta(seconds=self.updatable)
            grouped = grouped.window(self.window, updatable=updatable, emit=self.emit)
        chosen = {name: AGGREGATES[name][0] for name in self.computed}
        grouped.agg(**(self.compared or chosen)).to("out")
        return app

    @property
    def computed(self) -> tuple[str, ...]:
        """Without a window there is no rate."""
        chosen = tuple(
            name for name in self.aggregates if self.window.kind != "all" or name != "speed"
        )
        return chosen or ("n",)


@dataclass(frozen=True)
class Event:
    topic: str
    partition: int
    after: int
    """Seconds after noon; some are before."""
    page: str | None
    user: int | None
    x: float | None
    tick: bool = False
    """Whether it is a punctuation: nothing before this time any more, from this source."""


shapes = st.builds(
    Shape,
    topics=st.sampled_from([("a",), ("a",), ("a", "b")]),
    condition=st.sampled_from(list(CONDITIONS)),
    keys=st.sampled_from([("page",), ("user",), ("page", "user")]),
    window=st.sampled_from(WINDOWS),
    updatable=st.sampled_from([0, 0, 30, 120]),
    emit=st.sampled_from(["changes", "ready", "final"]),
    lateness=st.sampled_from([0, 5, 60]),
    aggregates=st.just(tuple(AGGREGATES))
    | st.lists(st.sampled_from(list(AGGREGATES)), min_size=1, unique=True).map(tuple),
    pages=st.integers(1, 3),
    producer=st.sampled_from([None, None, "source"]),
)
events = st.builds(
    Event,
    topic=st.sampled_from("ab"),
    partition=st.integers(0, 2),
    after=st.integers(-20, 40) | st.integers(-50, 250),
    page=st.sampled_from([None, "/a", "/b"]),
    user=st.sampled_from([None, 1, 2]),
    x=st.none() | st.integers(-64, 64).map(lambda n: n / 8),  # sums of these are exact
    tick=st.sampled_from([False] * 9 + [True]),
)
seconds = st.sampled_from([0, 0, 1, 9, 30])
batches = st.lists(st.tuples(st.lists(events, max_size=8), seconds), min_size=1, max_size=6)
"""Events, and the seconds of wall clock that pass before their batch."""
mishaps = st.lists(st.sampled_from(["", "", "crash", "restart"]), min_size=6, max_size=6)

oracle, twice = (settings(deadline=None, max_examples=examples(count)) for count in (6, 10))
every_window = pytest.mark.parametrize("window", WINDOWS, ids=str)


def run(shape, batches, mishaps=("",) * 6):
    """Sends and reads batch by batch, then ends the input; returns the driver and all its lines."""
    driver, lines, number = shape.driver(), [], 0
    for (batch, seconds), mishap in zip(batches, mishaps, strict=False):
        driver.tick += seconds * 1_000_000
        for event in batch:
            topic = event.topic if event.topic in shape.topics else "a"
            value = {"id": number, "page": event.page, "user": event.user, "x": event.x}
            value["at"] = (NOON + timedelta(seconds=event.after)).isoformat() + "Z"
            value |= {"tick": event.tick, "source": f"{event.partition}/{topic}"}
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
        if not e.tick
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=EVENT).filter(CONDITIONS[shape.condition])
    return frame.sort("at", "topic", "partition", "id")


def expected(shape, rows):
    """The table that Polars computes from the rows."""
    keys = list(shape.keys)
    results = [AGGREGATES[name][1].alias(name) for name in shape.computed]
    members = pl.DataFrame(
        list(memberships(shape, rows)),
        schema={"id": pl.Int64, "window": pl.Int64, "event": pl.Int64}, orient="row",
    )  # fmt: skip
    groups = members.join(rows, on="id", maintain_order="left")
    order, group = ["at", "topic", "partition", "id"], [*keys, "window", "event"]
    size = pl.lit(getattr(shape.window, "size", 0))
    if shape.window.kind == "session":
        size += (pl.col("at").max() - pl.col("at").min()).dt.total_microseconds().over(group)
    groups = groups.with_columns((size / 1_000_000).alias("size"))
    found = groups.sort(order).group_by(group, maintain_order=True).agg(*results)
    table = found.to_dicts()
    for row in table:
        if "pages" in row:
            row["pages"] = most(row["pages"])
    return {
        (*(row[key] for key in keys), row.pop("window"), row.pop("event")): row for row in table
    }


def most(pages):
    counts = sorted((-count, page) for page, count in Counter(pages).items())
    return [{"value": page, "count": -count} for count, page in counts[:1]]


def memberships(shape, rows):
    """(row, start of window, row that a sliding window belongs to) for all that count."""
    window, second = shape.window, 1_000_000
    times = {r["id"]: (r["at"] - EPOCH) // timedelta(microseconds=1) for r in rows.to_dicts()}
    keyed = {}
    for row in rows.to_dicts():
        keyed.setdefault(tuple(row[key] for key in shape.keys), []).append(row["id"])
    for ids in keyed.values():
        if window.kind == "sliding":
            yield from (
                (other, 0, one)
                for one in ids
                for other in ids
                if times[one] - window.size < times[other] <= times[one]
            )
        elif window.kind == "session":
            start, end = None, None
            for one in sorted(ids, key=times.get):
                if start is None or times[one] >= end:
                    start = times[one]
                end = times[one] + window.size
                yield one, start, -1
        elif window.kind == "all":
            yield from ((one, 0, -1) for one in ids)
        else:
            for one in ids:
                earliest = times[one] // second * second - window.size
                for start in range(earliest, times[one] + 1, second):
                    aligned = (start - window.offset) % window.hop == 0
                    if aligned and start <= times[one] < start + window.size:
                        yield one, start, -1


def normal(shape, rows):
    """The driver's rows by key, window and event, without the columns that name these."""
    found = {}
    for row in rows:
        start = row.pop("window_start", None)
        row.pop("window_end", None)
        start = moment(start) if start and shape.window.kind != "sliding" else 0
        row.pop("event", None)
        event = row["id"] if shape.window.kind == "sliding" else -1
        place = (*(row[key] for key in shape.keys), start, event)
        found[place] = {name: row[name] for name in (*shape.keys, *shape.computed)}
    assert len(found) == len(rows)
    return found


def moment(text):
    aware = datetime.fromisoformat(text).astimezone(UTC)
    return round(aware.timestamp() * 1_000_000)


def alike(found, wanted):
    """Equal, but for the last digits of numbers: the cut decides those of a variance."""
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(alike(found[k], wanted[k]) for k in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(alike, found, wanted))
    return found == wanted


def late_ids(driver):
    return [line["value"]["id"] for line in driver.outputs.get("step.late", [])]


@every_window
@oracle
@given(shapes, batches, mishaps)
def test_the_table_is_that_of_all_rows_but_the_late_ones(window, shape, batches, mishaps):
    shape = replace(shape, window=window)
    driver, _ = run(shape, batches, mishaps)
    rows, late = kept(shape, batches), late_ids(driver)
    assert len(set(late)) == len(late) == sum(driver.status.late.values())
    assert set(late) <= set(rows["id"])
    on_time = rows.filter(~pl.col("id").is_in(late))
    assert alike(normal(shape, driver.table("out")), expected(shape, on_time))
    assert driver.status.dead == 0


@twice
@given(shapes, batches, mishaps)
def test_crashes_restarts_and_replays_change_no_line(shape, batches, mishaps):
    driver, lines = run(shape, batches, mishaps)
    assert alike(lines, run(shape, batches)[1])
    assert alike(driver.replay(), lines)


@twice
@given(shapes, batches)
def test_rows_combined_before_the_exchange_or_not_give_the_same_lines(shape, batches):
    assert alike(run(shape, batches, ["restart"] * 6)[1], run(shape, batches)[1])


@twice
@given(shapes, batches)
def test_the_number_of_pages_changes_no_line(shape, batches):
    assert run(replace(shape, pages=1), batches)[1] == run(replace(shape, pages=7), batches)[1]


@twice
@given(
    shapes.map(lambda shape: replace(shape, lateness=3600)),
    st.lists(
        events.map(lambda event: replace(event, tick=False)),
        max_size=20,
        unique_by=lambda event: event.after,
    ),
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
        wanted = expected(shape, kept(shape, [(events, 0)]))
        assert alike(normal(shape, driver.table("out")), wanted)


@every_window
@oracle
@given(shapes, batches)
def test_every_change_takes_back_the_row_before_it(window, shape, batches):
    _, lines = run(replace(shape, window=window), batches)
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
    if window.kind != "session":  # the start of a session may move, its row is another one then
        assert all(value is not None for value, _ in standing.values())


@pytest.mark.parametrize("window", [w for w in WINDOWS if w.kind == "hopping"], ids=str)
@settings(
    deadline=None,
    max_examples=examples(6),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(shapes, batches)
def test_panes_looked_up_or_scanned_give_the_same_lines(window, monkeypatch, shape, batches):
    shape = replace(shape, window=window)
    monkeypatch.setattr(panes, "SCAN_BEYOND", 0.0)
    scanned = run(shape, batches)[1]
    monkeypatch.setattr(panes, "SCAN_BEYOND", math.inf)
    assert run(shape, batches)[1] == scanned
