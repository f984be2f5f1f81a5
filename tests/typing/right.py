"""Every kind of chain: what each step gives is known to a type checker, to the end."""

from typing import assert_type

import riverrun as rr
from riverrun.processed import Processed


class Echo(rr.Processor):
    outputs = {"seen": "user string"}


app = rr.App("shop", pages=8, delivery="at least once")
views = app.stream(
    "views", schema="user string, page string, ms bigint, tags string[], at timestamp", time="at"
)
clicks = app.stream("clicks", schema="user string, at timestamp", time=rr.append_time())
users = app.table("users", schema="user string, country string", key=("user",), time="_timestamp")
minute = rr.tumbling("1 minute")

assert_type(views, rr.Stream)
assert_type(users, rr.Table)
assert_type(users.key, tuple[str, ...])
assert_type(views.columns, tuple[str, ...])

# rows
assert_type(views.where("ms > 1").select("page", slow="ms > 500"), rr.Stream)
assert_type(views.with_columns(s="ms / 1000").explode("tags").key_by("page"), rr.Stream)
assert_type(views.union(views, views), rr.Stream)
assert_type(views.deduplicate("page", within="1 hour").mark_seen("user"), rr.Stream)
assert_type(views.deduplicate("page", within="1 hour").late, rr.Stream)
assert_type(views.through("again"), rr.Stream)
assert_type(views.spark(lambda rows: rows, schema="page string"), rr.Stream)
assert_type(users.where("country = 'NZ'").select("user", x="country"), rr.Table)
assert_type(users.with_columns(x="country").through("again"), rr.Table)

# joins
near = views.join(clicks, on="user", within="1 minute", prefix="click_", how="full")
assert_type(near, rr.Stream)
assert_type(near.late_right, rr.Stream)
assert_type(views.join(users, on="user"), rr.Stream)
assert_type(views.join(users, on=["user"], how="left", as_of="latest"), rr.Stream)
assert_type(views.join(users, on={"user": "user"}, as_of="event time"), rr.Stream)
assert_type(views.join(users, on="user", as_of="event time", corrections=False), rr.Stream)
corrected = views.join(users, on="user", as_of="event time", history="1 day", corrections=True)
assert_type(corrected, rr.Table)
assert_type(users.join(users, on="user", how="right", prefix="other_"), rr.Table)

# groups
assert_type(views.group_by("page"), rr.Grouped[rr.Table])
assert_type(views.group_by("page").window(minute), rr.Grouped[rr.Table])
assert_type(views.group_by("page").agg(n=rr.count()), rr.Table)
per_page = views.group_by("page").window(minute, emit="final").agg(n=rr.count(), ms=rr.sum("ms"))
assert_type(per_page, rr.Table)
assert_type(per_page.late, rr.Stream)
assert_type(per_page.group_by("page").agg(n=rr.sum("n")), rr.Table)
assert_type(per_page.group_by("page").top(10, by="n", place="place"), rr.Table)
assert_type(per_page.group_by("page").bottom(10, by="n"), rr.Table)
assert_type(views.to_table("user", delete="ms < 0"), rr.Table)
assert_type(per_page.changes(), rr.Stream)
assert_type(per_page.changes().group_by("op").agg(n=rr.count()).changes(), rr.Stream)

# processors
processed = views.process(Echo, by="user")
assert_type(processed, Processed[rr.Stream])
assert_type(processed["seen"], rr.Stream)
assert_type(processed.stream, rr.Stream)
assert_type(processed.outputs, tuple[str, ...])
assert_type(views.process(Echo(), by=["user", "page"])["seen"].key_by("user"), rr.Stream)

# a chain through everything
last = (
    views.join(clicks, on="user", within="1 minute", prefix="click_")
    .join(users, on="user", as_of="event time")
    .group_by("country")
    .window(rr.hopping("1 hour", "5 minutes"), updatable="1 day")
    .agg(n=rr.count(), slow=rr.percentile("ms", [0.5, 0.99]))
    .changes()
    .deduplicate("country", within="1 day")
)
assert_type(last, rr.Stream)

# alerts
told = views.alert(
    rr.alerts.topic("told"), group_by="user", escalate=[("1 hour", rr.alerts.sse("x"))]
)
assert_type(told, rr.Stream)
assert_type(
    users.alert(rr.alerts.email("ops@example.com"), group_by=["user"], repeat=None), rr.Stream
)
