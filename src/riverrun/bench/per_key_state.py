"""Sliding windows in plain PySpark, which has none: a list of each user's last minute of events.

It relies on each user's events coming in order, and keeps the last minute of users that went quiet
for ever: a version without these two gaps does more work per event.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from riverrun.bench import raw_spark

SIZE = 60_000
"""Milliseconds."""
RESULT = "user string, ms double, at long, views long, total double"


class LastMinute(StatefulProcessor):
    """For each event, the number and the sum of its user's events of the minute up to it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.recent = handle.getListState("recent", "at long, ms double")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[Row], timerValues: Any  # noqa: N803
    ) -> Iterator[Row]:  # fmt: skip
        new = sorted((row.at, row.ms) for row in rows)
        events = [*self.recent.get(), *new]
        first = last = 0
        total = 0.0
        for at, ms in new:
            while last < len(events) and events[last][0] <= at:
                total += events[last][1]
                last += 1
            while events[first][0] <= at - SIZE:
                total -= events[first][1]
                first += 1
            yield Row(user=key[0], ms=ms, at=at, views=last - first, total=total)
        self.recent.put(events[first:])

    def close(self) -> None:
        pass


def main() -> None:
    plan = json.loads(sys.argv[1])
    rows = raw_spark.views(raw_spark.session(plan), plan)
    made = rows.groupBy("user").transformWithState(LastMinute(), RESULT, "Append", "None")
    made = made.withColumn("at", f.timestamp_millis("at"))
    records = made.select(
        f.to_json(f.struct("user", "at")).alias("key"), f.to_json(f.struct("*")).alias("value")
    )
    raw_spark.run(records, plan)


if __name__ == "__main__":
    main()
