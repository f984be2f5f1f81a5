"""A year of three topics, out of order, and what a join as of event time gives over all of it.

Sales of the whole year, with one partition that is empty; refunds that begin in July; rates whose
versions come all year round. One row in five arrives up to a day after others of its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import duckdb
import pyarrow as pa

import riverrun as rr

START = 1_735_689_600_000
"""2025-01-01T00:00:00Z, in milliseconds."""
SHARES = {"sales": 0.7, "refunds": 0.2, "rates": 0.1}
PARTITIONS = {"sales": 4, "refunds": 2, "rates": 2}
EMPTY = "sales", 3
DAY = 86_400_000

PROGRAM = """
import riverrun as rr

app = rr.App("{name}", pages=8)
EVENT = "id bigint, region string, amount bigint, at timestamp_ms"
sales = app.stream("{name}-sales", schema=EVENT, time="at", lateness="1 day")
refunds = app.stream("{name}-refunds", schema=EVENT, time="at", lateness="1 day")
rates = app.table(
    "{name}-rates", schema="region string, percent bigint, since timestamp_ms", key="region",
    time="since", lateness="1 day",
)
every = sales.select("id", "region", "amount").union(
    refunds.select("id", "region", amount="-amount")
)
priced = every.join(
    rates.select("region", "percent"), on="region", as_of="event time", how="left", name="priced"
)
priced.where("id % 100 = 0").select("id", "region", "amount", "percent").to("{name}-some")
days = priced.group_by("region", name="days").window(rr.tumbling("1 day"))
days.agg(
    n=rr.count(), amount=rr.sum("amount"), priced=rr.count("percent"),
    taxed=rr.sum("amount * percent"), mixed=rr.sum("id * percent"),
).to("{name}-days")
"""

TOPICS = """
CREATE TABLE rows AS
SELECT *, moment + CASE WHEN random() < 0.2 THEN (random() * 86400000)::bigint ELSE 0 END AS came
FROM (
    SELECT id, 'r' || (random() * random() * {regions})::int AS region,
        (random() * 1000)::bigint AS amount, CASE WHEN id % 20 < 14 THEN 'sales'
        WHEN id % 20 < 18 THEN 'refunds' ELSE 'rates' END AS topic,
        ({start} + {day}::bigint * CASE WHEN id % 20 BETWEEN 14 AND 17 THEN 181 + random() * 184
        ELSE random() * 365 END)::bigint AS moment
    FROM range({count}) AS made(id)
);
CREATE TABLE records AS
SELECT *, row_number() OVER (PARTITION BY topic, number ORDER BY came, id) - 1 AS "offset"
FROM (
    SELECT *, CASE topic WHEN 'sales' THEN id % 3 WHEN 'refunds' THEN id % 2
        ELSE hash(region) % 2 END::int AS number FROM rows
);
"""

DAYS = """
WITH rates AS (
    SELECT region, moment, arg_max(amount, "offset") AS percent FROM records WHERE topic = 'rates'
    GROUP BY region, moment
), priced AS (
    SELECT e.id, e.region, e.moment, percent,
        CASE e.topic WHEN 'refunds' THEN -e.amount ELSE e.amount END AS amount
    FROM (SELECT * FROM records WHERE topic <> 'rates') AS e
    ASOF LEFT JOIN rates ON rates.region = e.region AND rates.moment <= e.moment
)
"""


@dataclass(frozen=True)
class Year:
    events: int
    regions: int = 500
    seed: float = 0.5

    @cached_property
    def made(self) -> duckdb.DuckDBPyConnection:
        own = duckdb.connect()
        own.execute("SET threads = 1")  # so that chance is the same each time
        own.execute("SELECT setseed(?)", [self.seed])
        own.execute(TOPICS.format(count=self.events, regions=self.regions, start=START, day=DAY))
        return own

    def values(self, topic: str, number: int) -> pa.Table:
        """What a partition holds, in its order: JSON, and the event time in milliseconds."""
        fields = ["region: region", "percent: amount", "since: moment"]
        if topic != "rates":
            fields = ["id: id", "region: region", "amount: amount", "at: moment"]
        named = ", ".join(f"'{name}', {value}" for name, value in (f.split(": ") for f in fields))
        return self.made.sql(
            f"SELECT json_object({named})::varchar AS value, region, moment FROM records "
            'WHERE topic = ? AND number = ? ORDER BY "offset"',
            params=[topic, number],
        ).to_arrow_table()

    def days(self) -> set[tuple[int | str, ...]]:
        """Start of the day, region, and the aggregates of it."""
        return set(
            self.made.execute(
                f"{DAYS} SELECT moment // {DAY} * {DAY}, region, count(*), sum(amount)::bigint, "
                "count(percent), sum(amount * percent)::bigint, sum(id * percent)::bigint "
                "FROM priced GROUP BY ALL"
            ).fetchall()
        )

    def some(self) -> set[tuple[int | str | None, ...]]:
        """Every hundredth row, with the rate of its time."""
        return set(
            self.made.execute(
                f"{DAYS} SELECT id, region, amount, percent FROM priced WHERE id % 100 = 0"
            ).fetchall()
        )

    def out_of_order(self) -> float:
        """The share of rows before which one of a later time came."""
        [found] = self.made.execute(
            "SELECT avg((moment < high)::int) FROM (SELECT moment, max(moment) OVER so_far AS high "
            'FROM records WINDOW so_far AS (PARTITION BY topic, number ORDER BY "offset"))'
        ).fetchall()
        return float(found[0])


def program(name: str) -> rr.App:
    space: dict[str, rr.App] = {}
    exec(compile(PROGRAM.format(name=name), "year", "exec"), space)
    return space["app"]
