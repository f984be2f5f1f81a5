"""A program whose results depend on time alone: events per device and five minutes."""

from __future__ import annotations

import riverrun as rr
from riverrun.testing import Driver

FIVE = rr.tumbling("5 minutes")
NOON = "2026-01-01T12:00:00Z"


def counted(schema="at timestamp, device string, kind string", now=None, alert=None, **options):
    """Events per device and five minutes, to `out`."""
    app = rr.App("iot", pages=2)
    options = {"time": "at", **options}
    stream = app.stream("t", schema=schema, **options)
    grouped = stream.group_by("device", name="devices").window(FIVE, late_alert=alert)
    grouped.agg(n=rr.count()).to("out")
    return Driver(app, now=now)
