"""Checkpoints on real servers: S3 over HTTP, and HDFS. `make far` gets them, and runs this.

S3 is moto's server, in memory; HDFS a name node and a data node of Hadoop's own mini-cluster.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

import pyspark
import pytest
from pyarrow.fs import S3FileSystem

from far_places import FarContract
from riverrun import config, errors, far
from riverrun.embedded import jars, java
from riverrun.kafka import admin
from running import Run, produce, table

pytestmark = pytest.mark.slow

SERVERS = Path(__file__).parents[1] / ".far"
EVENTS, PER_BATCH = 3_000, 300
S3 = "spark.hadoop.fs.s3a."


def require(name):
    if not (SERVERS / name).is_dir():
        pytest.skip(f"there is no {SERVERS / name}: `make far` gets it")


def answers(process, port):
    give_up_at = time.monotonic() + 300
    while time.monotonic() < give_up_at and process.poll() is None:
        with socket.socket() as found:
            if found.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"no server on port {port}: {process.args}")


@pytest.fixture(scope="module")
def s3():
    """The settings of a server with the bucket `river`."""
    require("s3")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-c", "from moto.server import main; main()"]
    process = subprocess.Popen(
        [*command, "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "PYTHONPATH": str(SERVERS / "s3")},
        stderr=subprocess.DEVNULL,
    )
    try:
        answers(process, port)
        where = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http"}
        who = {"access_key": "ann", "secret_key": "secret", "region": "us-east-1"}
        S3FileSystem(**where, **who, allow_bucket_creation=True).create_dir("river")
        yield {
            f"{S3}endpoint": f"http://127.0.0.1:{port}", f"{S3}path.style.access": "true",
            f"{S3}access.key": "ann", f"{S3}secret.key": "secret",
            f"{S3}connection.expect.continue": "false",  # one answer less to wait for
        }  # fmt: skip
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    """The URL of a name node."""
    require("hdfs")
    folder, settings = tmp_path_factory.mktemp("hdfs"), config.load(start=Path("/"))
    classes = [*jars.fetch("hadoop-minicluster", settings)]
    classes += sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    process = subprocess.Popen(
        [
            *(str(java.find(settings.cache).executable), "-Xmx512m"),
            *(f"-Dtest.build.data={folder}", f"-Dhadoop.log.dir={folder}"),
            *("-cp", ":".join(map(str, classes))),
            *("org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-format"),
            *("-writeDetails", str(folder / "details.json")),
        ],
        stdin=subprocess.PIPE,  # it stays until it is killed
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        give_up_at = time.monotonic() + 300
        while not (folder / "details.json").exists():
            assert time.monotonic() < give_up_at
            assert process.poll() is None
            time.sleep(0.5)
        port = json.loads((folder / "details.json").read_text())["namenode_port"]
        answers(process, port)
        sys.path.append(str(SERVERS / "hdfs"))
        yield f"hdfs://127.0.0.1:{port}"
        sys.path.remove(str(SERVERS / "hdfs"))
    finally:
        process.kill()
        process.wait()


class TestS3(FarContract):
    @pytest.fixture
    def folder(self, s3):
        return far.parsed(f"s3a://river/{uuid.uuid4().hex}", s3)


class TestHdfs(FarContract):
    @pytest.fixture
    def folder(self, hdfs):
        return far.parsed(f"{hdfs}/{uuid.uuid4().hex}", {})


def test_a_bucket_that_is_not_there_is_one_clear_error(s3):
    with pytest.raises(errors.CheckpointAway, match="is there such a bucket"):
        (far.parsed("s3a://absent/folder", s3) / "id").write_text("")


PROGRAM = """
import riverrun as rr

app = rr.App("{name}")
views = app.stream("{name}-views", schema="page string, at timestamp", time="at")
views.group_by("page", name="pages").window(rr.tumbling("1 minute"), updatable="1 hour").agg(
    n=rr.count()
).to("{name}-out")
"""


@pytest.fixture(params=["s3", "hdfs"])
def root(request, tmp_path, monkeypatch):
    """The root of checkpoints that programs of the test's folder have."""
    found = request.getfixturevalue(request.param)
    url, spark = ("s3a://river/cp", found) if request.param == "s3" else (f"{found}/cp", {})
    lines = [f"{key} = {json.dumps(value)}" for key, value in spark.items()]
    (tmp_path / "riverrun.toml").write_text("\n".join(["[spark]", *lines]))
    monkeypatch.setenv("RIVERRUN_CHECKPOINTS", url)
    monkeypatch.setenv("PYTHONPATH", str(SERVERS / "hdfs"))
    return far.parsed(url, spark)


@pytest.mark.spark
@pytest.mark.broker
def test_a_job_killed_in_the_middle_counts_each_event_once(
    root, broker, broker_settings, tmp_path, riverrun
):
    name = f"far-{root.url[:3]}"
    admin.create_topic(broker, f"{name}-views", partitions=2)
    sent = [{"page": f"/{n % 7}", "at": f"2026-01-01T12:00:{n % 60:02d}Z"} for n in range(EVENTS)]
    produce(broker, f"{name}-views", sent, partitions=2)
    file = tmp_path / "app.py"
    file.write_text(PROGRAM.format(name=name))
    options = ("--max-events", str(PER_BATCH), "--batch-time", "1 hour")
    with Run(file, *options, home=broker_settings.home) as run:
        run.until(EVENTS // 2)
    [shown] = json.loads(riverrun("ps", "--json").out)
    assert shown["state"] == "died"
    with Run(file, "--once", "--close", *options, home=broker_settings.home) as run:
        assert run.end(600) == 0, run.error()
        # a batch that was told, and not committed yet, is run again
        assert run.statuses()[-1]["events"] <= EVENTS // 2 + PER_BATCH, "it has gone on"
    counted = {row["page"]: row["n"] for row in table(broker, f"{name}-out").values()}
    assert counted == Counter(each["page"] for each in sent)
    assert riverrun("backup", name, "b.tar.zst").code == 0
    assert riverrun("restore", "b.tar.zst", "--as", f"{name}-copy").code == 0
    copied = (root / f"{name}-copy").files()
    assert len([1 for path, _ in copied if path.startswith("query/")]) > EVENTS // PER_BATCH
