"""Chained steps, duplicates and local days at random, against plain references."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.testing import Driver
from thorough import examples

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = "shop string, country string, total bigint, at timestamp"

few = settings(deadline=None, max_examples=examples(12))
event = st.fixed_dictionaries(
    {
        "after": st.integers(0, 300),
        "shop": st.sampled_from(["s", "t", None]),
        "country": st.sampled_from(["NO", "SE", None]),
        "total": st.integers(-3, 3) | st.none(),
    }
)
batches = st.lists(st.lists(event, max_size=8), min_size=1, max_size=6)
mishaps = st.lists(st.sampled_from(["", "", "crash", "restart"]), min_size=6, max_size=6)

FINAL = {
    "n": (rr.count(), pl.len()),
    "sum": (rr.sum("total"), pl.when(pl.col("total").count() > 0).then(pl.col("total").sum())),
    "least": (rr.min("total"), pl.col("total").min()),
    "most": (rr.max("total"), pl.col("total").max()),
    "kinds": (rr.distinct("total"), pl.col("total").drop_nulls().n_unique()),
}


def chained(window, emit):
    app = rr.App("oracle", pages=3)
    stream = app.stream("orders", schema=SCHEMA, time="at")
    grouped = stream.group_by("shop", "country", name="first")
    upstream = grouped.window(window, updatable="2 minutes", emit=emit).agg(total=rr.sum("total"))
    upstream.to("upstream")
    upstream.group_by("country", name="second").agg(**{k: v[0] for k, v in FINAL.items()}).to("out")
    return Driver(app)


def tell(driver, batches, mishaps):
    for batch, mishap in zip(batches, mishaps, strict=False):
        for row in batch:
            at = (NOON + timedelta(seconds=row["after"])).isoformat()
            driver.send("orders", {**row, "at": at})
        if mishap:
            getattr(driver, mishap)()
        driver.batch()


@pytest.mark.parametrize(
    "window",
    [rr.tumbling("1 minute"), rr.hopping("1 minute", "30 seconds"), rr.session("20 seconds")],
    ids=lambda window: window.kind,
)
@few
@given(st.sampled_from(["changes", "ready", "final"]), batches, mishaps)
def test_a_table_of_a_table_is_that_of_its_final_rows(window, emit, batches, mishaps):
    driver = chained(window, emit)
    tell(driver, batches, mishaps)
    for _ in ("as it stands", "at the end"):
        rows = [{k: r[k] for k in ("country", "total")} for r in driver.table("upstream")]
        frame = pl.DataFrame(rows, schema={"country": pl.String, "total": pl.Int64})
        wanted = frame.group_by("country").agg(*(v[1].alias(k) for k, v in FINAL.items()))
        assert Counter(map(str, driver.table("out"))) == Counter(map(str, wanted.to_dicts()))
        driver.end()


def first_ones(batches, within):
    """Which rows pass, and which are late, told row by row."""
    clock, passed, late, taken = -(10**9), [], [], {}
    number = 0
    for batch in batches:
        numbered = [(row["after"], number + n, row["shop"]) for n, row in enumerate(batch)]
        number += len(batch)
        for at, place, key in sorted(numbered, key=lambda row: row[:2]):
            if at <= clock - within:
                late.append(place)
            elif all(abs(at - other) >= within for other in taken.get(key, [])):
                taken.setdefault(key, []).append(at)
                passed.append(place)
        clock = max([clock, *(at for at, _, _ in numbered)])
    return sorted(passed), sorted(late)


close = st.fixed_dictionaries(
    {"after": st.integers(0, 40), "shop": st.sampled_from("sst")}  # few keys, close together
)


@settings(deadline=None, max_examples=examples(25))
@given(
    st.sampled_from([1, 10, 15]),
    st.lists(st.lists(close, min_size=1, max_size=3), min_size=3, max_size=6),
    mishaps,
)
def test_the_first_of_duplicates_is_the_one_that_a_plain_loop_finds(within, batches, mishaps):
    app = rr.App("oracle", pages=2)
    stream = app.stream("orders", schema=SCHEMA, time="at").with_columns(place="_offset")
    once = stream.deduplicate("shop", within=timedelta(seconds=within), name="once")
    once.to("out")
    driver = Driver(app)
    tell(driver, batches, mishaps)
    found = [
        sorted(line["value"]["place"] for line in driver.outputs[name])
        for name in ("out", "once.late")
    ]
    assert tuple(found) == first_ones(batches, within)


moments = st.lists(
    st.datetimes(datetime(2025, 1, 1), datetime(2026, 12, 31))
    | st.sampled_from(  # when clocks change
        [
            datetime(2026, 3, 29, 0, 59, 59),
            datetime(2026, 3, 29, 1),
            datetime(2026, 10, 25, 0, 30),
            datetime(2026, 10, 25, 1, 30),
            datetime(2026, 4, 23, 22),
            datetime(2026, 10, 29, 21, 30),
            datetime(2026, 11, 1, 5, 30),
        ]
    ),
    min_size=1,
    max_size=30,
)


def windows_in(zone, size, times):
    app = rr.App("oracle", pages=2)
    stream = app.stream("t", schema="k string, at timestamp", time="at", max_ahead=None)
    stream.group_by("k").window(rr.tumbling(size, timezone=zone)).agg(n=rr.count()).to("out")
    driver = Driver(app)
    driver.send("t", *({"k": "k", "at": each.isoformat() + "Z"} for each in times))
    driver.batch()
    driver.end()
    return {datetime.fromisoformat(row["window_start"]): row["n"] for row in driver.table("out")}


@few
@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
    st.sampled_from([("1 day", "1d"), ("1 week", "1w")]),
    moments,
)
def test_local_days_and_weeks_begin_where_polars_says(zone, size, times):
    local = pl.Series(times, dtype=pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    starts = local.dt.truncate(size[1]).dt.convert_time_zone("UTC")
    assert windows_in(zone, size[0], times) == Counter(starts.to_list())


@few
@given(st.sampled_from(["Africa/Cairo", "Asia/Beirut", "America/Havana"]), moments)
def test_where_clocks_change_at_midnight_a_window_is_a_date(zone, times):
    local = pl.Series(times, dtype=pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    found = windows_in(zone, "1 day", times)
    starts = pl.Series(list(found), dtype=pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    dates = dict(zip(starts.dt.date().to_list(), found.values(), strict=True))
    assert dates == Counter(local.dt.date().to_list())
