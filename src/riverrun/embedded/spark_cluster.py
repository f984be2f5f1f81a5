"""The embedded Spark cluster: a real standalone master and workers on loopback.

They run from the jars of the installed PySpark, and outlive the command. Each is known by its mark,
the path of its settings, so that a test can find and end any of them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from riverrun import private
from riverrun.config import Settings
from riverrun.embedded import java, ports, process
from riverrun.embedded.lock import exclusive
from riverrun.errors import ServerError

PORT = 7077
START = timedelta(minutes=1)
STOP = timedelta(seconds=15)
MEMORY = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
OPENED = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
CORES = 1
OFFERED = "2g"
"""Memory of each worker, for executors."""

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
PROPERTIES = """# Written by riverrun at every start.
spark.master.rest.enabled false
spark.worker.cleanup.enabled true
spark.worker.cleanup.interval 300
spark.worker.cleanup.appDataTtl 600
"""


@dataclass(frozen=True)
class Worker:
    """A running worker; its executors are its children."""

    number: int
    pid: int
    log: Path

    def executors(self) -> list[psutil.Process]:
        """The JVMs of its executors; their Python workers are their children."""
        try:
            return psutil.Process(self.pid).children()
        except psutil.NoSuchProcess:
            return []


@dataclass(frozen=True)
class Cluster:
    """A running cluster: what to give as --master, and the processes."""

    master: str
    pid: int
    folder: Path
    workers: tuple[Worker, ...]


@dataclass(frozen=True)
class _State:
    """What is remembered between commands. `pid` is None while the cluster is down."""

    port: int
    page: int
    """The port of the master's web page, which is also asked for what it knows."""
    pid: int | None = None
    workers: tuple[tuple[int, int], ...] = ()
    """Number and process of each."""


def status(settings: Settings) -> Cluster | None:
    """The cluster, if its master runs; with the workers that run."""
    folder = _folder(settings)
    state = _read(folder)
    if state is None or state.pid is None:
        return None
    if process.marked(state.pid, str(_properties(folder, "master"))) is None:
        return None
    workers = tuple(
        Worker(number, pid, _log(folder, f"worker-{number}"))
        for number, pid in state.workers
        if process.marked(pid, str(_properties(folder, f"worker-{number}")))
    )
    return Cluster(f"spark://{ports.LOOPBACK}:{state.port}", state.pid, folder, workers)


def up(settings: Settings, *, workers: int = 2) -> Cluster:
    """Start what does not run yet of a master and so many workers; returns once all have met."""
    folder = private.folder(_folder(settings))
    with exclusive(folder / "lock"):
        try:
            return _up(folder, settings, workers)
        except BaseException:
            # Also when the user interrupts: a cluster that is not whole is not left behind.
            _down(folder)
            raise


def down(settings: Settings) -> bool:
    """Stop the cluster; False when there was none. What executors left behind is removed."""
    folder = _folder(settings)
    if not folder.exists():
        return False
    with exclusive(folder / "lock"):
        return _down(folder)


def _up(folder: Path, settings: Settings, workers: int) -> Cluster:
    private.folder(folder / "logs")
    runtime = java.find(settings.cache)
    running = status(settings)
    if running is None:
        _down(folder)
        _write(folder, _start_master(folder, runtime))
    state = _read(folder)
    assert state is not None and state.pid is not None
    _await(folder, state, 0)
    there = {each.number: each.pid for each in running.workers} if running else {}
    for number in range(1, workers + 1):
        if number not in there:
            there[number] = _start_worker(folder, runtime, state, number)
            state = replace(state, workers=tuple(sorted(there.items())))
            _write(folder, state)
    _await(folder, state, len(there))
    found = status(settings)
    assert found is not None
    return found


def _start_master(folder: Path, runtime: java.Java) -> _State:
    port = PORT if ports.free(PORT) else ports.any_free()
    state = _State(port, ports.any_free())
    pid = _spawn(folder, runtime, "master", [
        MASTER, "--host", ports.LOOPBACK, "--port", str(port), "--webui-port", str(state.page),
    ])  # fmt: skip
    return replace(state, pid=pid)


def _start_worker(folder: Path, runtime: java.Java, state: _State, number: int) -> int:
    name = f"worker-{number}"
    master = f"spark://{ports.LOOPBACK}:{state.port}"
    return _spawn(folder, runtime, name, [
        WORKER, "--host", ports.LOOPBACK, "--webui-port", "0", "--cores", str(CORES),
        "--memory", OFFERED, "--work-dir", str(folder / name), master,
    ])  # fmt: skip


def _spawn(folder: Path, runtime: java.Java, name: str, main: list[str]) -> int:
    mark = _properties(folder, name)
    mark.write_text(PROPERTIES)
    (folder / name).mkdir(exist_ok=True)
    home = spark_home()
    environ = {**os.environ, "JAVA_HOME": str(runtime.home), "SPARK_HOME": str(home)}
    environ["SPARK_LOCAL_IP"] = ports.LOOPBACK
    environ["SPARK_LOCAL_DIRS"] = str(folder / name)
    core = next((home / "jars").glob("spark-core_*.jar")).name
    environ["SPARK_SCALA_VERSION"] = core.split("_")[1].split("-")[0]
    # what the command's own surroundings say of Python is not for executors
    for inherited in ("PYTHONPATH", "PYTHONHOME", "PYSPARK_PYTHON", "VIRTUAL_ENV"):
        environ.pop(inherited, None)
    path = ["-cp", f"{home}/jars/*"]
    command = [str(runtime.executable), *MEMORY, *OPENED, *path, *main[:1]]
    command += ["--properties-file", str(mark), *main[1:]]
    return process.spawn(command, output=_log(folder, name), environ=environ)


def _await(folder: Path, state: _State, workers: int) -> None:
    """Until the master answers, and knows that many workers."""
    processes = {"the Spark master": state.pid, **{f"worker {n}": p for n, p in state.workers}}
    give_up_at = time.monotonic() + START.total_seconds()
    while (_asked(state) or {"aliveworkers": -1})["aliveworkers"] < workers:
        for name, pid in processes.items():
            if pid is not None and not process.alive(pid):
                raise _no_start(f"{name} ended while it was starting", folder)
        if time.monotonic() > give_up_at:
            raise _no_start(f"the Spark cluster is not complete after {START}", folder)
        time.sleep(0.05)


def _asked(state: _State) -> dict[str, Any] | None:
    """What the master knows of its cluster; None while it does not answer."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"http://{ports.LOOPBACK}:{state.page}/json/", timeout=2) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError):
        return None


def _down(folder: Path) -> bool:
    found = list(_processes(folder))
    for each in found:
        with suppress(psutil.NoSuchProcess):
            each.terminate()  # all at once: they need not wait for each other
    for each in found:
        process.stop(each, patience=STOP)
    state = _read(folder)
    if state is not None:
        _write(folder, _State(state.port, state.page))
    for left in folder.glob("worker-*/"):
        shutil.rmtree(left, ignore_errors=True)
    return bool(found)


def _processes(folder: Path) -> Iterator[psutil.Process]:
    """Workers first: they end their executors."""
    marks = [str(mark) for mark in sorted(folder.glob("*.properties"), reverse=True)]
    for mark in marks:
        if (found := process.search(mark)) is not None:
            yield found


def spark_home() -> Path:
    """The folder of the installed PySpark, without importing it."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ServerError("PySpark is not installed", hint="run `pip install riverrun`")
    return Path(found.origin).parent


def _no_start(fact: str, folder: Path) -> ServerError:
    logs = sorted((folder / "logs").glob("*.log"))
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()[-4:]]
    return ServerError(fact, where=folder / "logs", got="\n    ".join(["", *lines]))


def _folder(settings: Settings) -> Path:
    # Resolved, so that the marks are the same however the folder is reached.
    return (settings.home / "spark").resolve()


def _properties(folder: Path, name: str) -> Path:
    return folder / f"{name}.properties"


def _log(folder: Path, name: str) -> Path:
    return folder / "logs" / f"{name}.log"


def _read(folder: Path) -> _State | None:
    try:
        return _State(**json.loads((folder / "state.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write(folder: Path, state: _State) -> None:
    draft = folder / "state.draft"
    draft.write_text(json.dumps(asdict(state)))
    draft.replace(folder / "state.json")
