"""`riverrun run` on real Kafka and real Spark: what it promises when things go wrong."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import datetime
from pathlib import Path

import pytest

from riverrun.kafka import admin
from running import Run, produce, records, table

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr
app = rr.App({name!r})
views = app.stream({topic!r}, schema="page string, ms double, at timestamp_ms", time="at",
                   lateness="10 seconds")
(views.where("ms >= 0").group_by("page").window(rr.tumbling("1 minute"), emit="changes")
      .agg(views=rr.count(), total=rr.sum("ms"), last=rr.last("ms")).to({output!r}))
"""
MORE = """
per_page = views.group_by("page", name="minutes").window(rr.tumbling("1 minute"), emit="changes")
per_page.agg(n=rr.count()).group_by("window_start").agg(pages=rr.count(), n=rr.sum("n")).to(
    {output!r} + "-total")
views.group_by("page").window(rr.session("2 seconds"), emit="changes").agg(n=rr.count()).to(
    {output!r} + "-sessions")
views.group_by("page").window(rr.hopping("10 seconds", "5 seconds"), emit="changes").agg(
    high=rr.percentile("ms", 0.9)).to({output!r} + "-hops")
"""
SHOWN = """
import riverrun as rr
app = rr.App("shown")
app.stream("shown-views", schema="page string, at bigint").to(rr.sinks.screen())
"""
START = 1_767_225_600_000
EVENTS = 24_000


def program(folder: Path, name: str, topic: str, output: str, more: str = "") -> Path:
    file = folder / f"{name}.py"
    file.write_text((PROGRAM + more).format(name=name, topic=topic, output=output))
    return file


def views(count: int) -> list[dict[str, object]]:
    chosen = random.Random(3)
    return [
        {"page": f"/{chosen.randrange(300)}", "ms": chosen.randrange(400) / 4, "at": START + n * 20}
        for n in range(count)
    ]


def ledger(rows: list[dict[str, object]]) -> dict[tuple[object, int], tuple[int, float]]:
    """The table as plain Python counts it."""
    counted: dict[tuple[object, int], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for row in rows:
        key = (row["page"], row["at"] // 60_000 * 60_000)
        count, total = counted[key]
        counted[key] = (count + 1, total + row["ms"])
    return dict(counted)


def test_a_job_killed_in_the_middle_ends_with_the_table_of_an_undisturbed_run(
    broker, broker_settings, tmp_path, riverrun, once
):
    admin.create_topic(broker, "killed-views", partitions=3)
    sent = views(EVENTS)
    produce(broker, "killed-views", sent, partitions=3)
    home = broker_settings.home
    killed = program(tmp_path, "killed", "killed-views", "killed-out", MORE)
    calm = program(tmp_path, "calm", "killed-views", "calm-out", MORE)
    with Run(killed, "--max-events", "2400", "--batch-time", "1 hour", home=home) as run:
        run.until(EVENTS // 2)
    apps = json.loads(riverrun("ps", "--json").out)
    shown = next(each for each in apps if each["application"] == "killed")
    assert shown["state"] == "died"
    once(killed, "--max-events", "8000")
    statuses = once(calm, "--max-events", "10000").statuses()
    assert_every_number_is_that_of_the_log(broker, home, "calm", statuses)
    found = table(broker, "killed-out")
    assert found == table(broker, "calm-out")
    assert {
        (row["page"], int(milliseconds(row["window_start"]))): (row["views"], row["total"])
        for row in found.values()
    } == ledger(sent)
    totals = table(broker, "killed-out-total").values()
    assert sum(row["n"] for row in totals) == EVENTS
    for more in ("total", "sessions", "hops"):
        assert table(broker, f"killed-out-{more}") == table(broker, f"calm-out-{more}")


def assert_every_number_is_that_of_the_log(broker, home, app, statuses):
    offsets = home / "checkpoints" / app / "query" / "offsets"
    for status in statuses:
        logged = json.loads((offsets / str(status["batch"])).read_text().splitlines()[-1])
        found = {name: each["read"] for name, each in status["lag"]["partitions"].items()}
        assert found == logged["ends"], "what is read after this very batch"
        assert sum(found.values()) == status["events"]
        assert sum(each["end"] for each in status["lag"]["partitions"].values()) == EVENTS
    assert len(statuses) > 2
    written = statuses[-1]["written"]
    assert written == {
        name: sum(value is not None for _, value in records(broker, name)) for name in written
    }
    assert len(written) == 4


def milliseconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000


def test_a_running_job_sets_bad_records_aside_reads_new_partitions_and_refuses_a_new_topic(
    broker, broker_settings, tmp_path, riverrun
):
    admin.create_topic(broker, "live-views", partitions=1)
    good = views(100)
    produce(broker, "live-views", [*good, "nonsense", '{"page": "/x", "ms": 1}'])
    file = program(tmp_path, "live", "live-views", "live-out")
    with Run(file, home=broker_settings.home) as run:
        run.until(102)
        letters = [json.loads(value) for _, value in records(broker, "live.dead")]
        assert [(each["offset"], each["cause"]) for each in letters] == [
            (100, "the value is not JSON"),
            (101, "no time: at is missing"),
        ]
        assert run.statuses()[-1]["dead"] == 2

        second = riverrun("run", str(file))
        assert second.code == 2
        assert "the application 'live' is running already" in second.err

        admin.add_partitions(broker, "live-views", 2)
        produce(broker, "live-views", [good[0], good[0]], partitions=2)
        run.until(104)
        assert sum(row["views"] for row in table(broker, "live-out").values()) == 102

        admin.delete_topic(broker, "live-views")
        admin.create_topic(broker, "live-views", partitions=2)
        assert run.end() == 2
        # which of the two depends on when the job looks
        assert (
            "the topic 'live-views' was deleted and made again" in run.error()
            or "a topic was deleted while it was read" in run.error()
        )
    shown = next(a for a in json.loads(riverrun("ps", "--json").out) if a["application"] == "live")
    assert (shown["state"], shown["pid"]) == ("failed", None)
    assert shown["error"] in run.error()


def test_a_screen_shows_the_first_rows_of_each_task_once_they_are_committed(broker, tmp_path, once):
    admin.create_topic(broker, "shown-views", partitions=2)
    produce(broker, "shown-views", views(5000), partitions=2)
    file = tmp_path / "shown.py"
    file.write_text(SHOWN)
    [status] = once(file).statuses()
    rows = [(line["value"]["page"], line["value"]["at"]) for line in status["shown"]]
    assert len(rows) == 2 * 1000
    assert len(set(rows)) == len(rows)
    assert status["written"]["screen:shown-views"] == 5000


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (["--brokers", "127.0.0.1:1"], "Kafka"),
        ([], "there are no topics 'absent', 'absent-too'"),
    ],
)
def test_what_is_missing_is_one_clear_error_before_spark_starts(
    options, fact, broker, tmp_path, riverrun
):
    more = 'app.stream("absent-too", schema="page string").to("out-too")\n'
    file = program(tmp_path, "missing", "absent", "out", more)
    outcome = riverrun("run", str(file), *options)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert fact in outcome.err
    assert "hint:" in outcome.err


def test_a_connection_that_a_stopped_query_breaks_off_is_told_in_the_log_alone(spark, capfd):
    try:
        raise EOFError("broken off")
    except EOFError:
        spark.session.sparkContext._accumulatorServer.handle_error(None, None)
    assert capfd.readouterr() == ("", "")
    assert "EOFError: broken off" in (spark.folder / "spark.log").read_text()
