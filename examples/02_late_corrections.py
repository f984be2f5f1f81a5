"""Sensors that report late: a result at once, corrections for an hour, the rest set aside.

The result of an hour comes out when the hour is over. A reading that comes within the next hour
corrects it: the old row is taken back, the new one has a higher revision. What comes later still is
kept in a topic of its own, with the time at which Kafka got it, to be counted by hand.

    $ riverrun describe examples/02_late_corrections.py
    sensors (16 pages)
    ...
"""

import riverrun as rr


def hourly(app: rr.App) -> rr.Table:
    """The extremes and the last reading per sensor and hour."""
    readings = app.stream(
        "readings",
        schema="sensor string, celsius double, at timestamp_ms",
        key="sensor",
        time="at",
        lateness="1 minute",
    )
    return (
        readings.where("celsius between -90 and 60")
        .with_columns(received="_timestamp")
        .group_by("sensor", name="hourly")
        .window(rr.tumbling("1 hour"), updatable="1 hour", emit="ready")
        .agg(
            readings=rr.count(),
            coldest=rr.min("celsius"),
            warmest=rr.max("celsius"),
            latest=rr.last("celsius"),
        )
    )


def too_late(table: rr.Table) -> rr.Stream:
    """Readings that no window takes any more, and by how much they missed it."""
    return table.late.select("sensor", "celsius", "at", delay='epoch(received - "at")')


app = rr.App("sensors")
table = hourly(app)
table.to("hourly-temperatures")
too_late(table).to("readings-too-late")
