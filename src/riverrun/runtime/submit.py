"""Starts a program on a cluster and returns: in the background here, or through spark-submit."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from riverrun import private
from riverrun.app import App
from riverrun.config import Settings, settings_file
from riverrun.embedded import process
from riverrun.embedded.spark_cluster import spark_home
from riverrun.errors import ConfigError, JobError
from riverrun.runtime import applications, checkpoint
from riverrun.spark import executors, properties, session
from riverrun.spark.executors import UNPACKED
from riverrun.spark.far_jars import far_jars
from riverrun.spark.jvm import JVM

BEGINS_WITHIN = 180.0
LASTING = {
    "spark.yarn.submit.waitAppCompletion": "false",
    "spark.kubernetes.submission.waitAppCompletion": "false",
    "spark.yarn.am.attemptFailuresValidityInterval": "1h",
    "spark.executor.failuresValidityInterval": "1h",
}
"""A stream has no end that spark-submit could wait for. A driver or an executor that dies is
replaced only so often; over months all would add up."""
BESIDE, PYTHON = 384, 320
"""Megabytes of a JVM beside its heap, and of a Python process. A core has two of those: one reads
and writes, one has the state."""
COMMAND = [sys.executable, "-c", "from riverrun.cli import entry; entry()"]


@dataclass(frozen=True)
class Started:
    """A program in the background."""

    name: str
    pid: int
    log: Path


def background(app: App, program: Path, settings: Settings, options: list[str]) -> Started:
    """`riverrun run` in a process of its own; returns once it runs."""
    folder = settings.run_of(app.name)
    private.folder(folder)
    log = folder / "submit.log"
    command = [*COMMAND, "run", str(program.absolute()), *options]
    pid = process.spawn(command, output=log)
    give_up_at = time.monotonic() + BEGINS_WITHIN
    while not _runs(settings, app.name, pid):
        if not process.alive(pid) or time.monotonic() > give_up_at:
            lines = log.read_text(errors="replace").splitlines()[-6:]
            got = "\n    ".join(["", *lines])
            raise JobError(f"the application {app.name!r} did not start", where=log, got=got)
        time.sleep(0.1)
    return Started(app.name, pid, log)


def _runs(settings: Settings, name: str, pid: int) -> bool:
    """The lock is held from the beginning; the facts are noted when the query runs."""
    if not checkpoint.known(settings.checkpoint_of(name)):
        return False
    found = applications.application(settings, name)
    return found.pid == pid and found.started_at is not None


def spark_submit(
    app: App, settings: Settings, options: Mapping[str, bool | int], *, deploy_mode: str = "cluster"
) -> list[str]:
    """The command that has YARN or Kubernetes run the program, its driver included."""
    chosen = executors.environment(settings.environment)
    if chosen.archive is None:
        raise ConfigError(
            "the driver and the executors need an environment of their own",
            where=settings.master,
            hint="make one with `riverrun package`, and give it with --environment; or --package",
        )
    if settings.brokers is None:
        raise ConfigError(
            "the driver would start a Kafka of its own, in the cluster",
            where=settings.master,
            hint="say where Kafka is, as the cluster sees it: --brokers, or brokers = … in "
            "riverrun.toml",
        )
    sent = settings.run_of(app.name) / "executors"
    private.folder(sent.parent)
    private.folder(sent)
    code = sent / executors.CODE
    executors.pack(code, executors.folder_of(app.at.file))
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", settings.master]
    command += ["--deploy-mode", deploy_mode, "--name", app.name, "--py-files", str(code)]
    if (file := settings_file()) is not None:
        command += ["--files", str(file)]
    given = properties.written(sent / "spark.properties", _configuration(settings, chosen))
    command += properties.option(given)
    # a copy: in its own folder Python would take our queue.py for that of the standard library
    main = shutil.copy(Path(__file__).parents[1] / "cli" / "submitted.py", sent)
    return [*command, str(main), Path(app.at.file).stem, json.dumps(dict(options))]


def _configuration(settings: Settings, chosen: executors.Environment) -> dict[str, str]:
    python = f"./{UNPACKED}/bin/python"
    found = {
        **session.WANTED,
        **session.EXECUTORS,
        **chosen.settings(),
        **LASTING,
        **_beside_the_heap(settings),
        "spark.driver.extraJavaOptions": JVM,
        "spark.pyspark.python": python,
    }
    environ = {"RIVERRUN_MASTER": settings.master, "POLARS_MAX_THREADS": "1"}
    environ["RIVERRUN_CHECKPOINTS"] = str(settings.checkpoint_root)
    environ["RIVERRUN_BROKERS"] = settings.brokers or ""
    environ["RIVERRUN_HOME"] = "home"  # in the container's folder: a user there may have none
    prefixes = {"yarn": "spark.yarn.appMasterEnv.", "k8s": "spark.kubernetes.driverEnv."}
    kind = re.split(r"\W", settings.master)[0]
    if kind in prefixes:
        found |= {f"{prefixes[kind]}{name}": value for name, value in environ.items()}
    return {**found, **settings.spark, **far_jars(settings)}


def _beside_the_heap(settings: Settings) -> dict[str, str]:
    """What is in a container apart from the JVM's heap: it is killed when it takes more."""
    workers = int(settings.spark.get("spark.executor.cores", "1"))
    each = 2 * PYTHON + (settings.state_memory >> 20)
    return {
        "spark.driver.memoryOverhead": f"{BESIDE + 3 * PYTHON}m",
        "spark.executor.memoryOverhead": f"{BESIDE + workers * each}m",
    }
