"""riverrun, as a user runs it: exactly once."""

import json
import os

import riverrun as rr

PLAN = json.loads(os.environ["PLAN"])
VIEW = "user string, page string, ms double, at bigint"

app = rr.App(f"speed-{PLAN['output']}")
if PLAN["work"] == "filter":
    rows = app.stream(PLAN["input"], schema=VIEW, key="user").where("ms >= 500")
elif PLAN["work"] == "count":
    views = app.stream(
        PLAN["input"], schema="user string, ms double, at timestamp_ms", key="user", time="at",
        lateness="1 second",
    )  # fmt: skip
    windows = views.group_by("user").window(rr.tumbling("10 seconds"), emit="ready")
    rows = windows.agg(views=rr.count(), ms=rr.sum("ms"))
elif PLAN["work"] == "stateless":
    rows = app.stream(PLAN["input"], schema=VIEW, key="user").where("ms >= 0")
elif PLAN["work"] == "stateful":
    views = app.stream(PLAN["input"], schema="user string, at timestamp_ms", key="user", time="at")
    windows = views.group_by("user").window(rr.tumbling("10 seconds"), emit="changes")
    rows = windows.agg(views=rr.count()).select(
        "user", "epoch_ms(window_start) AS start", "window_start", "views"
    )
else:
    users = app.table(PLAN["table"], schema="id string, country string", key="id")
    rows = app.stream(PLAN["input"], schema=VIEW, key="user").join(users, on={"user": "id"})
rows.to(PLAN["output"])
