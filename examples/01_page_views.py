"""Page views and their average time, per page and minute, as they change.

$ riverrun describe examples/01_page_views.py
page-views (16 pages)
...

riverrun up
riverrun topics create views --partitions 4
riverrun run examples/01_page_views.py
echo '{"page": "/", "user": "ann", "ms": 120, "at": "2026-01-01T12:00:10Z"}' |
    riverrun produce views --key user
"""

import riverrun as rr


def page_views(app: rr.App) -> rr.Table:
    """A row per page and minute. It changes with every batch, for a minute after its window."""
    views = app.stream(
        "views",
        schema="page string, user string, ms double, at timestamp",
        key="user",
        time="at",
        lateness="5 seconds",
    )
    return (
        views.where("user <> 'crawler'")
        .select("page", "ms", "at")
        .group_by("page", name="pages")
        .window(rr.tumbling("1 minute"), updatable="1 minute", emit="changes")
        .agg(views=rr.count(), avg_ms=rr.avg("ms"))
    )


app = rr.App("page-views")
page_views(app).to("views-per-minute", rr.sinks.screen())
