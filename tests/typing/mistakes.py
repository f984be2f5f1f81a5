"""Deliberate mistakes: a type checker finds each, and nothing else.

Behind each line is the code of the error, and a part of what it says.
"""

import riverrun as rr


class Echo(rr.Processor):
    outputs = {"seen": "user string"}


SCHEMA = "user string, ms bigint"
app = rr.App("shop")
views = app.stream("views", schema=SCHEMA)
users = app.table("users", schema=SCHEMA, key="user")
groups = views.group_by("user")
minute = rr.tumbling("1 minute")
corrected = views.join(users, on="user", as_of="event time", corrections=True)

# sources
rr.App(5)  # arg-type: "App" has incompatible type "int"; expected "str"
rr.App("shop", pages="8")  # arg-type: expected "int"
rr.App("shop", delivery="once")  # arg-type: expected "Literal['exactly once', 'at least once']"
app.stream("views")  # call-arg: Missing named argument "schema"
app.stream(None, schema=SCHEMA)  # arg-type: expected "str"
app.stream("views", schema=["user string"])  # arg-type: expected "str"
app.stream("views", schema=SCHEMA, key=["user"])  # arg-type: expected "str | None"
app.stream("views", schema=SCHEMA, time=5)  # arg-type: expected "str |
app.stream("views", schema=SCHEMA, lateness=5)  # arg-type: expected "str | timedelta"
app.stream("views", schema=SCHEMA, idle=None)  # arg-type: expected "str | timedelta"
app.stream("views", schema=SCHEMA, max_ahead=1.5)  # arg-type: expected "str | timedelta | None"
app.stream("views", schema=SCHEMA, producer=5)  # arg-type: expected "str | None"
app.stream("views", schema=SCHEMA, punctuation=True)  # arg-type: expected "str | None"
app.stream("views", schema=SCHEMA, start=5)  # arg-type: expected "str"
app.stream("views", schema=SCHEMA, on_loss="cry")  # arg-type: expected "Literal['stop', 'skip']"
app.stream("views", schema=SCHEMA, on_error="panic")  # arg-type: expected "Literal['set aside'
app.table("users", schema=SCHEMA)  # call-arg: Missing named argument "key"
app.table("users", schema=SCHEMA, key=5)  # arg-type: expected "str | Sequence[str]"
app.table("users", schema=SCHEMA, key="user", replicate="yes")  # arg-type: expected "bool"

# rows
views.where(True)  # arg-type: expected "str"
views.select(5)  # arg-type: expected "str"
views.select(x=5)  # arg-type: expected "str"
views.with_columns("ms")  # call-arg: Too many arguments
views.with_columns(x=None)  # arg-type: expected "str"
views.explode(["ms"])  # arg-type: expected "str"
views.union(users)  # arg-type: "Table"; expected "Stream"
views.key_by(5)  # arg-type: expected "str"
views.filter("ms > 1")  # attr-defined: "Stream" has no attribute "filter"
users.explode("ms")  # attr-defined: "Table" has no attribute "explode"
users.where(None)  # arg-type: expected "str"
users.select(views)  # arg-type: expected "str"
views.through(None)  # arg-type: expected "str"
views.through("again", idle=10)  # arg-type: expected "str | timedelta"
users.through("again", idle="1 s")  # call-arg: Unexpected keyword argument "idle"
views.spark("rows", schema=SCHEMA)  # arg-type: expected "Callable
views.spark(lambda rows: rows)  # call-arg: Missing named argument "schema"
views.changes()  # attr-defined: "Stream" has no attribute "changes"
users.changes(name=5)  # arg-type: expected "str | None"
users.to_table("user")  # attr-defined: "Table" has no attribute "to_table"
views.to_table(delete=True)  # arg-type: expected "str | None"
views.deduplicate("user")  # call-arg: Missing named argument "within"
views.deduplicate("user", within=60)  # arg-type: expected "str | timedelta"
views.mark_seen("user", capacity="many")  # arg-type: expected "int"
views.mark_seen("user", error="1 %")  # arg-type: expected "float"
views.mark_seen("user", into=None)  # arg-type: expected "str"
users.deduplicate("user", within="1 s")  # attr-defined: "Table" has no attribute "deduplicate"

# joins
views.join(views)  # call-overload: No overload variant of "join"
views.join(5, on="user")  # call-overload: No overload variant of "join"
views.join(groups, on="user")  # call-overload: No overload variant of "join"
views.join(users, on=5)  # call-overload: No overload variant of "join"
views.join(views, on="user", how="outer")  # call-overload: No overload variant of "join"
views.join(users, on="user", how="full")  # call-overload: No overload variant of "join"
views.join(views, on="user", time="middle")  # call-overload: No overload variant of "join"
views.join(users, on="user", as_of="now")  # call-overload: No overload variant of "join"
views.join(views, on="user", as_of="latest")  # call-overload: No overload variant of "join"
views.join(users, on="user", within="1 minute")  # call-overload: No overload variant of "join"
views.join(users, on="user", corrections=True)  # call-overload: No overload variant of "join"
views.join(views, on="user", within=60)  # call-overload: No overload variant of "join"
users.join(views, on="user")  # arg-type: "Stream"; expected "Table"
users.join(users, on="user", how="outer")  # arg-type: expected "Literal['inner'
corrected.explode("ms")  # attr-defined: "Table" has no attribute "explode"
corrected.process(Echo, by="user")  # attr-defined: "Table" has no attribute "process"
corrected.window(minute)  # attr-defined: "Table" has no attribute "window"

# groups
views.window(minute)  # attr-defined: "Stream" has no attribute "window"
views.group_by(5)  # arg-type: expected "str"
views.group_by("user", name=5)  # arg-type: expected "str | None"
views.group_by("user", on_error="ignore")  # arg-type: expected "Literal['set aside'
groups.window("1 minute")  # arg-type: expected "Window"
groups.window(rr.tumbling)  # arg-type: expected "Window"
groups.window(minute, emit="later")  # arg-type: expected "Literal['changes'
groups.window(minute, updatable=5)  # arg-type: expected "str | timedelta"
groups.window(minute, late_alert="1 %")  # arg-type: expected "float | None"
groups.agg(n=5)  # arg-type: expected "Agg"
groups.agg(n="count")  # arg-type: expected "Agg"
groups.agg(n=rr.count)  # arg-type: expected "Agg"
groups.agg(rr.count())  # call-arg: Too many arguments
groups.top("10", by="ms")  # arg-type: expected "int"
groups.top(10)  # call-arg: Missing named argument "by"
groups.bottom(10, by=5)  # arg-type: expected "str"
groups.top(10, by="ms", place=True)  # arg-type: expected "str | None"
groups.where("ms > 1")  # attr-defined: has no attribute "where"
groups.to("out")  # attr-defined: has no attribute "to"
groups.agg(n=rr.count()).window(minute)  # attr-defined: "Table" has no attribute "window"

# windows and aggregates
rr.tumblign("1 minute")  # attr-defined: Module has no attribute "tumblign"
rr.tumbling(60)  # arg-type: expected "str | timedelta"
rr.tumbling("1 day", timezone=1)  # arg-type: expected "str | None"
rr.hopping("1 minute")  # call-arg: Missing positional argument "hop"
rr.session(30)  # arg-type: expected "str | timedelta"
rr.sliding(None)  # arg-type: expected "str | timedelta"
rr.all_time("1 day")  # call-arg: Too many arguments
rr.count(5)  # arg-type: expected "str | None"
rr.sum()  # call-arg: Missing positional argument
rr.avg(5)  # arg-type: expected "str"
rr.min(5)  # arg-type: expected "str"
rr.max(5)  # arg-type: expected "str"
rr.first(5)  # arg-type: expected "str"
rr.last(5)  # arg-type: expected "str"
rr.collect(5)  # arg-type: expected "str"
rr.variance(5)  # arg-type: expected "str"
rr.stddev(5)  # arg-type: expected "str"
rr.distinct(5)  # arg-type: expected "str"
rr.median(5)  # arg-type: expected "str"
rr.approx_distinct(5)  # arg-type: expected "str"
rr.approx_top(5)  # arg-type: expected "str"
rr.rate(5)  # arg-type: expected "str | None"
rr.approx_percentile("ms", None)  # arg-type: expected "float | Sequence[float]"
rr.append_time("at")  # call-arg: Too many arguments
rr.processing_time("at")  # call-arg: Too many arguments
rr.percentile("ms", "0.5")  # arg-type: expected "float | Sequence[float]"
rr.top("ms", k="3")  # arg-type: expected "int"
rr.approx_counts("ms", of=5)  # arg-type: expected "Sequence[
rr.compared_to("1 day", "count")  # arg-type: expected "Agg"
rr.device_time(occurred="at")  # call-arg: Missing named argument "sent"
rr.device_time(occurred="at", sent="at", max_offset=1)  # arg-type: expected "str | timedelta"

# processors and outputs
views.process(print, by="user")  # arg-type: expected "Processor | FrameProcessor
views.process(Echo)  # call-arg: Missing named argument "by"
views.process(Echo, by=5)  # arg-type: expected "str | Sequence[str]"
processed = views.process(Echo, by="user")
processed.where("ms > 1")  # attr-defined: "Processed" has no attribute "where"
processed.to("out")  # attr-defined: "Processed" has no attribute "to"
processed[0]  # index: expected type "str"
views.join(processed, on="user")  # call-overload: No overload variant of "join"
views.union(processed)  # arg-type: "Processed"; expected "Stream"
rr.sinks.topic(5)  # arg-type: expected "str"
rr.sinks.topic("out", partitions="3")  # arg-type: expected "int | None"
rr.sinks.screen(5)  # arg-type: expected "str | None"
rr.sinks.postgres(None)  # arg-type: expected "str"
rr.sinks.sqlite("shop.db")  # call-arg: Missing positional argument "table"
rr.sinks.parquet(5)  # arg-type: expected "str | PathLike[str]"
rr.sinks.delta(5)  # arg-type: expected "str | PathLike[str]"
rr.sinks.webhook("https://example.com", tries="5")  # arg-type: expected "int"
rr.sinks.tpoic("out")  # attr-defined: Module has no attribute "tpoic"
views.apply(5)  # arg-type: expected "Callable
views.to(rr.sinks.screen)  # arg-type: expected "str | Sink"
views.to(5)  # arg-type: "to" of "Relation" has incompatible type "int"
views.to("out", on_error="ignore")  # arg-type: expected "Literal['set aside'
