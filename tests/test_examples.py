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
    value = "" if driver.program.personal else "oops"  # what may be personal stays where it is
    driver.batch().of("dead").assert_is(f"""
        topic   | cause                 | value
        {topic} | the value is not JSON | {value}
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


def test_small_payments_and_a_large_one_in_another_country_are_suspicious():
    out = example("13_card_fraud").run(
        payments="""
        at       | card | amount | country
        12:00    | c1   | 0.5    | NL
        12:01    | c1   | 0.7    | NL
        12:02    | c1   | 0.2    | NL
        12:02    | c2   | 0.2    | NL
        12:03    | c1   | 900    | BR
        12:04    | c2   | 900    | BR      # only one small payment
        12:20    | c3   | 1      | NL
    """
    )
    out.of("suspicions").assert_is("""
        card | began | ended | tries | amount | tried_in | taken_in
        c1   | 12:00 | 12:03 | 3     | 900    | NL       | BR
    """)


def test_machines_that_are_silent_or_stay_hot_are_told_by_the_clock():
    driver = example("14_machines")
    out = driver.run(
        readings="""
        at       | machine | celsius | fan
        12:00    | m1      | 91      | false
        12:01    | m1      | 92      | false
        12:02    | m1      | 95      | false
        12:03    | m1      | 91      | true
        12:03    | m2      | 20      | false
    """
    )
    assert not out
    later = driver.pass_time("20 minutes")
    later.of("silent-machines").assert_is("""
        machine | last_seen | celsius
        m1      | 12:03     | 91
        m2      | 12:03     | 20
    """)
    later.of("overheating-machines").assert_is("""
        machine | since | most
        m1      | 12:00 | 95
    """)


def test_v_and_m_shapes_of_prices_are_found():
    driver = example("15_price_shapes")
    driver.run(
        trades="""
        at    | symbol | price
        12:00 | x      | 5
        12:01 | x      | 8
        12:02 | x      | 6
        12:03 | x      | 7
        12:04 | x      | 9
        12:05 | x      | 4
        12:06 | x      | 4
    """
    )
    driver.end()
    [v] = [line["value"] for line in driver.outputs["v-shapes"]]
    assert v == {"symbol": "x", "began": 8.0, "bottom": 6.0, "ended": 9.0}
    parts = [line["value"]["part"] for line in driver.outputs["m-shapes"]]
    assert parts == ["start", "rise1", "fall1", "rise2", "rise2", "fall2"]


def test_a_funnel_tells_who_bought_and_how_far_others_came():
    driver = example("16_funnel")
    driver.run(
        events="""
        at    | user | kind   | item
        12:00 | ann  | view   | tea
        12:01 | bob  | view   | tea
        12:02 | ann  | view   | milk
        12:03 | ann  | basket | tea
        12:04 | bob  | basket | tea
        12:05 | ann  | pay    |
        12:50 | cid  | view   | salt
    """
    )
    driver.end()
    [bought] = [line["value"] for line in driver.outputs["bought"]]
    assert (bought["user"], bought["item"], bought["paid_at"]) == (
        "ann",
        "tea",
        "2026-01-01T12:05:00Z",
    )
    left = [
        (line["value"]["user"], line["value"]["chose_at"]) for line in driver.outputs["dropped-out"]
    ]
    assert sorted(left) == [("bob", "2026-01-01T12:04:00Z"), ("cid", None)]


def test_rules_come_and_go_while_payments_are_watched():
    driver = example("17_live_rules")
    template = {"template": "spree", "metadata": {"owner": "risk"}}
    for large in (500, 800):
        parameters = {"small": 1, "large": large}
        driver.control(
            "rule", "fraud-rules", name=f"over-{large}", parameters=parameters, **template
        )
    driver.run(
        payments="""
        at    | card | amount | country
        12:00 | c1   | 0.5    | NL
        12:01 | c1   | 0.7    | NL
        12:02 | c1   | 0.2    | NL
        12:03 | c1   | 600    | NL
        12:04 | c2   | 5      | NL
    """
    )
    driver.control("remove rule", "fraud-rules", name="over-500")
    driver.run(
        payments="""
        at    | card | amount | country
        12:05 | c1   | 0.5    | NL
        12:06 | c1   | 0.7    | NL
        12:07 | c1   | 0.2    | NL
        12:08 | c1   | 900    | NL
    """
    )
    driver.end()
    found = [line["value"] for line in driver.outputs["alerts"]]
    assert [(each["rule"], each["amount"]) for each in found] == [
        ("over-500", 600),
        ("over-800", 900),
    ]
    assert found[0]["metadata"] == '{"owner": "risk"}'


def test_ten_thousand_readers_hear_of_what_they_want():
    driver = example("21_news_watch")
    for n in range(10_000):
        query = f'"topic{n % 100} news" person{n} OR title:person{n}'
        driver.control("query", "wanted", name=f"reader-{n}", query=query, owner=f"o{n}")
    article = "About person7 and topic7 news, and about person8."
    for n, title in enumerate(["Person 9", "person9"]):
        at = f"2026-01-01T12:00:0{n}Z"
        driver.send("articles", {"id": n, "title": title, "body": article, "at": at})
    driver.batch()
    driver.end()
    found = [line["value"] for line in driver.outputs["news-for-readers"]]
    assert sorted((each["id"], each["query"]) for each in found) == [
        (0, "reader-7"),
        (1, "reader-7"),
        (1, "reader-9"),
    ]
    assert found[0]["fragment"] == "About **person7** and **topic7 news**, and about person8."


def test_offers_find_saved_searches_with_price_ranges():
    driver = example("22_saved_searches")
    mine = {"condition": "seller <> 'ann'", "owner": "ann"}
    searches = {
        "ann-1": {"query": "lamp -broken price:[10 TO 30}", **mine},
        "bob-1": {"query": '"desk lamp" OR price:<1 lamp', "owner": "bob"},
    }
    for name, search in searches.items():
        driver.send("saved-searches", {"name": name, **search})
    offers = [
        ("Desk lamp", 29.99, "cid"), ("Lamp", 30, "cid"), ("Lamp, broken", 12, "cid"),
        ("Lamp", 15, "ann"), ("Old lamp", 0.5, "cid"),
    ]  # fmt: skip
    for n, (title, price, seller) in enumerate(offers):
        driver.send("offers", {"id": n, "title": title, "price": price, "seller": seller})
    driver.batch()
    found = [line["value"] for line in driver.outputs["found-for-users"]]
    assert sorted((each["id"], each["owner"]) for each in found) == [
        (0, "ann"),
        (0, "bob"),
        (4, "bob"),
    ]
