"""The pattern of `bench patterns` in plain PySpark, which has none: a state machine for each user.

Like riverrun's, it goes by event time: a view is looked at when the watermark has passed it.
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

WITHIN = 600_000
"""Milliseconds."""
RESULT = "user string, at long, views long"


class ShortThenLong(StatefulProcessor):
    """Three short views or more, and then a very long one."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.waiting = handle.getListState("waiting", "at long, ms double")
        self.short = handle.getListState("short", "at long")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[Row], timerValues: Any  # noqa: N803
    ) -> Iterator[Row]:  # fmt: skip
        new = [(row.at, row.ms) for row in rows]
        yield from self._passed(key, new, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any  # noqa: N803
    ) -> Iterator[Row]:  # fmt: skip
        yield from self._passed(key, [], timerValues.getCurrentWatermarkInMs())

    def _passed(self, key: Any, new: list[tuple[int, float]], watermark: int) -> Iterator[Row]:
        events = sorted([*map(tuple, self.waiting.get()), *new])
        short = [row[0] for row in self.short.get()]
        left = []
        for at, ms in events:
            if at >= watermark:
                left.append((at, ms))
            elif ms < 400:
                short.append(at)
            else:
                near = [each for each in short if each >= at - WITHIN]
                if ms >= 950 and len(near) >= 3:
                    yield Row(user=key[0], at=at, views=len(near) + 1)
                short = []
        self.waiting.put(left) if left else self.waiting.clear()
        self.short.put([(each,) for each in short]) if short else self.short.clear()
        if left:
            self.handle.registerTimer(left[-1][0] + 1)

    def close(self) -> None:
        pass


def main() -> None:
    plan = json.loads(sys.argv[1])
    rows = raw_spark.views(raw_spark.session(plan), plan).drop("page")
    timed = rows.withColumn("time", f.timestamp_millis("at")).withWatermark("time", "1 second")
    made = timed.groupBy("user").transformWithState(ShortThenLong(), RESULT, "Append", "EventTime")
    made = made.withColumn("at", f.timestamp_millis("at"))
    records = made.select(f.col("user").alias("key"), f.to_json(f.struct("*")).alias("value"))
    raw_spark.run(records, plan)


if __name__ == "__main__":
    main()
