"""Pathway: tables in Python over an engine in Rust, with persistence."""

import json
import os

import pathway as pw

PLAN = json.loads(os.environ["PLAN"])
CLIENT = {
    "bootstrap.servers": PLAN["brokers"],
    "group.id": PLAN["output"],
    "auto.offset.reset": "earliest",
}


class View(pw.Schema):
    user: str
    page: str
    ms: float
    at: int


class User(pw.Schema):
    member: str = pw.column_definition(primary_key=True)  # `id` is a column that each table has
    country: str


def read(topic, schema, paths=None):
    return pw.io.kafka.read(
        CLIENT, topic=topic, schema=schema, format="json", autocommit_duration_ms=500, name=topic,
        json_field_paths=paths,
    )  # fmt: skip


def counted(views):
    """It has one clock for all partitions, and a backlog is not read in order of time: without a
    cutoff, what comes late corrects what was told."""
    return views.windowby(
        pw.this.at,
        window=pw.temporal.tumbling(duration=10_000),
        behavior=pw.temporal.common_behavior(delay=11_000),
        instance=pw.this.user,
    ).reduce(
        user=pw.this._pw_instance,
        window_start=pw.this._pw_window_start,
        views=pw.reducers.count(),
        ms=pw.reducers.sum(pw.this.ms),
    )


def joined(views):
    users = read(PLAN["table"], User, {"member": "/id"})
    return views.join(users, views.user == users.member).select(*views, users.country)


def main():
    views = read(PLAN["input"], View)
    if PLAN["work"] == "filter":
        rows = views.filter(pw.this.ms >= 500)
    else:
        rows = counted(views) if PLAN["work"] == "count" else joined(views)
    pw.io.kafka.write(rows, CLIENT, PLAN["output"], format="json")
    backend = pw.persistence.Backend.filesystem(PLAN["state"])
    pw.run(
        monitoring_level=pw.MonitoringLevel.NONE,
        persistence_config=pw.persistence.Config(backend, snapshot_interval_ms=5_000),
    )


main()
