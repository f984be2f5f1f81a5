"""Plain PySpark: Kafka source, from_json, built-in operators, RocksDB, Kafka sink."""

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

PLAN = json.loads(os.environ["PLAN"])
VIEW = "user string, page string, ms double, at long"


def records(reader, topic, schema):
    found = (
        reader.format("kafka")
        .option("kafka.bootstrap.servers", PLAN["brokers"])
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    if schema == VIEW:
        found = found.option("maxOffsetsPerTrigger", "250000")
    parsed = f.from_json(f.col("value").cast("string"), schema)
    return found.load().select(parsed.alias("v")).select("v.*")


def counted(views):
    counts = (
        views.withColumn("at", f.timestamp_millis("at"))
        .withWatermark("at", "1 second")
        .groupBy(f.window("at", "10 seconds").alias("window"), "user")
        .agg(f.count("*").alias("views"), f.sum("ms").alias("ms"))
    )
    return counts.select("user", f.unix_millis("window.start").alias("window_start"), "views", "ms")


def main():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    store = "spark.sql.streaming.stateStore"
    rocks = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.jars", ",".join(PLAN["jars"]))
        .config("spark.sql.shuffle.partitions", str(PLAN["parallel"]))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config(f"{store}.providerClass", rocks)
        .config(f"{store}.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    views = records(spark.readStream, PLAN["input"], VIEW)
    if PLAN["work"] == "filter":
        rows = views.where("ms >= 500")
    elif PLAN["work"] == "count":
        rows = counted(views)
    else:  # Spark has no join of a stream with a changing table: the table as it is at the start
        users = records(spark.read, PLAN["table"], "id string, country string")
        rows = views.join(users, views["user"] == users["id"]).drop("id")
    (
        rows.select(f.col("user").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", PLAN["brokers"])
        .option("topic", PLAN["output"])
        .option("checkpointLocation", PLAN["state"])
        .outputMode("append")
        .start()
        .awaitTermination()
    )


main()
