"""The window benchmark's program in plain PySpark, with Spark's default flags."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from riverrun.bench.measure import Meter


def main() -> None:
    plan = json.loads(sys.argv[1])
    session = (
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
    session.sparkContext.setLogLevel("ERROR")
    source = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", plan["brokers"])
        .option("subscribe", plan["input"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(plan["batch"]))
        .load()
    )
    views = source.select(
        f.from_json(
            f.col("value").cast("string"), "user string, page string, ms double, at long"
        ).alias("v")
    ).select("v.user", "v.ms", f.timestamp_millis("v.at").alias("at"))
    counted = (
        views.withWatermark("at", "1 second")
        .groupBy(f.window("at", "10 seconds"), "user")
        .agg(f.count("*").alias("views"), f.sum("ms").alias("ms"))
        .select(
            f.to_json(f.struct("user", f.col("window.start").alias("window_start"))).alias("key"),
            f.to_json(
                f.struct(
                    "user", f.col("window.start").alias("window_start"),
                    f.col("window.end").alias("window_end"), "views", "ms",
                )
            ).alias("value"),
        )
    )  # fmt: skip
    writer = (
        counted.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", plan["brokers"])
        .option("topic", plan["output"])
        .option("checkpointLocation", plan["checkpoint"])
        .outputMode("append")
    )
    Meter(plan).watch((writer.trigger(availableNow=True) if plan["once"] else writer).start())


if __name__ == "__main__":
    main()
