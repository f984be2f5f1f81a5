"""Time on real Kafka and real Spark: processing time, max_ahead, append time, clocks."""

from __future__ import annotations

import json
import time

import pytest

from riverrun.kafka import admin
from running import PATIENCE, Run, produce, records, table

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr
app = rr.App("timely")
seen = app.stream("timely-seen", schema="page string", time=rr.processing_time())
seen.group_by("page", name="seen").window(rr.tumbling("1 second")).agg(n=rr.count()).to("timely-n")
made = app.stream("timely-made", schema="device string, at timestamp_ms", time="at",
                  producer="device", idle="1 hour")
(made.group_by("device", name="made").window(rr.tumbling("1 minute"), late_alert=0.1)
     .agg(n=rr.count()).to("timely-out"))
"""
START = 1_767_225_600_000
FAR = 4_070_908_800_000


def until(found, what) -> None:
    give_up = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < give_up, found()
        time.sleep(0.2)


def test_processing_time_survives_a_kill_and_an_event_of_2099_moves_no_clock(
    broker, broker_settings, tmp_path, riverrun
):
    for topic in ("timely-seen", "timely-made"):
        admin.create_topic(broker, topic, partitions=2)
    file, home = tmp_path / "timely.py", broker_settings.home
    file.write_text(PROGRAM)

    def counted() -> int:
        return sum(row["n"] for row in table(broker, "timely-n").values())

    produce(broker, "timely-seen", [{"page": "/a"}] * 500, partitions=2)
    with Run(file, home=home) as run:
        run.until(500)
    with Run(file, home=home) as run:
        produce(broker, "timely-seen", [{"page": "/b"}] * 500, partitions=2)
        made = [("a", START), ("b", START + 30_000), ("c", FAR), ("a", START + 90_000)]
        produce(broker, "timely-made", [{"device": d, "at": at} for d, at in made])
        until(counted, lambda: counted() == 1000)
        until(run.statuses, lambda: (run.statuses() or [{}])[-1].get("dead") == 1)
        produce(broker, "timely-made", [{"device": "b", "at": START + 80_000}])
        until(run.statuses, lambda: len(table(broker, "timely-out")) == 2)
        produce(broker, "timely-made", [{"device": "b", "at": START}])
        until(run.error, lambda: "warning: made: " in run.error())
        status = run.statuses()[-1]
        shown = {row["step"]: row for row in json.loads(riverrun("clocks", "--json").out)}
    assert counted() == 1000
    letters = [json.loads(value) for _, value in records(broker, "timely.dead")]
    assert [(each["step"], each["cause"][:60]) for each in letters] == [
        ("max_ahead", "its time 2099-01-01T00:00:00Z is more than 1 day ahead of th"),
    ]
    assert shown["made"]["held_by"] == "timely-made:b"
    assert shown["made"]["clock"] == "2026-01-01T00:01:20Z"
    assert (shown["made"]["late"], shown["made"]["alert"]["limit"]) == (1, 0.1)
    assert shown["seen"]["held_by"] == "processing time"
    assert shown["seen"]["behind_seconds"] == 0
    assert status["late"] == {"made": 1, "seen": 0}
    assert "recent" not in status


def test_append_time_needs_a_topic_that_keeps_it(broker, tmp_path, riverrun, once):
    file = tmp_path / "appended.py"
    file.write_text(
        "import riverrun as rr\n"
        "app = rr.App('appended')\n"
        "app.stream('appended', schema='n int', time=rr.append_time()).to('appended-out')\n"
    )
    admin.create_topic(broker, "appended")
    outcome = riverrun("run", str(file), "--once")
    assert outcome.code == 2
    assert outcome.err.startswith("error: the topic 'appended' does not keep append time [RR202]")
    assert f"where: {file}:3" in outcome.err
    assert "message.timestamp.type=LogAppendTime" in outcome.err
    admin.delete_topic(broker, "appended")
    riverrun("topics", "create", "appended", "--append-time")
    produce(broker, "appended", [{"n": 1}])
    found = json.loads(riverrun("topics", "describe", "appended", "--json").out)
    assert found["config"] == {"message.timestamp.type": "LogAppendTime"}
    once(file)
    assert [value for _, value in records(broker, "appended-out")] == ['{"n":1}']
