"""A YARN of one machine: a resource manager and a node manager of Hadoop, each in a process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest

from riverrun import config
from riverrun.config import Settings
from riverrun.embedded import jars, java, ports

JARS = "hadoop-minicluster"
SPARK = Path(pyspark.__file__).parent / "jars"
STARTS_WITHIN = 300.0
MANAGERS = ("resourcemanager.ResourceManager", "nodemanager.NodeManager")
ADDRESSES = (
    *("resourcemanager.address", "resourcemanager.scheduler.address"),
    *("resourcemanager.resource-tracker.address", "resourcemanager.admin.address"),
    *("resourcemanager.webapp.address", "nodemanager.address", "nodemanager.localizer.address"),
    *("nodemanager.webapp.address", "nodemanager.collector-service.address"),
)
CHOSEN = {
    "yarn.nodemanager.resource.memory-mb": "8192",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    "yarn.scheduler.minimum-allocation-mb": "128",
    # of addresses, which a JVM and Python with its libraries have far more of than they use
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.enable": "false",  # the disk of a test may be full
    "yarn.resourcemanager.am.max-attempts": "3",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
}


@dataclass(frozen=True)
class Yarn:
    folder: Path
    web: str
    """The address at which the resource manager answers questions."""
    node: psutil.Process
    """The node manager: what runs in containers is below it."""

    @property
    def configuration(self) -> Path:
        return self.folder / "conf"

    def told(self, question: str) -> dict[str, Any]:
        connection = HTTPConnection(self.web, timeout=30)
        try:
            connection.request("GET", f"/ws/v1/cluster/{question}")
            found: dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return found

    def processes(self, mark: str) -> list[psutil.Process]:
        """Those of containers with the mark on their command line, without the shells before."""
        found = []
        for each in self.node.children(recursive=True):
            with suppress(psutil.Error):
                if mark in " ".join(each.cmdline()) and "sh" not in each.name():
                    found.append(each)
        return found

    def logs(self) -> str:
        """What containers have written last."""
        files = sorted((self.folder / "logs").rglob("std*"))
        return "\n".join(f"{file}\n{file.read_text(errors='replace')[-3000:]}" for file in files)


def require(settings: Settings) -> None:
    found = [settings.cache / "jars" / jar.name for jar in jars.locked(JARS)]
    if not all(file.exists() for file in found):
        pytest.skip(f"the jars of {JARS} are not there: `make yarn` gets them")


@contextmanager
def running(folder: Path) -> Iterator[Yarn]:
    """Ends with all that runs in it."""
    settings = config.load(start=folder)
    require(settings)
    web = _configured(folder)
    processes = [_started(folder, manager, settings) for manager in MANAGERS]
    try:
        yarn = Yarn(folder, web, psutil.Process(processes[1].pid))
        _await_node(yarn, processes)
        yield yarn
    finally:
        for process in reversed(processes):
            _killed(process)
        shutil.rmtree(folder / "local", ignore_errors=True)  # a gigabyte, unpacked


def _configured(folder: Path) -> str:
    """Writes the files that the managers and spark-submit read; where to ask."""
    conf = folder / "conf"
    for page in ("cluster", "node"):  # the jar has no web pages, and will not start without
        (conf / "webapps" / page).mkdir(parents=True)
    addresses = {f"yarn.{name}": f"127.0.0.1:{ports.any_free()}" for name in ADDRESSES}
    folders = {
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "logs"),
    }
    own = {"yarn.resourcemanager.hostname": "127.0.0.1", **CHOSEN, **addresses, **folders}
    (conf / "yarn-site.xml").write_text(_xml(own))
    (conf / "core-site.xml").write_text(_xml({"fs.defaultFS": "file:///"}))
    return addresses["yarn.resourcemanager.webapp.address"]


def _xml(settings: dict[str, str]) -> str:
    each = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{''.join(each)}</configuration>"


def _started(folder: Path, manager: str, settings: Settings) -> subprocess.Popen[bytes]:
    runtime = java.find(settings.cache)
    classes = [folder / "conf", *jars.fetch(JARS, settings), *sorted(SPARK.glob("*.jar"))]
    with (folder / f"{manager}.log").open("w") as log:
        return subprocess.Popen(
            [
                *(str(runtime.executable), "-Xmx400m", f"-Dhadoop.log.dir={folder}"),
                *("-cp", ":".join(map(str, classes)), f"org.apache.hadoop.yarn.server.{manager}"),
            ],
            cwd=folder,
            env={**os.environ, "JAVA_HOME": str(runtime.home), "PYTHONPATH": ""},
            stdout=log,
            stderr=log,
        )


def _await_node(yarn: Yarn, processes: list[subprocess.Popen[bytes]]) -> None:
    give_up_at = time.monotonic() + STARTS_WITHIN
    while True:
        with suppress(OSError):
            if yarn.told("metrics")["clusterMetrics"]["activeNodes"] == 1:
                return
        said = [(yarn.folder / f"{each}.log").read_text()[-3000:] for each in MANAGERS]
        assert all(each.poll() is None for each in processes), said
        assert time.monotonic() < give_up_at, said
        time.sleep(0.5)


def _killed(process: subprocess.Popen[bytes]) -> None:
    """With its containers."""
    with suppress(psutil.NoSuchProcess):
        for each in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.kill()
    process.wait()
