"""Quix Streams: functions in Python over single records, exactly once, RocksDB and changelogs."""

import json
import multiprocessing
import os

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Sum

PLAN = json.loads(os.environ["PLAN"])


def at(value, headers, timestamp, kind):
    return value.get("at", timestamp)


def main(number):
    app = Application(
        PLAN["brokers"],
        consumer_group=PLAN["output"],
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        state_dir=f"{PLAN['state']}/{number}",
        commit_interval=1.0,
        loglevel="WARNING",
    )
    views = app.topic(PLAN["input"], key_deserializer="str", timestamp_extractor=at)
    rows = app.dataframe(views)
    if PLAN["work"] == "filter":
        rows = rows[rows["ms"] >= 500]
    elif PLAN["work"] == "count":
        windows = rows.tumbling_window(10_000, grace_ms=1_000).agg(views=Count(), ms=Sum("ms"))
        rows = windows.final(closing_strategy="partition").apply(window_row, metadata=True)
    else:
        users = app.topic(PLAN["table"], key_deserializer="str")
        rows = rows.join_asof(app.dataframe(users), on_merge=with_country, grace_ms=10**12)
    rows.to_topic(app.topic(PLAN["output"], key_serializer="str"))
    app.run()


def window_row(row, user, timestamp, headers):
    return {"user": user, "window_start": row["start"], "views": row["views"], "ms": row["ms"]}


def with_country(view, user):
    return {**view, "country": user["country"]}


if __name__ == "__main__":
    others = [multiprocessing.Process(target=main, args=(n,)) for n in range(1, PLAN["parallel"])]
    for other in others:
        other.start()
    main(0)
