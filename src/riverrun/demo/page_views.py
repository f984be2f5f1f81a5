"""Views and average time per page and minute, as they change."""

import riverrun as rr

app = rr.App("demo")

views = app.stream(
    "demo-views",
    schema="page string, user string, ms double, at timestamp",
    key="user",
    time="at",
    lateness="5 seconds",
)

per_page = (
    views.where("user <> 'crawler'")
    .select("page", "ms")
    .group_by("page")
    .window(rr.tumbling("1 minute"), updatable="1 minute", emit="changes")
    .agg(views=rr.count(), avg_ms=rr.avg("ms"))
)

per_page.to("demo-page-views", rr.sinks.screen())
