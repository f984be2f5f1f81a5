"""The program of `riverrun bench serve`, in a process of its own: a table, or counts, as a view."""

from __future__ import annotations

from typing import Any

import riverrun as rr
from riverrun.bench.own_process import run

ROWS = "id bigint, n bigint, name string"
EVENTS = "user string, page string, ms double, at timestamp_ms"


def program(plan: dict[str, Any]) -> rr.App:
    app = rr.App(f"bench-{plan['view']}")
    sink = rr.sinks.view(plan["view"])
    if plan["kind"] == "rows":
        app.table(plan["input"], schema=ROWS, key="id").to(sink)
    else:
        views = app.stream(plan["input"], schema=EVENTS, key="user", time="at")
        views.group_by("user").agg(views=rr.count(), ms=rr.sum("ms")).to(sink)
    return app


if __name__ == "__main__":
    run(program)
