"""The Spark session, with the settings that this use of it wants."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from riverrun.config import Settings
from riverrun.embedded import class_archive
from riverrun.embedded.java import Java
from riverrun.errors import ServerError
from riverrun.spark import zygote

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM moves few fat rows: the optimising compiler and the parallel collector only cost."""


PATIENCE = 120
"""Seconds that the JVM has to end: the first time it writes the archive of its classes."""

LEAST_ROCKSDB = 64
"""Megabytes for RocksDB in each JVM; half of a worker's `state_memory` if that is more."""


def cores(master: str) -> int:
    """How many tasks run at once in local mode; 2 shuffle partitions per worker elsewhere."""
    inside = master.removeprefix("local[").removesuffix("]") if master.startswith("local") else ""
    if inside.isdigit():
        return int(inside)
    return len(os.sched_getaffinity(0)) if master.startswith("local") else 4


@dataclass(frozen=True)
class Spark:
    """A session with its JVM and its folder."""

    session: SparkSession
    folder: Path
    draft: Path | None
    """The archive of its classes that the JVM will write as it ends, the first time."""

    def stop(self) -> None:
        """Ends Spark and its JVM. PySpark's own threads complain as they lose it: into the log."""
        gateway: Any = self.session.sparkContext._gateway
        with _streams_to(self.folder / "spark.log"):
            with suppress(Py4JError, OSError):  # it may have been ended with us
                self.session.stop()
                gateway.shutdown()
            gateway.proc.stdin.close()
            code = _ended(gateway.proc)
            SparkContext._gateway = SparkContext._jvm = None
        if self.draft is not None:
            class_archive.settle(self.draft, whole=code == 0)
        shutil.rmtree(self.folder / "work", ignore_errors=True)


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def start(name: str, *, settings: Settings, java: Java, folder: Path) -> Spark:
    """Starts a JVM with the settings that this use of Spark wants, under those of the user."""
    master = settings.master
    os.environ["JAVA_HOME"] = str(java.home)
    folder.mkdir(parents=True, exist_ok=True)
    local = master.startswith("local")
    python = str((local and zygote.start(folder)) or sys.executable)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
    work = folder / "work"
    parallel = str(cores(master))
    archive = class_archive.location(java, _jars(), settings.cache)
    # an ahead-of-time cache of all of Spark takes longer to write than it ever saves
    ahead_of_time = java.version >= class_archive.AHEAD_OF_TIME
    draft = None if ahead_of_time else class_archive.draft_of(archive)
    options = " ".join([JVM, _log4j(folder), *class_archive.options(archive, draft)])
    wanted = {
        "spark.sql.shuffle.partitions": parallel,
        "spark.default.parallelism": parallel,
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": JVM,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.speculation": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(work),
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.sql.streaming.stateStore.providerClass":
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB":
            str(max(settings.state_memory >> 21, LEAST_ROCKSDB)),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.shuffle.compress": str(not local).lower(),
        "spark.shuffle.spill.compress": str(not local).lower(),
        **settings.spark,
    }  # fmt: skip
    if local:
        os.environ["POLARS_MAX_THREADS"] = "1"
    builder = SparkSession.builder.appName(name).master(master)
    for setting, value in wanted.items():
        builder = builder.config(setting, value)
    with _streams_to(folder / "spark.log"):
        return Spark(_created(builder, master, folder), folder, draft)


def _created(builder: Any, master: str, folder: Path) -> SparkSession:
    try:
        session: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise ServerError(
            "Spark does not start",
            where=folder / "spark.log",
            got=f"master {master}: {str(error).splitlines()[0]}",
            hint="the log says why",
        ) from error
    return session


def _jars() -> list[Path]:
    return sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))


@contextmanager
def _streams_to(log: Path) -> Iterator[None]:
    """The JVM and its workers inherit the log as their standard streams; ours stay as they are."""
    sys.stdout.flush()
    sys.stderr.flush()
    ours = [os.dup(1), os.dup(2)]
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for number, stream in enumerate(ours, start=1):
            os.dup2(stream, number)
            os.close(stream)


LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def _log4j(folder: Path) -> str:
    file = folder / "log4j2.properties"
    file.write_text(LOG4J)
    return f"-Dlog4j2.configurationFile={file}"
