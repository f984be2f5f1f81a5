"""The topologies of the examples, by the driver: a stream drawn in, a table drawn out."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from riverrun.testing import Driver

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> Driver:
    return Driver(runpy.run_path(str(EXAMPLES / f"{name}.py"))["app"])


def test_page_views_are_counted_per_page_and_minute_without_crawlers():
    out = example("01_page_views").run(
        views="""
        at       | page  | user    | ms
        12:00:10 | /     | ann     | 120
        12:00:20 | /     | crawler | 5
        ------
        12:00:50 | /     | bob     | 80
        12:03:00 | /help | ann     | 40
        ------
        12:00:59 | /     | cid     | 9
    """
    )
    out.of("views-per-minute").assert_is("""
        +- | window_start | page  | views | avg_ms | revision
        +  | 12:00        | /     | 1     | 120    | 0
        -  | 12:00        | /     | 1     | 120    | 0
        +  | 12:00        | /     | 2     | 100    | 1
        +  | 12:03        | /help | 1     | 40     | 0
    """)
    out.of("pages.late").assert_is("""
        at       | page | ms
        12:00:59 | /    | 9
    """)


def test_a_reading_within_the_next_hour_corrects_and_a_later_one_is_set_aside():
    out = example("02_late_corrections").run(
        readings="""
        at    | sensor | celsius | _timestamp
        12:10 | s1     | 20.5    | 12:10
        12:40 | s1     | 22      | 12:40
        12:50 | s1     | 999     | 12:50       # broken
        13:02 | s2     | 18      | 13:02
        ------
        12:20 | s1     | 19      | 13:03
        ------
        14:02 | s2     | 17      | 14:02
        ------
        12:30 | s1     | 25      | 14:03
    """
    )
    out.of("hourly-temperatures").assert_is("""
        +- | window_start | sensor | readings | coldest | warmest | latest | revision
        +  | 12:00        | s1     | 2        | 20.5    | 22      | 22     | 0
        -  | 12:00        | s1     | 2        | 20.5    | 22      | 22     | 0
        +  | 12:00        | s1     | 3        | 19      | 22      | 22     | 1
        +  | 13:00        | s2     | 1        | 18      | 18      | 18     | 0
    """)
    out.of("readings-too-late").assert_is("""
        at    | sensor | celsius | delay | key
        12:30 | s1     | 25      | 5580  | s1
    """)


def test_a_service_that_fails_often_raises_an_alarm_once_its_window_closes():
    driver = example("03_errors_by_service")
    gateway = [{"service": "pay", "status": 200, "at": 1_767_268_800_000 + n} for n in range(8)]
    worker = {"job": {"service": "pay", "failed": True}, "finished": "2026-01-01T12:03:00Z"}
    driver.send(
        "gateway-logs", *gateway, {"service": "web", "status": 503, "at": 1_767_268_800_000}
    )
    driver.send("worker-logs", worker, worker)
    assert driver.batch() == []
    out = driver.end()
    out.of("error-rates").assert_is("""
        window_start | service | requests | failures | rate
        12:00        | pay     | 10       | 2        | 0.2
        12:00        | web     | 1        | 1        | 1.0
    """)
    out.of("error-alarms").assert_is("""
        window_start | service | requests | rate
        12:00        | pay     | 10       | 0.2
    """)


def test_a_user_who_stops_clicking_is_told_of_and_counted_as_a_visit():
    out = example("04_silence").run(
        clicks="""
        at       | user | page
        12:00    | ann  | /
        12:04    | ann  | /a
        12:05    | bob  | /
        ------
        12:14:05 | bob  | /a      # ann's ten minutes are over, and lateness too
        ------
        12:40    | ann  | /
        12:40    | bob  | /       # bob's were over before he came back
    """
    )
    out.of("silent-users").assert_is("""
        user | since    | clicks | key
        ann  | 12:04    | 2      | ann
        bob  | 12:14:05 | 2      | bob
    """)
    out.of("visits").assert_is("""
        +- | user | visits | clicks
        +  | ann  | 1      | 2
        +  | bob  | 1      | 2
    """)


def test_a_shop_with_over_twice_the_orders_of_last_week_raises_an_alert_that_is_corrected():
    driver = example("05_unusual_orders")
    out = driver.run(
        orders="""
        at                   | shop | id | total
        2026-01-01T12:10:00Z | s    | a  | 10
        2026-01-08T12:10:00Z | s    | b  | 10
        2026-01-08T12:11:00Z | s    | b  | 10      # the same order again
        2026-01-08T12:20:00Z | s    | c  | 20
        2026-01-08T12:30:00Z | s    | d  | 30
        2026-01-08T13:01:00Z | t    | e  | 10
    """
    )
    out.of("order-alerts").assert_is("""
        +- | window_start         | shop | orders | orders_earlier | orders_ratio | total
        +  | 2026-01-08T12:00:00Z | s    | 3      | 1              | 3            | 60
    """)
    assert len(out.of("orders-per-hour")) == 2
    driver.run(
        orders="""
        at                   | shop | id | total
        2026-01-08T12:40:00Z | s    | f  | -10
        2026-01-08T13:02:00Z | t    | g  | 10
    """
    ).of("order-alerts").assert_is("""
        +- | shop | orders | total | revision
        -  | s    | 3      | 60    | 0
        +  | s    | 4      | 50    | 1
    """)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_keeps_bad_records(path: Path):
    driver = example(path.stem)
    topic = driver.program.sources[0].topic
    driver.send(topic, "oops")
    driver.batch().of("dead").assert_is(f"""
        topic   | cause                 | value
        {topic} | the value is not JSON | oops
    """)


def test_an_article_is_in_the_index_and_the_cache_while_it_is_published_and_always_in_the_lake():
    driver = example("11_articles_everywhere")

    def commit(op, **row):
        full = {"title": "T", "body": "B", "author": "ann", "price": "9.99", **row}
        full["updated"] = "2026-01-01T12:00:00Z"
        source = {"lsn": 1, "txId": 1, "ts_us": 1767268800000000}
        after, before = (None, full) if op == "d" else (full, None)
        change = {"op": op, "before": before, "after": after, "source": source}
        driver.send("shop.public.articles", json.dumps(change), key=json.dumps({"id": row["id"]}))
        return [(line["output"].partition(":")[0], line["op"]) for line in driver.batch()]

    everywhere = ["cache", "delta", "search"]
    assert sorted(commit("c", id=1, draft=False)) == [(each, "+") for each in everywhere]
    assert commit("c", id=2, draft=True) == [("delta", "+")]
    changed = commit("u", id=1, draft=True)
    assert sorted(changed) == [("cache", "-"), ("delta", "+"), ("delta", "-"), ("search", "-")]
    assert commit("d", id=2, draft=True) == [("delta", "-")]


def test_dual_writes_race_and_a_log_does_not():
    race = runpy.run_path(str(EXAMPLES / "12_dual_writes.py"))["dual_writes"]
    assert race("aabb") == ({"lamp": 2}, {"lamp": 2})
    assert race("abba") == ({"lamp": 2}, {"lamp": 1}), "they differ for ever"
    driver = example("12_dual_writes")
    for lsn, amount in enumerate([1, 2]):
        after = {"item": "lamp", "amount": amount}
        source = {"lsn": lsn, "txId": lsn, "ts_us": 1_767_268_800_000_000 + lsn}
        envelope = {"op": "u", "before": None, "after": after, "source": source}
        driver.send("postgres.public.stock", json.dumps(envelope))
    out = driver.batch()
    for derived in ("stock-cache", "stock-in-shop"):
        out.of(derived).assert_is("""
            +- | item | amount
            +  | lamp | 2
        """)
