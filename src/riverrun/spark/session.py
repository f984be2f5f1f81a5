"""The Spark session, with the settings that this use of it wants."""

from __future__ import annotations

import gc
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from riverrun import private
from riverrun.config import Settings
from riverrun.embedded import class_archive, priority
from riverrun.embedded.java import Java
from riverrun.errors import ServerError
from riverrun.spark import early, executors, properties, switchboard, zygote
from riverrun.spark.converters import ask_numpy
from riverrun.spark.far_jars import far_jars
from riverrun.spark.jvm import (
    JVM,
    log_option,
    remove_sockets,
    socket_folder,
    temporary_option,
)
from riverrun.spark.memory import Freed

SHELL = "pyspark-shell"
"""The last argument of Spark's JVM."""

PATIENCE, ARCHIVING = 120, 600
"""Seconds that the JVM has to end, and if it writes the archive of its classes first. On a busy
machine that takes minutes; given up, it would be begun anew by every run, and never be there."""

EXECUTORS_WITHIN = 60
SETTLED = 1.0
"""Seconds without a further executor after which all are taken to be there."""


def local(master: str) -> bool:
    return re.fullmatch(r"local(\[[^-]*\])?", master) is not None


def cores(master: str) -> int:
    """How many tasks run at once in local mode."""
    inside = re.fullmatch(r"local(?:\[(\d+).*\])?", master)
    if inside:
        return int(inside[1] or 1)
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Spark:
    """A session with its JVM and its folder."""

    session: SparkSession
    folder: Path
    draft: Path | None
    """The archive of its classes that the JVM will write as it ends, the first time."""
    parallel: int
    """How many tasks run at once."""

    def rest(self) -> None:
        """What batches have left in memory goes back to the system: none has come for a while."""
        jvm: Any = self.session.sparkContext._jvm
        jvm.System.gc()
        gc.collect()
        Freed().trim()

    def stop(self) -> None:
        """Ends Spark and its JVM. PySpark's own threads complain as they lose it: into the log."""
        gateway: Any = self.session.sparkContext._gateway
        with _streams_to(self.folder / "spark.log"):
            with suppress(Py4JError, OSError):  # it may have been ended with us
                self.session.stop()
                if not submitted():
                    gateway.shutdown()
            patience = PATIENCE if self.draft is None else ARCHIVING
            code = 0 if submitted() else _closed(gateway.proc, patience)
            SparkContext._gateway = SparkContext._jvm = None
        if self.draft is not None:
            class_archive.settle(self.draft, whole=code == 0)
        shutil.rmtree(self.folder / "work", ignore_errors=True)
        remove_sockets(self.folder)


def _closed(process: subprocess.Popen[bytes], patience: int) -> int:
    assert process.stdin is not None
    process.stdin.close()
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def start(
    name: str, *, settings: Settings, java: Java, folder: Path, program: Path | None = None,
    nice: int = 0,
) -> Spark:  # fmt: skip
    """Starts a JVM with the settings that this use of Spark wants, under those of the user.

    `program` is the folder of the program's modules, which go to the executors of a cluster. The
    JVM and its Python workers give way to others by `nice`.
    """
    private.folder(folder)
    if submitted():
        return _submitted(name, settings, folder)
    os.environ["JAVA_HOME"] = str(java.home)
    archive = classes(java, settings.cache)
    # an ahead-of-time cache of all of Spark takes longer to write than it ever saves
    ahead_of_time = java.version >= class_archive.AHEAD_OF_TIME
    draft = None if ahead_of_time else class_archive.draft_of(archive)
    own = [log_option(folder), temporary_option(folder)]
    options = " ".join([JVM, *own, *class_archive.options(archive, draft)])
    wanted = {**_wanted(folder, settings), "spark.driver.extraJavaOptions": options}
    zygotes = priority.giving_way(nice, partial(zygote.start, folder))
    python = str(zygotes or _plain_python(folder))
    if local(settings.master):
        wanted |= _on_this_machine(settings.master, folder)
        os.environ["POLARS_MAX_THREADS"] = "1"
    else:
        wanted |= _on_a_cluster(settings, folder, program, class_archive.options(archive))
        python = executors.PYTHON
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
    wanted |= {**settings.spark, **far_jars(settings)}
    given = properties.written(folder / "spark.properties", wanted)
    inside = Path.cwd() if local(settings.master) else folder
    with _inside(inside):
        session = _created(name, settings.master, folder, partial(_gateway, given, nice))
    _without_checksums(session)
    spark = Spark(session, folder, draft, cores(settings.master))
    return spark if local(settings.master) else _with_executors(spark, settings)


def submitted() -> bool:
    """Whether spark-submit has started this process, and the JVM before it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted(name: str, settings: Settings, folder: Path) -> Spark:
    """What must be known when a JVM starts was on the command line: see `runtime.submit`."""
    session = _created(name, settings.master, folder)
    return _with_executors(Spark(session, folder, None, 1), settings)


def _wanted(folder: Path, settings: Settings) -> dict[str, str]:
    work = folder / "work"
    return {
        **WANTED,
        "spark.local.dir": str(work),
        "spark.sql.warehouse.dir": str(work / "warehouse"),
    }


WANTED = {
    "spark.executor.extraJavaOptions": JVM,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.speculation": "false",
    "spark.driver.memory": "1g",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # the other one starts `readlink` twice for each file that it renames: ten processes in a batch
    "spark.sql.streaming.checkpointFileManagerClass":
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.adaptive.enabled": "false",
    "spark.hadoop.fs.permissions.umask-mode": "077",
}  # fmt: skip


EXECUTORS = {
    "spark.executor.memory": "1g",
    **{f"spark.executorEnv.{name}": value for name, value in early.WORKERS.items()},
    "spark.log.level": "WARN",
    "spark.executor.syncLogLevel.enabled": "true",
}


def _on_this_machine(master: str, folder: Path) -> dict[str, str]:
    parallel = str(cores(master))
    return {
        "spark.sql.shuffle.partitions": parallel,
        "spark.default.parallelism": parallel,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **switchboard.wanted(socket_folder(folder)),
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
    }


def _on_a_cluster(
    settings: Settings, folder: Path, program: Path | None, archive: list[str]
) -> dict[str, str]:
    """The archive of classes is there for executors on this machine; others do without."""
    wanted = {
        **EXECUTORS,
        "spark.executor.extraJavaOptions": " ".join([JVM, *archive]),
        **executors.prepared(folder, executors.environment(settings.environment), program),
    }
    if re.match(r"spark://(127\.|localhost)", settings.master):
        wanted |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return wanted


def _plain_python(folder: Path) -> Path:
    script = folder / "python"
    script.write_text(f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
    script.chmod(private.FOLDER)
    return script


def _with_executors(spark: Spark, settings: Settings) -> Spark:
    """Once executors are there: as many tasks as they have cores."""
    context: Any = spark.session.sparkContext
    give_up_at = time.monotonic() + EXECUTORS_WITHIN
    known, since = 0, time.monotonic()
    while known == 0 or time.monotonic() - since < SETTLED:
        found = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver is one of them
        if found != known:
            known, since = found, time.monotonic()
        elif known == 0 and time.monotonic() > give_up_at:
            spark.stop()
            raise ServerError(
                "the cluster gives no executor",
                where=settings.master,
                got=f"none after {EXECUTORS_WITHIN} seconds",
                hint="are workers there, with cores and memory left? the log says more: "
                f"{spark.folder / 'spark.log'}",
            )
        time.sleep(0.1)
    parallel = context.defaultParallelism
    if "spark.sql.shuffle.partitions" not in settings.spark:
        spark.session.conf.set("spark.sql.shuffle.partitions", parallel)
    return replace(spark, parallel=parallel)


def _created(
    name: str, master: str, folder: Path, gateway: Callable[[], Any] | None = None
) -> SparkSession:
    """With `gateway`, in a JVM of its own."""
    builder: Any = SparkSession.builder.appName(name)
    before = signal.getsignal(signal.SIGINT)
    ask_numpy()
    try:
        if gateway is not None:
            builder = builder.master(master)
            SparkContext._ensure_initialized(gateway=gateway())
        session: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise ServerError(
            "Spark does not start",
            where=folder / "spark.log",
            got=f"master {master}: {str(error).splitlines()[0]}",
            hint="the log says why",
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)  # PySpark puts one of its own there
    accumulators: Any = session.sparkContext._accumulatorServer
    accumulators.handle_error = partial(_note_error, folder / "spark.log")
    return session


def _note_error(log: Path, *_connection: object) -> None:
    """A query that is stopped amid a batch breaks a connection off: that is nothing to tell."""
    with private.opened(log, "a") as file:
        file.write(traceback.format_exc())


def _without_checksums(session: SparkSession) -> None:
    """No file beside each one that Spark writes here, of its checksums: none is read again, and
    Hadoop starts a process, `chmod`, for every file. Half of them were these."""
    context: Any = session.sparkContext
    local_files = context._jvm.org.apache.hadoop.fs.FileSystem.getLocal
    local_files(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def _gateway(given: Path, nice: int) -> Any:
    """The JVM, in a session of its own: a signal to our process group is for us to handle.

    Settings may be secrets, so they are in a file; what is on a command line all can read.
    """
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*properties.option(given), SHELL])
    logging.getLogger().addFilter(_not_of_py4j)
    with _none_left_behind(), private.opened(given.parent / "spark.log", "a") as log:
        how = {
            "start_new_session": True, "umask": private.UMASK, "stdout": log, "stderr": log,
        }  # fmt: skip
        gateway: Any = priority.giving_way(nice, partial(launch_gateway, popen_kwargs=how))
    priority.tell_session(gateway.proc.pid)
    return gateway


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """It writes the stack of each Ctrl-C to the screen, which is told in a word already."""
    return "py4j" not in record.pathname


@contextmanager
def _none_left_behind() -> Iterator[None]:
    """A JVM whose start is broken off has nobody to tell its port to, and would stay for ever."""
    before = jvms()
    try:
        yield
    except BaseException:
        kill(jvms() - before)
        raise


def jvms() -> set[psutil.Process]:
    """Spark's JVMs that this process has started, and what starts one."""
    found = set()
    for each in psutil.Process().children():
        with suppress(psutil.Error):
            found |= {each} if each.cmdline()[-1:] == [SHELL] else set()
    return found


def kill(processes: set[psutil.Process]) -> None:
    for each in processes:
        with suppress(psutil.Error):
            each.kill()


def classes(java: Java, cache: Path) -> Path:
    """Where the archive of Spark's classes is, or will be."""
    return class_archive.location(java, _jars(), cache)


def _jars() -> list[Path]:
    return sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """The JVM keeps the folder in which it was started; it finds its Python there."""
    before = Path.cwd()
    if folder == before:
        yield
        return
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _streams_to(log: Path) -> Iterator[None]:
    """The JVM and its workers inherit the log as their standard streams; ours stay as they are."""
    sys.stdout.flush()
    sys.stderr.flush()
    ours = [os.dup(1), os.dup(2)]
    with private.opened(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for number, stream in enumerate(ours, start=1):
            os.dup2(stream, number)
            os.close(stream)
