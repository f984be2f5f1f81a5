"""The window benchmark's program in riverrun, in a process of its own."""

from __future__ import annotations

import json
import sys

import riverrun as rr
from riverrun import config
from riverrun.bench.measure import Meter
from riverrun.runtime.run import Options, started


def program(topic: str, output: str, *, window: str, emit: str) -> rr.App:
    """Views and time per user and window."""
    app = rr.App(f"bench-{output}")
    views = app.stream(
        topic,
        schema="user string, page string, ms double, at timestamp_ms",
        time="at",
        lateness="1 second",
    )
    (
        views.group_by("user")
        .window(rr.tumbling(window), emit=emit)  # type: ignore[arg-type]
        .agg(views=rr.count(), ms=rr.sum("ms"))
        .to(output)
    )
    return app


def main() -> None:
    plan = json.loads(sys.argv[1])
    app = program(plan["input"], plan["output"], window=plan["window"], emit=plan["emit"])
    settings = config.load().override(brokers=plan["brokers"])
    options = Options(fresh=True, once=plan["once"], max_events=plan["batch"])
    with started(app, settings, options, lambda _: None) as running:
        Meter(plan).watch(running.query)


if __name__ == "__main__":
    main()
