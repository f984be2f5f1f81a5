"""The programs of the benchmarks in riverrun, in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import riverrun as rr
from riverrun import config
from riverrun.bench import state_size
from riverrun.bench.measure import Meter
from riverrun.runtime.launch import Options
from riverrun.runtime.run import started
from riverrun.stream import Stream, Table

WINDOWS = {
    "tumbling": rr.tumbling("10 seconds"),
    "endless": rr.tumbling("1000 days"),
    "hopping": rr.hopping("10 seconds", "1 second"),
    "session": rr.session("10 seconds"),
}


MATCHED = """
    PARTITION BY user ORDER BY at
    MEASURES LAST(at) AS at, COUNT(*) AS views
    PATTERN (short{3,} long) WITHIN INTERVAL '10' MINUTE
    DEFINE short AS ms < 400, long AS ms >= 950
"""
PATTERNS = {
    "fraud": MATCHED,
    "fraud_by_average": f"{MATCHED} AND long.ms > 4 * AVG(short.ms)",
    "endless_pattern": """
        PARTITION BY user ORDER BY at MEASURES LAST(at) AS at
        PATTERN (short any* never) WITHIN INTERVAL '1' MINUTE
        DEFINE short AS ms < 400, never AS ms < 0
    """,
}


def program(plan: dict[str, Any]) -> rr.App:
    """Views and time per user and window; for the kind "both", hopping and session windows."""
    app = rr.App(f"bench-{plan['output']}", delivery=plan["delivery"])
    views = app.stream(
        plan["input"],
        schema="user string, page string, ms double, at timestamp_ms",
        time="at",
        lateness="1 second",
    )
    if plan["kind"] == "both":
        _counted(views, "hopping", plan["emit"]).to(plan["output"])
        _counted(views, "session", plan["emit"]).to(f"{plan['output']}-sessions")
    elif plan["kind"] == "passed":
        views.key_by("user").to(plan["output"])
    elif plan["kind"] == "filtered":
        views.where("ms >= 500").to(plan["output"])
    elif plan["kind"] in PATTERNS:
        views.match(PATTERNS[plan["kind"]]).to(plan["output"])
    elif plan["kind"] == "twice":
        counted = _counted(views, "tumbling", plan["emit"])
        counted.group_by("views").agg(users=rr.count()).to(plan["output"])
    elif plan["kind"] == "sliding":
        _slid(views).to(plan["output"])
    else:
        _counted(views, plan["kind"], plan["emit"]).to(plan["output"])
    return app


def _counted(views: Stream, kind: str, emit: Any) -> Table:
    grouped = views.group_by("user").window(WINDOWS[kind], emit=emit)
    return grouped.agg(views=rr.count(), ms=rr.sum("ms"))


def _slid(views: Stream) -> Table:
    grouped = views.select("user", "ms", "at").group_by("user").window(rr.sliding("60 seconds"))
    return grouped.agg(views=rr.count(), total=rr.sum("ms"))


def main() -> None:
    plan = json.loads(sys.argv[1])
    app = program(plan)
    settings = config.load().override(brokers=plan["brokers"], master=plan.get("master"))
    # batches of one size, as those of the engines that it is compared with
    options = Options(fresh=True, once=plan["once"], max_events=plan["batch"], batch_time=None)
    with started(app, settings, options, lambda _: None) as running:
        meter = Meter(plan)
        meter.watch(running.query)
        if plan.get("state"):
            checkpoint = settings.checkpoint_of(app.name) / "query"
            sizes = state_size.per_batch(Path(str(checkpoint)), meter.last_batch)
            Path(plan["state"]).write_text(json.dumps(sizes))


if __name__ == "__main__":
    main()
