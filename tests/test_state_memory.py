"""State larger than the memory it may take: the right table on real Spark, in bounded memory."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import polars as pl
import psutil
import pytest

from riverrun import config
from riverrun.errors import ConfigError
from riverrun.kafka import admin
from riverrun.kernels.chunks import by_page, pack, unpack, with_hash
from running import Run, produce, table

PROGRAM = """
import riverrun as rr
app = rr.App({name!r}, pages=8)
views = app.stream({topic!r}, schema="user string, ms bigint, note string")
table = views.group_by("user").agg(n=rr.count(), ms=rr.sum("ms"), last=rr.last("ms"),
                                   note=rr.last("note"))
table.select("user", "n", "ms", "last", long="length(note)").to({topic!r} + "-out")
"""


def users(count):
    """Keys that do not compress: about 150 bytes of state each."""
    chosen = random.Random(5)
    return [f"{chosen.getrandbits(256):064x}" for _ in range(count)]


def ran(broker, home, tmp_path, name, *, keys, memory, note=0):
    """Every user twice, in another order: the table, what it should be, and a worker's peak."""
    (tmp_path / "riverrun.toml").write_text(f'state_memory = "{memory}"\n')
    admin.create_topic(broker, name, partitions=2)
    known = users(keys)
    sent = [*known, *random.Random(6).sample(known, keys)]
    rows = [{"user": u, "ms": n, "note": (u * 64)[:note]} for n, u in enumerate(sent)]
    produce(broker, name, rows, partitions=2)
    file = tmp_path / f"{name}.py"
    file.write_text(PROGRAM.format(name=name, topic=name))
    with Run(file, "--max-events", str(keys // 5), "--batch-time", "1 hour", home=home) as job:
        for tenth in range(1, 11):  # each in its own time
            job.until(2 * keys * tenth // 10)
        peak = _peak(job)
        assert job.stop() == 0, job.error()
    expected = {}
    for number, user in enumerate(sent):
        count, total, _ = expected.get(user, (0, 0, 0))
        expected[user] = (count + 1, total + number, number)
    rows = table(broker, f"{name}-out").items()
    return {user: (row["n"], row["ms"], row["last"]) for user, row in rows}, expected, peak


def _peak(job) -> int:
    """The highest memory of a Python worker so far."""
    peaks = []
    for process in psutil.Process(job.process.pid).children(recursive=True):
        with suppress(FileNotFoundError, psutil.NoSuchProcess):  # it may end at any time
            status = Path(f"/proc/{process.pid}/status").read_text()
            if "python" in process.name() and "VmHWM" in status:
                peaks.append(int(status.split("VmHWM:")[1].split()[0]) << 10)
    return max(peaks)


@pytest.mark.parametrize("column", ["text", "struct", "list"])
def test_the_parts_of_a_frame_are_together_as_large_as_the_whole(column):
    texts = pl.DataFrame({"key": users(1_000), "text": [each * 30 for each in users(1_000)]})
    frame = texts.select(
        "key", "text", pl.struct("text").alias("struct"), pl.concat_list("text").alias("list")
    ).select("key", column)
    parts = [(pack(part), part) for _, part in by_page(with_hash(frame, ("key",)), 32)]
    assert sum(len(data) for data, _ in parts) < 1.3 * len(pack(frame))
    assert all(unpack(data).equals(part) for data, part in parts)


@pytest.mark.broker
@pytest.mark.spark
def test_state_of_many_times_the_bound_gives_the_right_table(broker, broker_settings, tmp_path):
    size = {"keys": 90_000, "memory": "1 MB"}
    found, expected, _ = ran(broker, broker_settings.home, tmp_path, "spilling", **size)
    assert found == expected


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_workers_stay_small_when_state_is_large(broker, broker_settings, tmp_path):
    home = broker_settings.home
    size = {"keys": 150_000, "note": 2_000}  # 300 MB of state
    found, expected, wide = ran(broker, home, tmp_path, "roomy", memory="2 GB", **size)
    assert found == expected
    found, expected, tight = ran(broker, home, tmp_path, "tight", memory="20 MB", **size)
    assert found == expected
    print(f"peak of a worker: {wide >> 20} MB, bounded {tight >> 20} MB")
    assert tight < wide - (50 << 20)


@pytest.mark.parametrize(
    ("text", "size"), [("1 GB", 1 << 30), ("512MB", 512 << 20), ("1.5 kb", 1536)]
)
def test_sizes_are_written_with_their_unit(text, size, tmp_path):
    (tmp_path / "riverrun.toml").write_text(f'state_memory = "{text}"\n')
    assert config.load(tmp_path).state_memory == size


@pytest.mark.parametrize("text", ['"much"', '"-1 GB"', "12"])
def test_a_size_that_cannot_be_read_is_one_clear_error(text, tmp_path):
    (tmp_path / "riverrun.toml").write_text(f"state_memory = {text}\n")
    with pytest.raises(ConfigError, match="a size cannot be read"):
        config.load(tmp_path)
