"""Sliding windows in plain PySpark, which has none: a list of each user's last minute of events.

Like riverrun's, a result comes out when the watermark has passed its event, so that events may
overtake each other by the watermark's delay; a timer sees to users that have gone quiet.
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
        self.handle = handle
        self.recent = handle.getListState("recent", "at long, ms double")
        self.emitted = handle.getValueState("emitted", "up_to long")

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
        """The results of events that the watermark has passed; the rest waits."""
        events = sorted([*self.recent.get(), *new])
        known = self.emitted.get()
        up_to = known[0] if known else -1
        first = last = 0
        total = 0.0
        for at, ms in events:
            if at >= watermark:
                break
            while last < len(events) and events[last][0] <= at:
                total += events[last][1]
                last += 1
            while events[first][0] <= at - SIZE:
                total -= events[first][1]
                first += 1
            if at > up_to:
                yield Row(user=key[0], ms=ms, at=at, views=last - first, total=total)
        kept = [event for event in events if event[0] > watermark - SIZE]
        self.recent.put(kept) if kept else self.recent.clear()
        self.emitted.update((watermark - 1,))
        waiting = [at for at, _ in kept if at >= watermark]
        if waiting:
            self.handle.registerTimer(waiting[-1] + 1)

    def close(self) -> None:
        pass


def main() -> None:
    plan = json.loads(sys.argv[1])
    rows = raw_spark.views(raw_spark.session(plan), plan).drop("page")
    timed = rows.withColumn("time", f.timestamp_millis("at")).withWatermark("time", "1 second")
    made = timed.groupBy("user").transformWithState(LastMinute(), RESULT, "Append", "EventTime")
    made = made.withColumn("at", f.timestamp_millis("at"))
    records = made.select(
        f.to_json(f.struct("user", "at")).alias("key"), f.to_json(f.struct("*")).alias("value")
    )
    raw_spark.run(records, plan)


if __name__ == "__main__":
    main()
