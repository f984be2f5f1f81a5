"""The Spark session, with the settings that this use of it wants."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from riverrun.embedded.java import Java
from riverrun.spark import zygote

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM moves few fat rows: the optimising compiler and the parallel collector only cost."""


def cores(master: str) -> int:
    """How many tasks run at once in local mode; 2 shuffle partitions per worker elsewhere."""
    inside = master.removeprefix("local[").removesuffix("]") if master.startswith("local") else ""
    if inside.isdigit():
        return int(inside)
    return len(os.sched_getaffinity(0)) if master.startswith("local") else 4


def start(
    name: str, *, master: str, java: Java, folder: Path, extra: Mapping[str, str]
) -> SparkSession:
    os.environ["JAVA_HOME"] = str(java.home)
    folder.mkdir(parents=True, exist_ok=True)
    local = master.startswith("local")
    python = str((local and zygote.start(folder)) or sys.executable)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
    work = folder / "work"
    parallel = str(cores(master))
    settings = {
        "spark.sql.shuffle.partitions": parallel,
        "spark.default.parallelism": parallel,
        "spark.driver.extraJavaOptions": f"{JVM} {_log4j(folder)}",
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
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
        **extra,
    }  # fmt: skip
    if local:
        os.environ["POLARS_MAX_THREADS"] = "1"
    builder = SparkSession.builder.appName(name).master(master)
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    with _stderr_to(folder / "spark.log"):
        return builder.getOrCreate()


def stop(session: SparkSession, folder: Path) -> None:
    """Stops Spark and its JVM. PySpark's own threads complain while they lose it: into the log."""
    gateway: Any = session.sparkContext._gateway
    with _stderr_to(folder / "spark.log"):
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
        SparkContext._gateway = SparkContext._jvm = None
    shutil.rmtree(folder / "work", ignore_errors=True)


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """The JVM and its workers inherit the log as their standard error; ours stays as it is."""
    sys.stderr.flush()
    ours = os.dup(2)
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


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
