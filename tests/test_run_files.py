"""Files and webhooks on real Kafka and real Spark, with a run killed in the middle."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from hooks import Answer, hooks
from riverrun.kafka import admin
from running import Run, produce

__all__ = ["hooks"]

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr
app = rr.App("filed", pages=4)
views = app.stream("filed-views", schema="n bigint, page string")
halves = views.where("n % 2 = 0").union(views.where("n % 2 = 1"))
halves.to(rr.sinks.parquet({folder!r} + "/views", partition_by="page"))
pages = views.group_by("page").agg(n=rr.count(), total=rr.sum("n"))
pages.to(rr.sinks.delta({folder!r} + "/pages"), rr.sinks.parquet({folder!r} + "/changes"))
views.where("n % 50 = 0").to(rr.sinks.webhook({url!r}, headers={{"X-From": "riverrun"}}))
"""
EVENTS = 6_000
HELD = 2500
"""The row of the second batch at which the driver waits for an answer, and is killed."""


def test_a_job_killed_in_the_middle_leaves_each_row_once_in_files_and_tables(
    broker, broker_settings, tmp_path, hooks, once
):
    first = {0: Answer(503), HELD: Answer(after=8)}
    hooks.answer = lambda seen, before: (
        Answer() if before else first.get(seen.body["value"]["n"], Answer())
    )
    admin.create_topic(broker, "filed-views", partitions=3)
    chosen = random.Random(5)
    sent = [{"n": n, "page": f"/{chosen.randrange(7)}"} for n in range(EVENTS)]
    produce(broker, "filed-views", sent, partitions=3)
    program = tmp_path / "filed.py"
    program.write_text(PROGRAM.format(folder=str(tmp_path), url=hooks.url))
    with Run(program, "--max-events", "1500", home=broker_settings.home) as run:
        run.until(1500)
        _wait(lambda: hooks.seen[-1].body["value"]["n"] == HELD)
    once(program)

    found = ds.dataset(tmp_path / "views", partitioning="hive").to_table().to_pylist()
    assert Counter((row["n"], row["page"]) for row in found) == Counter(
        (row["n"], row["page"]) for row in sent
    )
    assert _table(DeltaTable(tmp_path / "pages").to_pyarrow_table().to_pylist()) == _ledger(sent)
    changes = ds.dataset(tmp_path / "changes").to_table().to_pylist()
    standing = Counter()
    for row in changes:
        standing[row["page"], row["n"], row["total"]] += 1 if row["change"] == "+" else -1
    assert {page: (n, total) for (page, n, total), c in standing.items() if c} == _ledger(sent)
    assert set(standing.values()) <= {0, 1}

    assert Counter(body["value"]["n"] for body in hooks.bodies()) == Counter(range(0, EVENTS, 50))
    assert hooks.seen[0].headers["X-From"] == "riverrun"
    assert len(hooks.seen) > len(hooks.bodies()) + 2  # those of the killed batch came again
    assert not list(Path(tmp_path).rglob("*.staged"))


def _wait(until: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 30
    while not until():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def _table(rows: list[dict]) -> dict[str, tuple[int, int]]:
    assert len({row["page"] for row in rows}) == len(rows)
    return {row["page"]: (row["n"], int(row["total"])) for row in rows}


def _ledger(sent: list[dict]) -> dict[str, tuple[int, int]]:
    """The table as plain Python counts it."""
    pages = {row["page"] for row in sent}
    numbers = {page: [row["n"] for row in sent if row["page"] == page] for page in pages}
    return {page: (len(each), sum(each)) for page, each in numbers.items()}
