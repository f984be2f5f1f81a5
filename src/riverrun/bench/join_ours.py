"""The programs of `riverrun bench joins` in riverrun, in a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

import riverrun as rr
from riverrun import config
from riverrun.bench.measure import Meter
from riverrun.runtime.launch import Options
from riverrun.runtime.run import started


def program(plan: dict[str, Any]) -> rr.App:
    app = rr.App(f"bench-{plan['output']}")
    if plan["kind"] == "timeline":
        _timeline(app, plan)
    elif plan["kind"] == "table":
        _table(app, plan)
    else:
        _streams(app, plan)
    return app


def _streams(app: rr.App, plan: dict[str, Any]) -> None:
    searches = app.stream(
        plan["input"], schema="id bigint, words string, at timestamp_ms", time="at",
        lateness="1 second",
    )  # fmt: skip
    clicks = app.stream(
        plan["right"], schema="search bigint, url string, clicked timestamp_ms", time="clicked",
        lateness="1 second",
    )  # fmt: skip
    searches.join(clicks, on={"id": "search"}, after="1 minute").to(plan["output"])


def _table(app: rr.App, plan: dict[str, Any]) -> None:
    views = app.stream(
        plan["input"], schema="user string, page string, ms double, at timestamp_ms", time="at"
    )
    users = app.table(
        plan["right"], schema="id string, country string, since bigint", key="id",
        replicate=plan["replicate"],
    )  # fmt: skip
    views.join(users, on={"user": "id"}).to(plan["output"])


def _timeline(app: rr.App, plan: dict[str, Any]) -> None:
    tweets = app.table(plan["input"], schema="id bigint, author string, posted bigint", key="id")
    follows = app.table(
        plan["right"], schema="follower string, whom string", key=["follower", "whom"]
    )
    timelines = tweets.join(follows, on={"author": "whom"}).group_by("follower")
    timelines.top(100, by="posted").to(plan["output"])


def main() -> None:
    plan = json.loads(sys.argv[1])
    settings = config.load().override(brokers=plan["brokers"])
    options = Options(
        fresh=plan["fresh"], once=plan["once"], max_events=plan["batch"], batch_time=None
    )
    with started(program(plan), settings, options, lambda _: None) as running:
        Meter(plan).watch(running.query)


if __name__ == "__main__":
    main()
