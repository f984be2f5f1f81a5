"""The same program on a real Spark cluster: a standalone master and two workers on loopback."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from riverrun.connectors import admin
from riverrun.embedded.spark_cluster import Cluster
from running import Run, produce, table
from test_run import MORE, PROGRAM, ledger, milliseconds, views

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OWN_MODULE = """
def label(page):
    return "page " + page
"""
OWN_CODE = """
from pyspark.sql.functions import udf
import labels_of_pages

class Seen(rr.Processor):
    state = "n bigint default 0"
    outputs = {{"seen": "page string, n bigint, label string"}}

    def on_event(self, event, state, context):
        state.n += 1
        label = labels_of_pages.label(context.key["page"])
        context.emit("seen", page=context.key["page"], n=state.n, label=label)

def labelled(frame):
    return frame.withColumn("label", udf(labels_of_pages.label, "string")("page"))

(views.spark(labelled, schema="page string, label string").group_by("label").agg(n=rr.count())
      .to({output!r} + "-labels"))
views.process(Seen(), by="page")["seen"].group_by("label", name="last").agg(n=rr.max("n")).to(
    {output!r} + "-seen")
"""
EVENTS = 40_000


def program(folder: Path, name: str, topic: str) -> Path:
    (folder / "labels_of_pages.py").write_text(OWN_MODULE)
    file = folder / f"{name}.py"
    text = PROGRAM + MORE + OWN_CODE
    file.write_text(text.format(name=name, topic=topic, output=f"{name}-out"))
    return file


def executors(cluster: Cluster) -> list[psutil.Process]:
    return [each for worker in cluster.workers for each in worker.executors()]


def test_executors_and_their_workers_are_killed_and_the_table_is_that_of_a_local_run(
    broker, broker_settings, standalone, tmp_path
):
    admin.create_topic(broker, "spread-views", partitions=3)
    sent = views(EVENTS)
    produce(broker, "spread-views", sent, partitions=3)
    home = broker_settings.home
    spread, local = (program(tmp_path, name, "spread-views") for name in ("spread", "local"))
    with Run(spread, "--master", standalone.master, "--max-events", "4000", home=home) as run:
        run.until(4000)
        first = executors(standalone)
        assert len(first) == 2
        workers = [each for one in first for each in one.children(recursive=True)]
        max(workers, key=lambda each: each.cpu_times().user).kill()
        run.until(12_000)
        first[0].kill()
        run.until(EVENTS)
        assert run.stop() == 0, run.error()
    assert psutil.pid_exists(first[1].pid) is False, "executors end with the application"
    with Run(local, "--once", home=home) as run:
        assert run.end() == 0, run.error()
    found = table(broker, "spread-out")
    assert {
        (row["page"], int(milliseconds(row["window_start"]))): (row["views"], row["total"])
        for row in found.values()
    } == ledger(sent)
    for more in ("", "-total", "-sessions", "-hops", "-labels", "-seen"):
        assert table(broker, f"spread-out{more}") == table(broker, f"local-out{more}")
