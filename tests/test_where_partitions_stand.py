"""After the first batch it is known where all partitions stand, also those that gave nothing: what
began with the latest records is not behind by all that came before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import riverrun as rr
from riverrun.clock import Now, Punctuation
from riverrun.kernels.messages import STATUS, status_of
from riverrun.partitions import Partition
from riverrun.sources.planning import Offset
from riverrun.sources.reading import read_ranges
from riverrun.spark.source import ChunkReader
from riverrun.testing import Driver

STANDS = {Partition("views", 0): 7, Partition("views", 1): 9}


def views() -> rr.App:
    app = rr.App("shop")
    app.stream("views", schema="user string", start="latest").to("copies")
    return app


@pytest.mark.parametrize(
    ("batch", "told"), [(1, {"views/0": 7, "views/1": 9}), (2, {"views/0": 7})]
)
def test_partitions_without_records_are_told_of_once(
    monkeypatch: pytest.MonkeyPatch, batch: int, told: dict[str, int]
) -> None:
    driver = Driver(views())
    driver.send("views", *({"user": str(n)} for n in range(7)))
    source = SimpleNamespace(commands=lambda *_: [], wall=False)
    job = SimpleNamespace(program=driver.program, source=source, only=None)
    monkeypatch.setattr(ChunkReader, "job", job)
    start = Offset(STANDS | {Partition("views", 0): 5}, clocks={})
    end = Offset(STANDS, clocks={}, batch=batch)
    [task] = ChunkReader("").partitions(start.logged(), end.logged())
    read = read_ranges(driver.topics, driver.reader, task.ranges, task.now, task.punctuation)
    statuses = [status_of(each) for chunks in read for each in chunks if each.edge == STATUS]
    assert statuses[-1].ends == told


def test_a_task_without_ranges_says_nothing_of_its_own() -> None:
    driver = Driver(views())
    [chunks] = read_ranges(driver.topics, driver.reader, [], Now(), Punctuation())
    assert status_of(chunks[0]).ends == {}
