"""Spark's own join of two streams, as in `riverrun bench joins`."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from riverrun.bench.raw_spark import run, session


def rows(spark: SparkSession, plan: dict[str, Any], topic: str, schema: str) -> DataFrame:
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", plan["brokers"])
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(plan["batch"] // 2))
        .load()
    )
    parsed = f.from_json(f.col("value").cast("string"), schema)
    return source.select(parsed.alias("v")).select("v.*")


def joined(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    searches = rows(spark, plan, plan["input"], "id long, words string, at long")
    searches = searches.withColumn("at", f.timestamp_millis("at")).withWatermark("at", "1 second")
    clicks = rows(spark, plan, plan["right"], "search long, url string, clicked long")
    clicks = clicks.withColumn("clicked", f.timestamp_millis("clicked")).withWatermark(
        "clicked", "1 second"
    )
    near = f.expr("id = search AND clicked >= at AND clicked <= at + interval 1 minute")
    pairs = searches.join(clicks, near)
    value = f.to_json(f.struct("id", "words", "at", "search", "url", "clicked"))
    return pairs.select(value.alias("value"))


def main() -> None:
    plan = json.loads(sys.argv[1])
    run(joined(session(plan), plan), plan)


if __name__ == "__main__":
    main()
