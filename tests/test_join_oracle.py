"""Joins and tables at random, cut and restarted at random, against the same in DuckDB at once."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.testing import Driver
from thorough import examples

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = "k string, j bigint, v bigint, at timestamp"

few = settings(deadline=None, max_examples=examples(10))
hows = st.sampled_from(["inner", "left", "right", "full"])
kept = st.sampled_from(["inner", "left"])
row = st.fixed_dictionaries(
    {
        "after": st.integers(0, 60),
        "k": st.sampled_from(["p", "q", None]),
        "j": st.sampled_from([1, 2, None]),
        "v": st.integers(0, 3),
    }
)
batch = st.fixed_dictionaries(
    {"left": st.lists(row, max_size=5), "right": st.lists(row, max_size=5)}
)
batches = st.lists(batch, min_size=1, max_size=6)
mishaps = st.lists(st.sampled_from(["", "", "crash", "restart"]), min_size=6, max_size=6)


def event(row):
    at = NOON + timedelta(seconds=row["after"])
    return {**{name: row[name] for name in ("k", "j", "v")}, "at": at.isoformat()}


def run(driver, batches, mishaps, send):
    """Sends the batches; what a crash or restart does must not be seen."""
    for batch, mishap in zip(batches, mishaps, strict=False):
        send(driver, batch)
        if mishap:
            getattr(driver, mishap)()
        driver.batch()
    driver.end()


def send_events(driver, batch):
    for topic, rows in batch.items():
        driver.send(topic, *map(event, rows))


def sql(query, **tables):
    schema = {"k": pl.String, "j": pl.Int64, "v": pl.Int64, "after": pl.Int64, "n": pl.Int64}
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            frame = pl.DataFrame(rows, schema=schema) if isinstance(rows, list) else rows
            connection.register(name, frame.to_arrow())
        return Counter(map(str, connection.sql(query).pl().to_dicts()))


def told(rows, names):
    return Counter(str({name: each[name] for name in names}) for each in rows)


def numbered(batches, side):
    rows = [each for batch in batches for each in batch[side]]
    return [{**each, "n": number} for number, each in enumerate(rows)]


def in_order(batches):
    """The same rows in order of time, after one of each side that starts its clock."""
    start = {"after": 0, "k": "start", "j": None, "v": 0}
    cuts = [
        {side: sorted((r for b in batches for r in b[side] if low <= r["after"] < low + 20),
                      key=lambda row: row["after"]) for side in ("left", "right")}
        for low in (0, 20, 40, 60)
    ]  # fmt: skip
    return [{"left": [start], "right": [start]}, *cuts]


@settings(deadline=None, max_examples=examples(30))
@given(
    hows,
    batches | batches.map(in_order),
    mishaps,
    st.tuples(st.integers(0, 20), st.integers(0, 20)),
    st.tuples(
        st.sampled_from([None, "v <= w"]),
        st.booleans(),
        st.sampled_from(["later", "left", "right"]),
    ),
)
def test_streams_join_as_all_their_rows_do(how, batches, mishaps, bounds, conditions):
    (before, after), (where, two_keys, time) = bounds, conditions
    ordered = [row["k"] for row in batches[0]["left"]] == ["start"]
    lateness = "0 seconds" if ordered else "2 minutes"
    app = rr.App("oracle", pages=3)
    left, right = (
        app.stream(topic, schema=SCHEMA, time="at", lateness=lateness).with_columns(n="_offset")
        for topic in ("left", "right")
    )
    right = right.select("k", "j as i", "v as w", "n as m")
    on = {"k": "k", "j": "i"} if two_keys else "k"
    near = {"before": timedelta(seconds=before), "after": timedelta(seconds=after)}
    joined = left.join(right, on=on, how=how, where=where, time=time, **near)
    joined.to("out")
    # no row leaves the join later than the steps after it wait for it
    windows = joined.with_columns(one="1").group_by("one", name="after")
    windows.window(rr.tumbling("1 second")).agg(n=rr.count()).to("counts")
    driver = Driver(app)
    run(driver, batches, mishaps, send_events)
    assert not driver.outputs["left_join_right.late"]
    assert not driver.outputs["after.late"]
    assert sum(each["n"] for each in driver.table("counts")) == len(driver.outputs["out"])
    found = told([line["value"] for line in driver.outputs["out"]], ("n", "m"))
    matches = ["l.k = r.k", f"r.after BETWEEN l.after - {before} AND l.after + {after}"]
    matches += ["l.j = r.j"] if two_keys else []
    matches += ["l.v <= r.v"] if where else []
    wanted = sql(
        f"SELECT l.n, r.n AS m FROM l {how} JOIN r ON {' AND '.join(matches)}",
        l=numbered(batches, "left"),
        r=numbered(batches, "right"),
    )
    assert found == wanted


change = st.fixed_dictionaries(
    {
        "id": st.integers(0, 3),
        "k": st.sampled_from(["p", "q", None]),
        "v": st.integers(0, 2),
        "gone": st.sampled_from([False, False, False, True]),
    }
)
change_batch = st.fixed_dictionaries(
    {"left": st.lists(change, max_size=4), "right": st.lists(change, max_size=4)}
)
changes = st.lists(change_batch, min_size=1, max_size=6)


def send_changes(driver, batch):
    for topic, rows in batch.items():
        for each in rows:
            value = None if each["gone"] else {name: each[name] for name in ("id", "k", "v")}
            driver.send(topic, value, key=str(each["id"]))


def standing(batches, topic):
    """The table after all its changes."""
    rows = {}
    for each in (each for batch in batches for each in batch[topic]):
        rows.pop(each["id"], None)
        if not each["gone"]:
            rows[each["id"]] = {name: each[name] for name in ("id", "k", "v")}
    schema = {"id": pl.Int64, "k": pl.String, "v": pl.Int64}
    return pl.DataFrame(list(rows.values()), schema=schema)


def tables(app):
    schema = "id bigint, k string, v bigint"
    return (app.table(topic, schema=schema, key="id") for topic in ("left", "right"))


PAIRINGS = {
    "primary keys": ("id", "l.id = r.id"),
    "a foreign key": ({"v": "id"}, "l.v = r.id"),
    "the other's foreign key": ({"id": "v"}, "l.id = r.v"),
    "many to many": ("k", "l.k = r.k"),
}


@pytest.mark.parametrize("pairing", PAIRINGS)
@few
@given(hows, changes, mishaps)
def test_tables_join_as_they_stand(pairing, how, batches, mishaps):
    on, condition = PAIRINGS[pairing]
    app = rr.App("oracle", pages=3)
    left, right = tables(app)
    left.join(right, on=on, how=how, prefix="r_").to("out")
    driver = Driver(app)
    names = ("id", "k", "v", "r_id", "r_k", "r_v")
    shared = {"primary keys": "id", "many to many": "k"}.get(pairing)
    shown = [name for name in names if name != f"r_{shared}"]
    places = {n: f"r.{n[2:]}" if n.startswith("r_") else f"l.{n}" for n in shown}
    places |= {shared: f"coalesce(l.{shared}, r.{shared})"} if shared else {}
    columns = [f"{place} AS {name}" for name, place in places.items()]
    for number, (batch, mishap) in enumerate(zip(batches, mishaps, strict=False), 1):
        send_changes(driver, batch)
        if mishap:
            getattr(driver, mishap)()
        out = driver.batch()
        balanced(out)
        so_far = batches[:number]
        wanted = sql(
            f"SELECT {', '.join(columns)} FROM l {how} JOIN r ON {condition}",
            l=standing(so_far, "left"),
            r=standing(so_far, "right"),
        )
        assert told(driver.table("out"), shown) == wanted


def balanced(lines):
    """No row is taken back and put there again in one batch."""
    ops = Counter()
    for line in lines:
        ops[str((line["output"], line["value"]))] += 1
    assert all(count == 1 for count in ops.values())


@few
@given(changes, mishaps)
def test_tables_filtered_grouped_and_ranked_follow_every_change(batches, mishaps):
    app = rr.App("oracle", pages=3)
    table, _ = tables(app)
    table.where("v > 0").select("id", "k", double="v * 2").to("filtered")
    table.group_by("k").agg(n=rr.count(), total=rr.sum("v"), least=rr.min("v")).to("grouped")
    table.group_by("k").top(2, by="v", place="place").to("top")
    table.group_by("k", name="low").bottom(1, by="v").to("bottom")
    driver = Driver(app)
    for number, (batch, mishap) in enumerate(zip(batches, mishaps, strict=False), 1):
        send_changes(driver, {"left": batch["left"]})
        if mishap:
            getattr(driver, mishap)()
        balanced(driver.batch())
        t = standing(batches[:number], "left")
        queries = {
            "filtered": "SELECT id, k, v * 2 AS double FROM t WHERE v > 0",
            "grouped": "SELECT k, count(*) AS n, sum(v)::BIGINT AS total, min(v) AS least"
            " FROM t GROUP BY k",
            "top": "SELECT id, k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC, id)"
            " AS place FROM t QUALIFY place <= 2",
            "bottom": "SELECT id, k, v FROM t"
            " QUALIFY row_number() OVER (PARTITION BY k ORDER BY v, id) = 1",
        }
        for name, query in queries.items():
            assert Counter(map(str, driver.table(name))) == sql(query, t=t)


@few
@given(kept, changes, mishaps, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_latest_is_the_table_after_the_batch(how, batches, mishaps, options):
    """A table's changes come first in each batch; then rows meet the table as it stands. One that
    is replicated needs no exchange, also after another step."""
    replicate, derived, first = options
    app = rr.App("oracle", pages=3)
    schema = "id bigint, k string, v bigint"
    left = app.stream("left", schema=schema).with_columns(n="_offset")
    right = app.table("right", schema=schema, key="id", replicate=replicate)
    if derived:
        right = right.group_by("id").agg(v=rr.sum("v"), k=rr.max("k"))
    right = right.where("v > 0").select("id", "v as w")
    if first:
        left = left.deduplicate("n", within="1 hour")
    left.join(right, on={"v": "id"}, how=how, prefix="r_", name="joined").to("out")
    driver = Driver(app)
    levels = {step.name: step.level for step in driver.program.steps}
    assert levels["joined"] == (2 if derived else 1 if first and not replicate else 0)
    wanted, count = Counter(), 0
    for number, (batch, mishap) in enumerate(zip(batches, mishaps, strict=False), 1):
        send_changes(driver, {"left": [{**e, "gone": False} for e in batch["left"]]})
        send_changes(driver, {"right": batch["right"]})
        if mishap:
            getattr(driver, mishap)()
        driver.batch()
        rows = [{**each, "n": count + i} for i, each in enumerate(batch["left"])]
        count += len(rows)
        types = {"n": pl.Int64, "v": pl.Int64}
        wanted += sql(
            f"SELECT l.n, r.v AS r_w FROM l {how} JOIN (FROM r WHERE v > 0) r ON l.v = r.id",
            l=pl.DataFrame([{n: each[n] for n in types} for each in rows], schema=types),
            r=standing(batches[:number], "right"),
        )
    assert told([line["value"] for line in driver.outputs["out"]], ("n", "r_w")) == wanted


version = st.fixed_dictionaries(
    {
        "after": st.integers(0, 60),
        "id": st.integers(0, 1),
        "v": st.integers(0, 5),
        "gone": st.sampled_from([False, False, True]),
    }
)
version_batch = st.fixed_dictionaries(
    {"left": st.lists(row, max_size=5), "right": st.lists(version, max_size=4)}
)
ASOF = """
    SELECT l.n, CASE WHEN r.gone THEN NULL ELSE r.v END AS w FROM l LEFT JOIN LATERAL (
        SELECT * FROM r WHERE r.id = l.v AND r.after <= l.after ORDER BY r.after DESC, r.n DESC
        LIMIT 1) r ON true
"""


def timed_versions(app, **options):
    schema = "id bigint, v bigint, gone boolean, at timestamp"
    stream = app.stream("right", schema=schema, time="at", **options)
    return stream.to_table("id", delete="gone").select("id", "v as w")


def all_versions(batches):
    rows = [each for batch in batches for each in batch["right"]]
    schema = {"after": pl.Int64, "id": pl.Int64, "v": pl.Int64, "gone": pl.Boolean, "n": pl.Int64}
    return pl.DataFrame([{**each, "n": n} for n, each in enumerate(rows)], schema=schema)


def send_versions(driver, batch):
    driver.send("left", *map(event, batch["left"]))
    for each in batch["right"]:
        at = (NOON + timedelta(seconds=each["after"])).isoformat()
        driver.send("right", {"id": each["id"], "v": each["v"], "gone": each["gone"], "at": at})


@few
@given(kept, st.lists(version_batch, min_size=1, max_size=6), mishaps)
def test_the_version_that_was_valid_is_the_one_of_the_whole_history(how, batches, mishaps):
    """The table's lateness is longer than its disorder, and its clock runs: no version is late."""
    app = rr.App("oracle", pages=3)
    left = app.stream("left", schema=SCHEMA, time="at").with_columns(n="_offset")
    right = timed_versions(app, lateness="2 minutes")
    left.join(right, on={"v": "id"}, how=how, as_of="event time", prefix="r_").to("out")
    driver = Driver(app)
    driver.send("right", {"id": 99, "v": 0, "gone": True, "at": NOON.isoformat()})
    run(driver, batches, mishaps, send_versions)
    found = told([line["value"] for line in driver.outputs["out"]], ("n", "r_w"))
    query = ASOF if how == "left" else f"FROM ({ASOF}) WHERE w IS NOT NULL"
    wanted = sql(
        f"SELECT n, w AS r_w FROM ({query})", l=numbered(batches, "left"), r=all_versions(batches)
    )
    assert found == wanted


@few
@given(kept, st.lists(version_batch, min_size=1, max_size=6), mishaps)
def test_late_versions_correct_what_has_left(how, batches, mishaps):
    app = rr.App("oracle", pages=3)
    left = app.stream("left", schema=SCHEMA, time="at").with_columns(n="_offset")
    right = timed_versions(app)
    joined = left.join(
        right, on={"v": "id"}, how=how, as_of="event time", prefix="r_", corrections=True
    )
    joined.to("out")
    driver = Driver(app)
    run(driver, batches, mishaps, send_versions)
    query = ASOF if how == "left" else f"FROM ({ASOF}) WHERE w IS NOT NULL"
    wanted = sql(
        f"SELECT n, w AS r_w FROM ({query})", l=numbered(batches, "left"), r=all_versions(batches)
    )
    assert told(driver.table("out"), ("n", "r_w")) == wanted


@few
@given(batches, mishaps)
def test_a_table_of_a_stream_holds_the_row_that_is_latest_in_time(batches, mishaps):
    app = rr.App("oracle", pages=3)
    stream = app.stream("left", schema=SCHEMA, time="at").with_columns(n="_offset")
    stream.where("k is not null").to_table("k", delete="v = 0").to("out")
    driver = Driver(app)
    run(driver, batches, mishaps, lambda d, b: send_events(d, {"left": b["left"]}))
    wanted = sql(
        "SELECT k, n FROM l WHERE k IS NOT NULL"
        " QUALIFY row_number() OVER (PARTITION BY k ORDER BY after DESC, n DESC) = 1 AND v > 0",
        l=numbered(batches, "left"),
    )
    assert told(driver.table("out"), ("k", "n")) == wanted


@few
@given(changes, mishaps)
def test_changes_as_facts_add_up_to_the_table(batches, mishaps):
    app = rr.App("oracle", pages=3)
    left, right = tables(app)
    left.join(right, on={"v": "id"}, prefix="r_").changes().to("out")
    driver = Driver(app)
    run(driver, batches, mishaps, send_changes)
    sums = Counter()
    for line in driver.outputs["out"]:
        value = dict(line["value"])
        sums[str((value["id"], value["k"], value["v"], value["r_k"], value["r_v"]))] += (
            1 if value["op"] == "+" else -1
        )
    wanted = sql(
        "SELECT (l.id, l.k, l.v, r.k, r.v)::VARCHAR AS row FROM l JOIN r ON l.v = r.id",
        l=standing(batches, "left"),
        r=standing(batches, "right"),
    )
    assert sum((+sums).values()) == sum(wanted.values())
    assert all(count in (0, 1) for count in sums.values())
