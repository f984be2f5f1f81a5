"""A program that alerts, for tests: services that fail, and what is told of them."""

from __future__ import annotations

import riverrun as rr
from riverrun.testing import Driver

NOON = "2026-01-01T12:00:00Z"
SCHEMA = "service string, ms bigint, message string"


def program(*channels, of="stream", app=None, **options):
    app = app or rr.App("shop", pages=2)
    if of == "table":
        rows = app.table("rows", schema=f"id bigint, {SCHEMA}", key="id")
    else:
        rows = app.stream("rows", schema=SCHEMA)
    given = {"group_by": "service", "name": "failing", "wait": "1 minute", "repeat": "1 hour"}
    rows.alert(*channels, **{**given, **options})
    return app


def driver(*channels, **options):
    return Driver(program(*channels, **options), now=NOON)


def fail(driver, *services, ms=7, **more):
    for each in services:
        driver.send("rows", {"service": each, "ms": ms, "message": None, **more})
    return driver.batch()


def told(lines, *columns, output="shop.failing.told"):
    chosen = [line["value"] for line in lines if line["output"] == output]
    return [tuple(row[name] for name in columns or ("service", "kind", "n")) for row in chosen]


def standing(driver, *columns):
    rows = driver.table("shop.failing.groups")
    return [tuple(row[name] for name in columns or ("service", "state", "n")) for row in rows]
