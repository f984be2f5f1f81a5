"""Checkpoints in far file systems: what is written there, who may run, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from far_places import FarContract
from riverrun import config, errors, far
from riverrun.errors import AlreadyRunning, ConfigError
from riverrun.kafka import admin
from riverrun.runtime import checkpoint, claims
from running import produce, table


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The root of checkpoints, by its URL."""
    url = f"file://{tmp_path}/far"
    monkeypatch.setenv("RIVERRUN_CHECKPOINTS", url)
    return far.parsed(url, {})


class TestFilesByUrl(FarContract):
    @pytest.fixture
    def folder(self, root):
        return root / "shop"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://host/folder", "known are file://, s3a://"),
        ("s3://bucket/folder", "s3:// is written as s3a://"),
        ("s3a://bucket", "write it as s3a://bucket/FOLDER"),
        ("s3a:///folder", "a folder for checkpoints is missing"),
    ],
)
def test_a_url_that_nobody_knows_is_an_error_before_anything_starts(
    url, says, tmp_path, monkeypatch, riverrun
):
    (tmp_path / "app.py").write_text("import riverrun as rr\napp = rr.App('shop')\n")
    monkeypatch.setenv("RIVERRUN_CHECKPOINTS", url)
    for command in (("run", "app.py"), ("ps",), ("backup", "shop", "b.tar.gz")):
        ended = riverrun(*command)
        assert ended.code == 2
        assert "[RR102]" in ended.err
        assert says in ended.err


def test_a_url_of_hdfs_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(ConfigError, match=r"pip install 'riverrun\[hdfs\]'"):
        far.parsed("hdfs://name-node:8020/checkpoints", {}).exists()


def test_s3_is_asked_with_the_settings_that_spark_has(monkeypatch, tmp_path):
    (tmp_path / "riverrun.toml").write_text(
        'checkpoints = "s3a://river/checkpoints/"\n'
        '[spark]\nspark.hadoop.fs.s3a.access.key = "ann"\n'
        'spark.hadoop.fs.s3a.endpoint = "http://127.0.0.1:9000"\nspark.executor.memory = "2g"\n'
        'spark.hadoop.fs.s3a.path.style.access = "true"\n'
        'spark.hadoop.fs.s3a.bucket.river.secret.key = "hidden"\n'
    )
    given = {}
    monkeypatch.setattr("pyarrow.fs.S3FileSystem", lambda **options: given.update(options))
    found = config.load(start=tmp_path, environ={}).checkpoint_of("shop")
    assert str(found) == "s3a://river/checkpoints/shop"
    assert found._path == "river/checkpoints/shop"
    assert "hidden" not in repr(found)
    assert found._system is None  # what the stand-in gives
    assert (given["access_key"], given["secret_key"]) == ("ann", "hidden")
    assert (given["endpoint_override"], given["scheme"]) == ("127.0.0.1:9000", "http")
    assert given["force_virtual_addressing"] is False


def test_a_server_that_is_not_there_is_one_clear_error(tmp_path):
    near = {"spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1"}
    with pytest.raises(errors.CheckpointAway, match=r"does not answer, or refuses \[RR403\]"):
        (far.parsed("s3a://river/checkpoints", near) / "id").write_text("")


def claim(folder, **facts):
    """What another process has left."""
    here = {"pid": os.getpid(), "host": "elsewhere", "where": "elsewhere", "count": 1}
    file = folder / claims.FOLDER / "other"
    file.write_text(json.dumps({**here, "at": time.time(), **facts}))
    return file


def ended_process():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_claim_of_a_process_that_was_killed_here_ends_at_once(root):
    claim(root, pid=ended_process(), where=claims._here())
    assert checkpoint.holder(root) is None
    began_at = time.monotonic()
    with checkpoint.held(root, "shop"):
        assert time.monotonic() - began_at < claims.LAPSE / 2


def test_a_claim_of_elsewhere_ends_when_nobody_renews_it(root, monkeypatch):
    monkeypatch.setattr(claims, "LAPSE", 1.0)
    other = claim(root, at=time.time() + 3600)  # the clock there is ahead
    began_at = time.monotonic()
    with checkpoint.held(root, "shop"):
        assert time.monotonic() - began_at >= 1.0
        assert not other.exists()


def test_who_is_alive_elsewhere_is_not_disturbed(root):
    claim(root)
    assert checkpoint.holder(root) == os.getpid()
    renewing = threading.Timer(1.0, claim, [root], {"count": 2})
    renewing.start()
    with pytest.raises(AlreadyRunning, match="on elsewhere"), checkpoint.held(root, "shop"):
        pass
    renewing.join()
    assert [each.name for each in (root / claims.FOLDER).iterdir()] == ["other"]


def test_of_many_who_begin_at_the_same_time_at_most_one_runs(root, monkeypatch):
    monkeypatch.setattr(claims, "RENEW", 0.1)
    running, most, all_there = [], [], threading.Barrier(6)

    def begin():
        all_there.wait()
        try:
            with checkpoint.held(root, "shop"):
                running.append(1)
                most.append(len(running))
                time.sleep(1)
                running.pop()
        except AlreadyRunning:
            most.append(0)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(most) == 6
    assert max(most) <= 1
    with checkpoint.held(root, "shop"):
        pass


def test_who_cannot_renew_its_claim_stops(root, monkeypatch):
    monkeypatch.setattr(claims, "RENEW", 0.05)
    monkeypatch.setattr(claims, "GIVE_UP", 0.3)
    with checkpoint.held(root, "shop") as hold:
        hold()
        monkeypatch.setattr(claims.Claim, "renew", unreachable)
        time.sleep(1)
        with pytest.raises(errors.CheckpointAway, match="may be another run's by now"):
            hold()


def unreachable(_):
    raise errors.CheckpointAway("the file system does not answer, or refuses")


def put(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", "/")).write_text(text)


def test_a_restore_that_is_broken_off_is_seen_and_can_be_done_again(
    root, tmp_path, monkeypatch, riverrun
):
    put(root / "shop", id="0" * 32, program="{}", query__metadata="{}", query__state__1="state")
    before = dict((root / "shop").files())
    assert riverrun("backup", "shop", "shop.tar.gz").code == 0
    assert "has a checkpoint [RR402]" in riverrun("restore", "shop.tar.gz").err
    put(root / "shop", query__state__2="newer")
    copy, calls = far.FarPath.copy, []

    def breaks(self, content):
        if "query/" in self.url and not calls:
            calls.append(self)
            raise unreachable(self)
        copy(self, content)

    monkeypatch.setattr(far.FarPath, "copy", breaks)
    assert "[RR403]" in riverrun("restore", "shop.tar.gz", "--force").err
    assert "the checkpoint is half restored" in riverrun("backup", "shop", "b.tar.gz").err
    (tmp_path / "app.py").write_text(PROGRAM.format(name="shop"))
    assert "the checkpoint is half restored" in riverrun("run", "app.py").err
    assert riverrun("restore", "shop.tar.gz", "--force").code == 0
    found = dict((root / "shop").files())
    assert {name: found[name] for name in found if name not in ("lock", "run.json")} == before


PROGRAM = """
import riverrun as rr

app = rr.App("{name}")
views = app.stream("{name}-views", schema="page string, at timestamp", time="at")
views.group_by("page", name="pages").window(rr.tumbling("1 minute")).agg(n=rr.count()).to(
    "{name}-out"
)
"""


def view(number):
    return {"page": f"/{number % 3}", "at": f"2026-01-01T12:{number // 60:02d}:{number % 60:02d}Z"}


@pytest.mark.spark
@pytest.mark.broker
def test_a_program_goes_on_from_a_far_checkpoint_and_all_commands_know_it(
    root, broker, tmp_path, riverrun, once
):
    admin.create_topic(broker, "far-views", partitions=2)
    file = tmp_path / "far.py"
    file.write_text(PROGRAM.format(name="far"))
    produce(broker, "far-views", [view(n) for n in range(120)], partitions=2)
    once(file)
    made = {name.partition("/")[0] for name, _ in (root / "far").files()}
    assert made >= {"id", "lock", "number", "program.json", "query", "run.json"}
    shown = json.loads(riverrun("ps", "--json").out)
    assert [(each["application"], each["state"]) for each in shown] == [("far", "finished")]
    assert riverrun("check", str(file)).code == 0
    kept = json.loads(once.command("state", "far", "--json").out)
    assert kept["application"] == "far"
    assert (
        "needs a checkpoint on this machine" in riverrun("rescale", "far", "--partitions", "3").err
    )
    assert riverrun("backup", "far", "far.tar.zst").code == 0
    produce(broker, "far-views", [view(n) for n in range(120, 240)], partitions=2)
    assert once(file, "--close").statuses()[-1]["events"] == 120, "it has gone on"
    rows = table(broker, "far-out").values()
    assert {row["n"] for row in rows} == {20}
    assert len(rows) == 12
    assert riverrun("restore", "far.tar.zst", "--force").code == 0
    assert once(file, "--close").statuses()[-1]["events"] == 120, "from the backup on"
    assert {row["n"] for row in table(broker, "far-out").values()} == {20}
