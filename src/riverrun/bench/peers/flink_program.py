"""PyFlink: SQL, checkpoints every 5 seconds, RocksDB, exactly once."""

import json
import os

from pyflink.table import EnvironmentSettings, TableEnvironment

PLAN = json.loads(os.environ["PLAN"])
VIEW = "`user` STRING, page STRING, ms DOUBLE, `at` BIGINT"
WORK = {
    "filter": (VIEW, "SELECT `user`, page, ms, `at` FROM page_views WHERE ms >= 500"),
    "count": (
        "`user` STRING, window_start BIGINT, `views` BIGINT, ms DOUBLE",
        """SELECT `user`, UNIX_TIMESTAMP(CAST(window_start AS STRING)) * 1000, COUNT(*), SUM(ms)
           FROM TABLE(TUMBLE(TABLE page_views, DESCRIPTOR(happened), INTERVAL '10' SECOND))
           GROUP BY `user`, window_start, window_end""",
    ),
    "join": (
        f"{VIEW}, country STRING",
        """SELECT page_views.`user`, page, ms, `at`, country FROM page_views
           JOIN members FOR SYSTEM_TIME AS OF page_views.happened
           ON page_views.`user` = members.id""",
    ),
}


def source(topic, connector="kafka"):
    client = f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{PLAN['brokers']}'"
    if connector == "upsert-kafka":
        formats = "'key.format' = 'raw', 'value.format' = 'json'"
        return f"('connector' = '{connector}', {client}, {formats})"
    return f"""('connector' = '{connector}', {client}, 'format' = 'json',
        'properties.group.id' = '{PLAN["output"]}', 'scan.startup.mode' = 'earliest-offset')"""


def main():
    flink = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {
        "pipeline.jars": ";".join(f"file://{jar}" for jar in PLAN["jars"]),
        "parallelism.default": str(PLAN["parallel"]),
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.dir": f"file://{PLAN['state']}/checkpoints",
        "state.backend.type": "rocksdb",
        "table.local-time-zone": "UTC",
        # the table ends long before the stream; a partition of views is never idle, only late
        **({"table.exec.source.idle-timeout": "5 s"} if PLAN["work"] == "join" else {}),
        "taskmanager.memory.managed.size": "512m",
    }.items():
        flink.get_config().set(name, value)
    flink.execute_sql(
        f"""CREATE TABLE page_views ({VIEW}, happened AS TO_TIMESTAMP_LTZ(`at`, 3),
        WATERMARK FOR happened AS happened - INTERVAL '1' SECOND) WITH {source(PLAN["input"])}"""
    )
    if PLAN["work"] == "join":
        flink.execute_sql(
            f"""CREATE TABLE members (id STRING, country STRING,
            since TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR since AS since,
            PRIMARY KEY (id) NOT ENFORCED) WITH {source(PLAN["table"], "upsert-kafka")}"""
        )
    columns, query = WORK[PLAN["work"]]
    flink.execute_sql(
        f"""CREATE TABLE results ({columns}) WITH ('connector' = 'kafka',
        'topic' = '{PLAN["output"]}', 'properties.bootstrap.servers' = '{PLAN["brokers"]}',
        'properties.transaction.timeout.ms' = '600000', 'format' = 'json',
        'sink.delivery-guarantee' = 'exactly-once',
        'sink.transactional-id-prefix' = '{PLAN["output"]}')"""
    )
    flink.execute_sql(f"INSERT INTO results {query}").wait()


main()
