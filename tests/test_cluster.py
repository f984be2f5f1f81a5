"""The same program on a real Spark cluster: a standalone master and two workers on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import json_lines
import recipes
import test_run_functions
from riverrun import config
from riverrun.cli.program_file import load_app
from riverrun.embedded import spark_cluster
from riverrun.embedded.spark_cluster import Cluster
from riverrun.kafka import admin
from riverrun.runtime.submit import spark_submit
from running import PATIENCE, Run, produce, records, table
from test_own_sink import read
from test_run import PROGRAM, ledger, milliseconds, views

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OWN_MODULE = """
def label(page):
    return "page " + page
"""
OWN_CODE = """
from pyspark.sql.functions import udf
import first_rows
import labels_of_pages
from json_lines import JsonLines

class Seen(rr.Processor):
    state = "n bigint default 0"
    outputs = {{"seen": "n bigint, label string"}}

    def on_event(self, event, state, context):
        state.n += 1
        context.emit("seen", n=state.n, label=labels_of_pages.label(context.key["page"]))

def labelled(frame):
    return frame.withColumn("label", udf(labels_of_pages.label, "string")("page"))

(views.spark(labelled, schema="page string, label string").group_by("label").agg(n=rr.count())
      .to({output!r} + "-labels"))
views.apply(first_rows.first_rows("page", limit=2)).to({output!r} + "-first")
views.process(Seen(), by="page")["seen"].group_by("label", name="last").agg(n=rr.max("n")).to(
    {output!r} + "-seen")
views.select("page", "ms").to(JsonLines({folder!r} + "/lines"))
views.group_by("page", name="counted").agg(n=rr.count()).to(JsonLines({folder!r} + "/counts"))
"""
EVENTS = 12_000


def program(folder: Path, name: str, text: str) -> Path:
    file = folder / f"{name}.py"
    names = {"name": name, "topic": f"{name}-views", "output": f"{name}-out"}
    file.write_text(text.format(**names, folder=str(folder)))
    return file


def program_with_code_of_its_own(folder: Path, name: str) -> Path:
    """Processors, functions, aggregates, an operator and a sink, most in modules beside it."""
    (folder / "labels_of_pages.py").write_text(OWN_MODULE)
    (folder / "first_rows.py").write_text(recipes.sources()["first_rows.py"])
    (folder / "own_pages.py").write_text(test_run_functions.OWN_MODULE)
    shutil.copy(json_lines.__file__, folder)
    functions = test_run_functions.FUNCTIONS.replace("{output!r}", "{output!r} + '-made'")
    return program(folder, name, PROGRAM + OWN_CODE + functions)


def executors(cluster: Cluster) -> list[psutil.Process]:
    return [each for worker in cluster.workers for each in worker.executors()]


def counted(found: dict[str, object]) -> dict[tuple[object, int], tuple[int, float]]:
    return {
        (row["page"], int(milliseconds(row["window_start"]))): (row["views"], row["total"])
        for row in found.values()
    }


def test_workers_and_executors_are_killed_and_the_table_is_the_same(
    broker, broker_settings, standalone, tmp_path
):
    admin.create_topic(broker, "spread-views", partitions=3)
    sent = views(EVENTS)
    produce(broker, "spread-views", sent, partitions=3)
    file, home = program_with_code_of_its_own(tmp_path, "spread"), broker_settings.home
    with Run(file, "--master", standalone.master, "--max-events", "2000", home=home) as run:
        run.until(2000)
        first = executors(standalone)
        assert len(first) == 2
        workers = [each for one in first for each in one.children(recursive=True)]
        max(workers, key=lambda each: each.cpu_times().user).kill()
        run.until(4000)
        first[0].kill()
        run.until(EVENTS)
        assert run.stop() == 0, run.error()
    assert counted(table(broker, "spread-out")) == ledger(sent)
    expected = Counter(f"page {row['page']}" for row in sent)
    for more in ("labels", "seen"):
        rows = table(broker, f"spread-out-{more}").values()
        assert {row["label"]: row["n"] for row in rows} == expected
    passed = Counter(
        json.loads(value or "")["page"] for _, value in records(broker, "spread-out-first")
    )
    assert passed == dict.fromkeys({row["page"] for row in sent}, 2)
    assert psutil.pid_exists(first[1].pid) is False, "executors end with the application"
    made = {row["label"]: row["n"] for row in table(broker, "spread-out-made").values()}
    assert made == Counter(f"PAGE {row['page']}" for row in sent if row["ms"])
    lines = Counter((row["page"], row["ms"]) for row in read(tmp_path / "lines"))
    assert lines == Counter((row["page"], row["ms"]) for row in sent)
    counts = {row["page"]: row["n"] for row in read(tmp_path / "counts", table=True)}
    assert counts == Counter(row["page"] for row in sent)


@pytest.mark.slow
def test_a_checkpoint_moves_between_numbers_of_cores_and_to_a_cluster_that_runs_in_the_background(
    broker, broker_settings, standalone, tmp_path, riverrun
):
    admin.create_topic(broker, "moved-views", partitions=3)
    sent, home = views(9000), broker_settings.home
    file = program(tmp_path, "moved", PROGRAM)
    for number, master in enumerate(("local[2]", "local[1]")):
        produce(broker, "moved-views", sent[number * 3000 : (number + 1) * 3000], partitions=3)
        with Run(file, "--once", "--master", master, home=home) as run:
            assert run.end() == 0, run.error()
    produce(broker, "moved-views", sent[6000:], partitions=3)
    started = json.loads(riverrun("submit", str(file), "--master", standalone.master, "--json").out)
    give_up = time.monotonic() + PATIENCE
    while counted(table(broker, "moved-out")) != ledger(sent):
        assert time.monotonic() < give_up, Path(started["log"]).read_text()
        time.sleep(0.5)
    shown = next(a for a in json.loads(riverrun("ps", "--json").out) if a["application"] == "moved")
    assert (shown["pid"], shown["master"]) == (started["pid"], standalone.master)
    assert riverrun("stop", "moved").out == "moved is stopped\n"


def mapped(process: psutil.Process) -> set[str]:
    """The files that a process has loaded."""
    with suppress(psutil.Error):
        return {each.path for each in process.memory_maps()}
    return set()


@pytest.mark.slow
def test_executors_need_nothing_installed_when_their_environment_is_sent(
    broker, broker_settings, standalone, tmp_path, riverrun
):
    """Through spark-submit, as YARN and Kubernetes start a driver."""
    admin.create_topic(broker, "packed-views", partitions=2)
    admin.create_topic(broker, "packed-out", partitions=2, config={"cleanup.policy": "compact"})
    sent = views(2000)
    produce(broker, "packed-views", sent, partitions=2)
    file, archive = program(tmp_path, "packed", PROGRAM), tmp_path / "env.tar.gz"
    packed = json.loads(riverrun("package", str(file), "-o", str(archive), "--json").out)
    assert {"riverrun", "polars", "duckdb", "pyspark"} <= set(packed["packages"])
    assert "pytest" not in packed["packages"]
    settings = config.load().override(
        brokers=broker["bootstrap.servers"], master=standalone.master, environment=str(archive)
    )
    line = spark_submit(load_app(file), settings, {"fresh": True}, deploy_mode="client")
    (tmp_path / "environment").symlink_to(_unpacked(archive, tmp_path / "here"))
    environ = {**os.environ, "RIVERRUN_HOME": str(broker_settings.home), "PYTHONPATH": ""}
    environ["RIVERRUN_BROKERS"] = broker["bootstrap.servers"]
    with (tmp_path / "out").open("w") as out:
        driver = subprocess.Popen(line, cwd=tmp_path, env=environ, stdout=out, stderr=out)
    try:
        give_up = time.monotonic() + PATIENCE
        while counted(table(broker, "packed-out")) != ledger(sent):
            assert driver.poll() is None, (tmp_path / "out").read_text()
            assert time.monotonic() < give_up, (tmp_path / "out").read_text()
            time.sleep(0.5)
        python = [w for e in executors(standalone) for w in e.children(recursive=True)]
        files = {path for each in python for path in mapped(each) if "/site-packages/" in path}
        assert python
        assert not files
        assert riverrun("stop", "packed").out == "packed is stopped\n"
        assert driver.wait(PATIENCE) == 0
    finally:
        driver.kill()


def _unpacked(archive: Path, folder: Path) -> Path:
    """What a container of YARN finds; on a standalone cluster the driver is on its own."""
    folder.mkdir()
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(folder)], check=True)
    return folder


def test_what_is_sent_to_yarn_can_be_seen_first(tmp_path, riverrun, monkeypatch):
    file, archive = program(tmp_path, "seen", PROGRAM), tmp_path / "env.tar.gz"
    refused = riverrun("submit", str(file), "--master", "yarn", "--dry-run")
    assert (refused.code, "need an environment of their own" in refused.err) == (2, True)
    archive.touch()
    (tmp_path / "riverrun.toml").write_text('[spark]\nspark.executor.instances = "3"\n')
    whose = riverrun("submit", str(file), "--master", "yarn", "--environment", str(archive))
    assert (whose.code, "would start a Kafka of its own" in whose.err) == (2, True)
    given = ("--environment", str(archive), "--brokers", "kafka:9092", "--dry-run", "--json")
    for master, prefix in (("yarn", "yarn.appMasterEnv"), ("k8s://x", "kubernetes.driverEnv")):
        outcome = riverrun("submit", str(file), "--master", master, *given)
        line = json.loads(outcome.out)["command"]
        assert line[1:5] == ["--master", master, "--deploy-mode", "cluster"]
        assert line[line.index("--files") + 1] == str(tmp_path / "riverrun.toml")
        assert line[-2:] == ["seen", '{"fresh": false, "max_events": 500000}']
        assert {
            f"spark.archives={archive}#environment",
            "spark.pyspark.python=./environment/bin/python",
            "spark.executor.instances=3",
            "spark.executor.memoryOverhead=2048m",
            f"spark.{prefix}.RIVERRUN_BROKERS=kafka:9092",
        } <= set(Path(line[line.index("--properties-file") + 1]).read_text().splitlines())
        assert "spark.executor.instances" not in str(line), "settings may be secrets"
    local = riverrun("submit", str(file), "--master", "spark://h:7077", "--dry-run")
    assert local.out.startswith(f"riverrun run {file} --master spark://h:7077 --environment same")


def test_a_worker_that_ended_is_started_again_and_all_end_with_down(
    cluster_settings, standalone, riverrun, monkeypatch
):
    monkeypatch.setenv("RIVERRUN_HOME", str(cluster_settings.home))
    killed = psutil.Process(standalone.workers[0].pid)
    killed.kill()
    killed.wait()
    shown = json.loads(riverrun("status", "--json").out)["spark"]
    assert (shown["master"], len(shown["workers"])) == (standalone.master, 1)
    again = spark_cluster.up(cluster_settings, workers=2)
    assert (again.master, again.pid) == (standalone.master, standalone.pid)
    assert [each.number for each in again.workers] == [1, 2]
    assert "Spark is stopped" in riverrun("down").out
    assert spark_cluster.status(cluster_settings) is None
    assert spark_cluster.down(cluster_settings) is False
