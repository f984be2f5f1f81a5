"""The topologies of the examples with tables and joins, by the driver."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import riverrun as rr
from riverrun.testing import Driver

EXAMPLES = Path(__file__).parents[1] / "examples"


def names_of(example: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{example}.py"))


def example(name: str) -> Driver:
    return Driver(names_of(name)["app"])


def test_searches_are_counted_by_their_own_time_with_or_without_a_click():
    driver = example("06_click_through")
    out = driver.run(
        searches="""
            at       | search | site | words
            12:00    | s1     | a    | shoes
            12:01    | s2     | a    | hats
            12:09:50 | s3     | a    | gloves
            ------
            12:10:30 | s4     | a    | socks
        """,
        clicks="""
            at       | search | url
            12:00:20 | s1     | /a
            12:00:40 | s1     | /b
            12:03    | s2     | /c      # two minutes after: not its click
            ------
            12:10:30 | s3     | /d      # of a search in the ten minutes before
        """,
    )
    out.of("followed-searches").assert_is("""
        key | words  | url
        s1  | shoes  | /a
        s1  | shoes  | /b
        s2  | hats   |
        s3  | gloves | /d
    """)
    assert out.of("click-through-rates") == []
    driver.end().of("click-through-rates").assert_is("""
        +- | window_start | searches | clicked | rate
        +  | 12:00        | 3        | 2       | 0.667
        +  | 12:10        | 1        | 0       | 0
    """)


def test_the_windows_after_an_outer_join_wait_for_the_rows_that_match_none():
    driver = example("06_click_through")
    drawn = "at | search\n 12:09:59 | {}\n ------\n {} | s2"
    at = "12:11:04"  # ten minutes, a minute for the join, 5 s of lateness
    searches = drawn.format("s1", at).replace("search\n", "search | site\n")
    searches = searches.replace("s1", "s1 | a").replace("s2", "s2 | a")
    out = driver.run(searches=searches, clicks=drawn.format("x", at))
    assert out.of("click-through-rates") == []
    more = driver.run(
        searches="at | search | site\n 12:11:05 | s3 | a", clicks="at | search\n 12:11:05 | x"
    )
    assert [line["value"]["searches"] for line in more.of("click-through-rates")] == [1]
    assert "rates.late" not in {line["output"] for line in [*out, *more, *driver.end()]}


def test_activity_has_the_profile_as_it_stands():
    driver = example("07_profiles")
    driver.send("profiles", {"id": 1, "country": "NO", "plan": "free"}, key="1")
    lines = driver.run(activity="at | user | action\n 12:00 | 1 | login\n 12:01 | 2 | login")
    driver.send("profiles", {"id": 1, "country": "SE", "plan": "paid"}, key="1")
    lines += driver.run(activity="at | user | action\n 12:02 | 1 | buy")
    driver.send("profiles", None, key="1")
    lines += driver.run(activity="at | user | action\n 12:03 | 1 | logout")
    lines.of("enriched-activity").assert_is("""
        at    | user | action | country | plan
        12:00 | 1    | login  | NO      | free
        12:01 | 2    | login  | unknown |
        12:02 | 1    | buy    | SE      | paid
        12:03 | 1    | logout | unknown |
    """)
    driver.end().of("activity-per-country").assert_is("""
        window_start | country | events | users
        12:00        | NO      | 1      | 1
        12:00        | SE      | 1      | 1
        12:00        | unknown | 2      | 2
    """)


def test_a_replicated_table_gives_the_same_rows():
    def lines(replicate: bool) -> list[Any]:
        app = rr.App("profiles", pages=4)
        activity = app.stream("activity", schema="user bigint, at timestamp", time="at")
        profiles = app.table(
            "profiles", schema="id bigint, country string", key="id", replicate=replicate
        )
        activity.join(profiles, on={"user": "id"}, how="left").to("out")
        driver = Driver(app)
        driver.send("profiles", {"id": 1, "country": "NO"}, {"id": 2, "country": "SE"})
        users = "\n".join(f"12:00:{n % 60:02} | {n % 3}" for n in range(30))
        return driver.run(activity=f"at | user\n{users}")

    assert len(lines(replicate=True)) == 30
    assert lines(replicate=True) == lines(replicate=False)


RATES = """
    since                | region | percent
    2026-01-01T00:00:00Z | NO     | 25
    2026-01-01T00:00:00Z | DE     | 19
    2027-01-01T00:00:00Z | DE     | 20      # published before it is valid
"""
SALES = """
    sold_at              | id | region | net
    2026-06-30T23:00:00Z | 1  | DE     | 100
    2026-07-01T01:00:00Z | 2  | DE     | 200
    2026-07-01T02:00:00Z | 3  | SE     | 10
    2026-07-01T03:00:00Z | 4  | NO     | 10
"""


def test_a_sale_has_the_rate_of_its_own_day_and_a_late_rate_corrects_it():
    driver = example("08_tax_rates")
    out = driver.run(rates=RATES, sales=SALES)
    out.of("invoices").assert_is("""
        +- | id | region | percent | total | rates_version | revision
        +  | 1  | DE     | 19      | 119   | rates/0/1     | 0
        +  | 2  | DE     | 19      | 238   | rates/0/1     | 0
        +  | 3  | SE     |         |       |               | 0
        +  | 4  | NO     | 25      | 12.5  | rates/0/0     | 0
    """)
    late = driver.run(
        rates="""
        since                | region | percent
        2026-07-01T00:00:00Z | DE     | 16
        2026-07-01T00:00:00Z | SE     | 25
    """
    )
    late.of("invoices").assert_is("""
        +- | id | region | percent | total | rates_version | revision
        -  | 2  | DE     | 19      | 238   | rates/0/1     | 0
        +  | 2  | DE     | 16      | 232   | rates/0/3     | 1
        -  | 3  | SE     |         |       |               | 0
        +  | 3  | SE     | 25      | 12.5  | rates/0/4     | 1
    """)
    assert driver.table("tax-owed") == [
        {"region": "DE", "invoices": 2, "tax": 51.0},
        {"region": "NO", "invoices": 1, "tax": 2.5},
        {"region": "SE", "invoices": 1, "tax": 2.5},
    ]


class Network:
    """People who tweet and follow, and what is on their timelines."""

    def __init__(self) -> None:
        app = rr.App("small", pages=4)
        names_of("09_home_timeline")["timelines"](app, length=2).to("timelines")
        self.driver = Driver(app)

    def tweet(self, id: int, author: str) -> None:
        posted_at = f"2026-01-01T12:00:{id:02}Z"
        value = {"id": id, "author": author, "text": f"{author} {id}", "posted_at": posted_at}
        self.driver.send("tweets", value, key=str(id))

    def delete(self, id: int) -> None:
        self.driver.send("tweets", None, key=str(id))

    def follow(self, follower: str, followed: str, *, ends: bool = False) -> None:
        key = {"follower": follower, "followed": followed}
        text = json.dumps(key, separators=(",", ":"))
        self.driver.send("follows", None if ends else key, key=text)

    def timelines(self) -> dict[str, list[str]]:
        self.driver.batch()
        found: dict[str, list[str]] = {}
        for row in self.driver.table("timelines"):
            found.setdefault(row["follower"], []).append(row["text"])
        return found


def test_timelines_follow_tweets_deletions_follows_and_their_ends():
    network = Network()
    network.follow("ann", "bob")
    network.follow("cid", "bob")
    for number in (1, 2, 3):
        network.tweet(number, "bob")
    assert network.timelines() == {"ann": ["bob 2", "bob 3"], "cid": ["bob 2", "bob 3"]}
    network.delete(3)
    assert network.timelines() == {"ann": ["bob 1", "bob 2"], "cid": ["bob 1", "bob 2"]}
    network.follow("ann", "bob", ends=True)
    assert network.timelines() == {"cid": ["bob 1", "bob 2"]}
    network.tweet(4, "dan")
    network.follow("cid", "dan")
    assert network.timelines() == {"cid": ["bob 2", "dan 4"]}
    network.follow("ann", "bob")
    assert network.timelines() == {"ann": ["bob 1", "bob 2"], "cid": ["bob 2", "dan 4"]}
    network.follow("cid", "dan", ends=True)
    network.follow("cid", "dan")  # ends and begins again at once
    assert network.driver.batch() == []
    assert network.timelines()["cid"] == ["bob 2", "dan 4"]


def test_a_timeline_has_the_latest_hundred():
    driver = example("09_home_timeline")
    driver.send("follows", {"follower": "ann", "followed": "bob"})
    for n in range(105):
        at = f"2026-01-01T12:{n // 60:02}:{n % 60:02}Z"
        driver.send("tweets", {"id": n, "author": "bob", "text": "-", "posted_at": at})
    assert sorted(line["value"]["id"] for line in driver.batch()) == list(range(5, 105))


def test_a_trade_moves_its_stock_up_and_others_down():
    app = rr.App("small", pages=4)
    names = names_of("10_top_stocks")
    names["top"](names["turnover"](app), places=2).to("top")
    driver = Driver(app)
    out = driver.run(
        trades="""
        at    | stock | shares | price
        12:00 | A     | 1      | 10
        12:00 | B     | 1      | 20
        12:00 | C     | 2      | 10      # as much as B, which is first by its name
        ------
        12:01 | A     | 1      | 11
        ------
        12:02 | B     | 1      | 0.5     # still second
    """
    )
    out.assert_is("""
        +- | stock | turnover | trades | place
        +  | B     | 20       | 1      | 1
        +  | C     | 20       | 1      | 2
        +  | A     | 21       | 2      | 1
        -  | B     | 20       | 1      | 1
        +  | B     | 20       | 1      | 2
        -  | C     | 20       | 1      | 2
        -  | B     | 20       | 1      | 2
        +  | B     | 20.5     | 2      | 2
    """)


def test_each_day_has_ten_stocks_of_its_own():
    driver = example("10_top_stocks")
    for day in (1, 2):
        for n in range(12):
            at = f"2026-01-0{day}T12:00:{n:02}Z"
            driver.send("trades", {"stock": f"S{n:02}", "shares": n * day, "price": 1, "at": at})
    out = driver.batch().of("top-stocks")
    places = [(line["key"]["window_start"][:10], line["value"]["place"]) for line in out]
    assert sorted(places) == [(f"2026-01-0{day}", n) for day in (1, 2) for n in range(1, 11)]
    first = [line["value"]["stock"] for line in out if line["value"]["place"] == 1]
    assert first == ["S11", "S11"]
