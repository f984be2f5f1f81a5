"""A year of flights, as an airport has them: departures, the planes' register, hourly weather.

Made by a generator, so that any length of it can be had. `oracle` asks DuckDB, over all of it at
once, what a program is to give.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ORIGINS = ("EWR", "JFK", "LGA")
PROGRAM = """
import riverrun as rr

app = rr.App("{name}", pages=4)
flights = app.stream(
    "{name}-flights",
    schema="id bigint, tail string, origin string, at timestamp, delay int",
    time="at",
    max_ahead=None,
)
planes = app.table("{name}-planes", key="tail", schema="tail string, model string, seats int")
weather = app.table(
    "{name}-weather",
    key="origin",
    schema="origin string, at timestamp, wind double",
    time="at",
    lateness="3 hours",
    max_ahead=None,
)
flights.join(planes, on="tail", how="left").to("{name}-models")
winds = weather.select("origin", "wind")
then = flights.join(winds, on="origin", as_of="event time", how="left", history="400 days")
then.to("{name}-winds")
corrected = flights.join(
    winds, on="origin", as_of="event time", how="left", history="30 days", corrections=True,
    name="corrected",
)
corrected.to("{name}-corrected")
delays = flights.group_by("tail").agg(flights=rr.count(), late=rr.sum("delay"))
worst = delays.with_columns(every="1").group_by("every").top(10, by="late", place="place")
worst.to("{name}-worst")
"""


@dataclass
class Year:
    """Flights, planes and weather up to some day; `more` goes on from there."""

    flights: list[dict[str, Any]] = field(default_factory=list)
    planes: list[dict[str, Any]] = field(default_factory=list)
    weather: list[dict[str, Any]] = field(default_factory=list)
    """As it arrives: up to two hours out of order."""
    revised: list[dict[str, Any]] = field(default_factory=list)
    """Weather of days before, which comes when flights of its time have long left."""
    days: int = 0

    def more(self, days: int, *, per_day: int, planes: int) -> Year:
        """What is new after so many days more."""
        chosen, new = random.Random(self.days), Year(days=self.days + days)
        for tail in range(planes):
            model = f"{'é' if tail % 7 == 0 else 'A'}{chosen.randrange(320)}-{self.days}"
            new.planes.append({"tail": f"N{tail}", "model": model, "seats": chosen.randrange(400)})
        hours = [timedelta(hours=hour) for hour in range(self.days * 24, new.days * 24)]
        hours.sort(key=lambda hour: hour + timedelta(minutes=chosen.randrange(120)))
        new.weather = [_observed(each, hour, chosen) for hour in hours for each in ORIGINS]
        if self.days:
            before = [timedelta(days=self.days, minutes=-chosen.randrange(1500, 5500) * 2 - 1)
                      for _ in range(20)]  # fmt: skip
            new.revised = [
                _observed(each, at, chosen) for at in sorted(set(before)) for each in ORIGINS
            ]
        for day in range(self.days, new.days):
            for number in sorted(chosen.randrange(86_400) for _ in range(per_day)):
                at = YEAR + timedelta(days=day, seconds=number)
                new.flights.append({
                    "id": len(self.flights) + len(new.flights),
                    "tail": f"N{chosen.randrange(planes + 20)}",
                    "origin": chosen.choice(ORIGINS),
                    "at": at.isoformat(),
                    "delay": chosen.randrange(-10, 120),
                })  # fmt: skip
        self.flights, self.planes = self.flights + new.flights, self.planes + new.planes
        self.weather, self.days = self.weather + new.weather, new.days
        self.revised = self.revised + new.revised
        return new


def _observed(origin: str, after: timedelta, chosen: random.Random) -> dict[str, Any]:
    wind = chosen.randrange(400) / 8
    return {"origin": origin, "at": (YEAR + after).isoformat(), "wind": wind}


def models(flights: list[dict[str, Any]], planes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Flights with the planes as they stand after all that is given."""
    last = {each["tail"]: each["model"] for each in planes}
    return sorted((each["id"], last.get(each["tail"])) for each in flights)


def winds(year: Year, weather: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Flights with the wind that was valid when they left."""
    return _asked(
        replace(year, weather=weather),
        "SELECT f.id, w.wind FROM flights f ASOF LEFT JOIN weather w "
        'ON f.origin = w.origin AND f."at" >= w."at" ORDER BY 1',
    )


def worst(year: Year) -> list[tuple[Any, ...]]:
    return _asked(
        year,
        "SELECT tail, count(*), sum(delay)::BIGINT FROM flights "
        "GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT 10",
    )


def _asked(year: Year, query: str) -> list[tuple[Any, ...]]:
    """Times are texts of one form, which are in the order of time."""
    with duckdb.connect() as connection:
        for name in ("flights", "weather"):
            connection.register(name, pa.Table.from_pylist(getattr(year, name)))
        return connection.execute(query).fetchall()
