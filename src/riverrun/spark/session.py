"""The Spark session, with the settings that this use of it wants."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from riverrun.embedded.java import Java

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
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    parallel = str(cores(master))
    settings = {
        "spark.sql.shuffle.partitions": parallel,
        "spark.default.parallelism": parallel,
        "spark.driver.extraJavaOptions": JVM,
        "spark.executor.extraJavaOptions": JVM,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.speculation": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.sql.streaming.stateStore.providerClass":
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        **extra,
    }  # fmt: skip
    if master.startswith("local"):
        os.environ["POLARS_MAX_THREADS"] = "1"
    builder = SparkSession.builder.appName(name).master(master)
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
