"""The archive of Spark's classes, made before the first test that starts Spark.

A JVM without it takes four times the CPU of one with it to start, and writes one only if it ends in
peace: tests kill theirs, and the one that they share ends last.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from riverrun.config import Settings
from riverrun.embedded import class_archive, java, kafka
from riverrun.embedded.lock import exclusive
from riverrun.kafka import admin
from running import Run, produce

PROGRAM = """
import riverrun as rr
app = rr.App("classes", pages=2)
views = app.stream("classes-views", schema="page string, ms int, at timestamp_ms", time="at")
counted = views.group_by("page").window(rr.tumbling("1 minute")).agg(n=rr.count(), ms=rr.sum("ms"))
counted.to("classes-out")
"""
PATIENCE = timedelta(minutes=15)


def archived(settings: Settings, folder: Path) -> None:
    """With the broker of the settings, unless there is an archive, or this Java has another way."""
    from riverrun.spark import session  # noqa: PLC0415 - Spark only when it is needed

    runtime = java.find(settings.cache)
    archive = session.classes(runtime, settings.cache)
    if runtime.version >= class_archive.AHEAD_OF_TIME:
        return
    with exclusive(archive.with_suffix(".lock"), patience=PATIENCE):
        if not archive.exists():
            _written(settings, folder)


def _written(settings: Settings, folder: Path) -> None:
    client = kafka.client(settings)
    admin.create_topic(client, "classes-views")
    rows = [{"page": "ab"[n % 2], "ms": n, "at": 1_767_268_800_000 + n * 1000} for n in range(200)]
    produce(client, "classes-views", rows)
    program = folder / "classes_of_spark.py"
    program.write_text(PROGRAM)
    with Run(program, "--once", home=settings.home) as run:
        assert run.end(PATIENCE.total_seconds()) == 0, run.error()
