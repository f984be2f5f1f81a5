"""Machines that fall silent, or get hot in three readings and are not cooled: absence as a pattern.

A machine that sends nothing for five minutes is told when the clock has passed them, also when
nothing comes any more. The second pattern is in Python.
"""

import riverrun as rr


def readings(app: rr.App) -> rr.Stream:
    return app.stream(
        "readings",
        schema="machine string, celsius double, fan boolean, at timestamp",
        time="at",
        lateness="5 seconds",
    )


def silent(stream: rr.Stream) -> rr.Stream:
    return stream.match(
        """
        PARTITION BY machine ORDER BY at
        MEASURES reading.at AS last_seen, reading.celsius AS celsius
        PATTERN (reading TIMEOUT) WITHIN INTERVAL '5' MINUTE
        """,
        name="silence",
    )


def overheating(stream: rr.Stream) -> rr.Stream:
    hot = (
        rr.pattern()
        .begin("hot", "celsius > 90")
        .times(3)
        .consecutive()
        .not_followed_by("cooled", "fan AND celsius < 90")
        .within("10 minutes")
    )
    measures = {"since": "FIRST(hot.at)", "most": "MAX(hot.celsius)"}
    return stream.match(hot, by="machine", measures=measures, name="overheating")


app = rr.App("machines")
all_readings = readings(app)
silent(all_readings).to("silent-machines")
overheating(all_readings).to("overheating-machines")
