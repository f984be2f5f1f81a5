"""`riverrun bench joins`: streams, a stream with a table, and the home timeline.

- Streams: as many clicks as searches, each up to a minute after its own, in order of time.
- Table: views of users, joined with the users; 1 % of the users change in every batch.
- Hot key: the same where half of all views are of one user, with and without `replicate`.
- Timeline: tweets of users with few followers, and of one with many.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from riverrun.bench import load, results
from riverrun.bench.harness import Batches, Bench, Plan, batches_of
from riverrun.bench.report import Report
from riverrun.config import Settings

PER_SECOND = 10_000
PAIR = ("id", "words", "url", "clicked")
AUTHORS = 100
FOLLOWERS = 100
"""Of every author but one."""


@dataclass(frozen=True)
class Sizes:
    pairs: int = 1_000_000
    views: int = 2_000_000
    batch: int = 250_000
    few_users: int = 100_000
    many_users: int = 5_000_000
    followers: int = 100_000
    """Of the author who has the most."""

    @property
    def smaller(self) -> Sizes:
        """A tenth, to see that the benchmark works."""
        return Sizes(100_000, 200_000, 50_000, 10_000, 500_000, 10_000)


class JoinsBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes = sizes

    def streams(self) -> None:
        """Both engines: events per second, and the same pairs."""
        count = self.sizes.pairs
        left, right = self.topic("searches"), self.topic("clicks")
        load.produce(self.client, left, searches(count), count)
        load.produce(self.client, right, clicks(count), count)
        found, rates = [], []
        for engine in ("join_ours", "join_spark"):
            plan = self._plan(left, right, f"streams-{engine}", kind="streams")
            rates.append(self.steady(f"streams, {engine}", self.finished(engine, plan)))
            found.append(results.rows(self.client, plan["output"], PAIR))
        self.report.at_least("streams: events/s of Spark's own join", 1.5, rates[0] / rates[1])
        self.report.figures["streams: pairs"] = found[0].height
        differ = results.differing(found[0], found[1])
        self.report.at_most("streams: pairs that differ", 0, differ)

    def table(self) -> None:
        """How much slower is it with many users?"""
        seconds = [
            self._joined(f"table-{users}", users)
            for users in (self.sizes.few_users, self.sizes.many_users)
        ]
        few, many = f"{self.sizes.few_users:,}", f"{self.sizes.many_users:,}"
        name = f"table: seconds per view with {many} rows, of those with {few}"
        self.report.at_most(name, 1.5, seconds[1] / seconds[0])

    def hot_key(self) -> None:
        users = self.sizes.few_users
        even = self._joined("even", users)
        hot = self._joined("hot", users, hot=True)
        spread = self._joined("hot-replicated", users // 100, hot=True, replicate=True)
        # half the views are one task's: with two tasks it has half of all the work, and its share
        # of the rest
        self.report.at_most("hot key: seconds per view, of those without", 2, hot / even)
        self.report.at_most("hot key, replicated: seconds per view", 1.25, spread / even)

    def _joined(
        self, name: str, users: int, *, hot: bool = False, replicate: bool = False
    ) -> float:
        """Seconds per view, once the table is there and the workers are warm."""
        views, table = self.topic(f"{name}-views"), self.topic(f"{name}-users")
        load.produce(self.client, table, _users(range(users), 0), users)
        batches = self.sizes.views // self.batch
        changed = users // 100
        size = self.batch + changed
        plan = self._plan(views, table, name, kind="table", replicate=replicate)
        self.finished("join_ours", {**plan, "batch": max(size, 1_000_000)})
        load.produce(self.client, views, _views(self.sizes.views, users, hot), self.sizes.views)
        for batch in range(batches):
            first = batch * changed
            rows = range(first, first + changed)
            load.produce(self.client, table, _users(rows, batch + 1), changed)
        plan |= {"fresh": False, "batch": size, "result": f"{plan['result']}.joined"}
        found = self.finished("join_ours", plan)
        rate = self.steady(f"table, {name}", found)
        return size / self.batch / rate

    def timeline(self) -> None:
        """A tweet costs time by its followers; others are held up no longer than that."""
        followers = self.sizes.followers
        tweets, follows = self.topic("tweets"), self.topic("follows")
        edges = followers + AUTHORS * FOLLOWERS
        load.produce(self.client, follows, _follows(followers), edges)
        plan = self._plan(tweets, follows, "timeline", kind="timeline", once=False)
        plan["batch"] = max(edges, self.batch)
        sender = _Tweets(self, tweets)
        with self.process("join_ours", plan) as process:
            self.wait_for(process, plan, edges)
            seconds = {}
            for name, authors in {
                "one": ["author-1"],
                "many": [f"author-{n}" for n in range(AUTHORS)],
                "star": ["star"],
                "star and many": ["star", *(f"author-{n}" for n in range(AUTHORS))],
            }.items():
                seconds[name] = min(sender.tweeted(process, plan, authors) for _ in range(3))
                self.report.figures[f"timeline: {name}, s"] = round(seconds[name], 2)
            self.stop(process, plan)
        rows = followers / FOLLOWERS
        added = (seconds["star"] - seconds["one"]) / (rows - 1)
        each = (seconds["many"] - seconds["one"]) / (AUTHORS - 1)
        name = "timeline: per 100 followers of one author, of 100 followers of as many authors"
        self.report.at_most(name, 1.5, added / max(each, 1e-9))
        both = seconds["star and many"] / (seconds["star"] + seconds["many"])
        self.report.at_most("timeline: both at once, of one after the other", 1, both)

    def _plan(self, left: str, right: str, name: str, *, once: bool = True, **more: object) -> Plan:
        plan = self.plan(left, name, once=once, **{"fresh": True, "replicate": False, **more})
        return {**plan, "right": right}


class _Tweets:
    """Sends tweets, and waits until they have left in timelines."""

    def __init__(self, bench: JoinsBench, topic: str) -> None:
        self.bench, self.topic, self.sent = bench, topic, 0

    def tweeted(self, process: object, plan: Plan, authors: list[str]) -> float:
        known = len(batches_of(plan))
        done = sum(batch["events"] for batch in batches_of(plan))
        values = (
            f'{{"id":{self.sent + n},"author":"{author}","posted":{self.sent + n}}}'.encode()
            for n, author in enumerate(authors)
        )
        load.produce_at_once(self.bench.client, self.topic, values, len(authors))
        self.sent += len(authors)
        self.bench.wait_for(process, plan, done + len(authors))  # type: ignore[arg-type]
        new: Batches = batches_of(plan)[known:]
        return float(sum(batch["seconds"] for batch in new if batch["events"]))


def searches(count: int) -> Iterator[bytes]:
    for number in range(count):
        at = load.START + number * 1000 // PER_SECOND
        yield f'{{"id":{number},"words":"word {number % 5000}","at":{at}}}'.encode()


def clicks(count: int) -> Iterator[bytes]:
    """Each on a search of the last 50 seconds; nearly as many searches have none as several."""
    chosen = random.Random(1)
    for number in range(count):
        at = load.START + number * 1000 // PER_SECOND + 1
        search = max(0, number - chosen.randrange(50 * PER_SECOND))
        yield f'{{"search":{search},"url":"/page/{number % 1000}","clicked":{at}}}'.encode()


def _users(numbers: range, version: int) -> Iterator[bytes]:
    for number in numbers:
        country = (number + version) % 200
        yield f'{{"id":"user-{number}","country":"c{country}","since":{version}}}'.encode()


def _views(count: int, users: int, hot: bool) -> Iterator[bytes]:
    """Of users at random; every second one of the same if there is a hot key."""
    for number, value in enumerate(load.events(count, users, per_second=PER_SECOND)):
        if hot and number % 2:
            at = load.START + number * 1000 // PER_SECOND
            yield f'{{"user":"user-1","page":"/page/1","ms":1.0,"at":{at}}}'.encode()
        else:
            yield value


def _follows(followers: int) -> Iterator[bytes]:
    for number in range(followers):
        yield f'{{"follower":"fan-{number}","whom":"star"}}'.encode()
    for author in range(AUTHORS):
        for number in range(FOLLOWERS):
            yield f'{{"follower":"reader-{number * 7}","whom":"author-{author}"}}'.encode()


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = JoinsBench(settings, sizes, Path(folder))
        run.streams()
        run.timeline()
        run.table()
        run.hot_key()
        return run.report
