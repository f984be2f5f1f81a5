"""The programs of the benchmarks in plain PySpark, with Spark's default flags."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from riverrun.bench.measure import Meter

WINDOWS = {
    "tumbling": lambda: f.window("at", "10 seconds"),
    "hopping": lambda: f.window("at", "10 seconds", "1 second"),
    "session": lambda: f.session_window("at", "9999999 microseconds"),
}
INSTANT = "interval 1 microsecond"
"""Spark joins rows that are the gap apart, riverrun only those that are less. A gap that is shorter
by an instant gives the same sessions; what it takes off their end is added again."""


def session(plan: dict[str, Any]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        SparkSession.builder.master("local[*]")
        .config("spark.jars", ",".join(plan["jars"]))
        .config("spark.sql.shuffle.partitions", str(plan["parallel"]))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def views(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """User, page, milliseconds and time (in milliseconds) of each view."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", plan["brokers"])
        .option("subscribe", plan["input"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(plan["batch"]))
        .load()
    )
    parsed = f.from_json(
        f.col("value").cast("string"), "user string, page string, ms double, at long"
    )
    return source.select(parsed.alias("v")).select("v.user", "v.page", "v.ms", "v.at")


def passed(rows: DataFrame) -> DataFrame:
    """Each view as a record, with the same columns."""
    at = f.timestamp_millis("at").alias("at")
    value = f.to_json(f.struct("user", "page", "ms", at))
    return rows.select(f.col("user").alias("key"), value.alias("value"))


def counted(rows: DataFrame, kind: str) -> DataFrame:
    """Views and time per user and window, as records."""
    window, start, end = WINDOWS[kind](), f.col("window.start"), f.col("window.end")
    if kind == "session":
        end += f.expr(INSTANT)
    return (
        rows.withColumn("at", f.timestamp_millis("at"))
        .withWatermark("at", "1 second")
        .groupBy(window.alias("window"), "user")
        .agg(f.count("*").alias("views"), f.sum("ms").alias("ms"))
        .select(
            f.to_json(f.struct("user", start.alias("window_start"))).alias("key"),
            f.to_json(
                f.struct(
                    "user", start.alias("window_start"), end.alias("window_end"), "views", "ms"
                )
            ).alias("value"),
        )
    )


def run(records: DataFrame, plan: dict[str, Any]) -> None:
    """Writes to Kafka, to the end of the input or until it is stopped."""
    writer = (
        records.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", plan["brokers"])
        .option("topic", plan["output"])
        .option("checkpointLocation", plan["checkpoint"])
        .outputMode("append")
    )
    Meter(plan).watch((writer.trigger(availableNow=True) if plan["once"] else writer).start())


def main() -> None:
    plan = json.loads(sys.argv[1])
    rows = views(session(plan), plan)
    run(passed(rows) if plan["kind"] == "passed" else counted(rows, plan["kind"]), plan)


if __name__ == "__main__":
    main()
