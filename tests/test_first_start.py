"""A first start with full topics, and one after an outage: as if all had been read in order."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flights import PROGRAM, Year, models, winds, worst
from once import Once
from riverrun.kafka import admin
from running import Run, produce, records, table

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS = 2


class Airport:
    """The topics of one application, its program, and what it is to give."""

    def __init__(self, broker: dict[str, str], once: Once, name: str, folder: Path) -> None:
        self.broker, self.once, self.name = broker, once, name
        self.file = folder / f"{name}.py"
        self.file.write_text(PROGRAM.format(name=name))
        self.year = Year()
        self.expected: list[tuple[object, ...]] = []
        for topic in ("flights", "planes", "weather"):
            admin.create_topic(broker, f"{name}-{topic}", partitions=PARTITIONS)

    def grow(self, days: int, *, per_day: int, planes: int) -> None:
        new = self.year.more(days, per_day=per_day, planes=planes)
        sent = {"flights": new.flights, "planes": new.planes, "weather": new.revised + new.weather}
        for topic, values in sent.items():
            produce(self.broker, f"{self.name}-{topic}", values, partitions=PARTITIONS)
        self.expected = sorted([*self.expected, *models(new.flights, self.year.planes)])

    def run(self, most: int) -> None:
        self.once(self.file, "--max-events", str(most))

    def rows(self, output: str) -> list[dict[str, Any]]:
        return [json.loads(v or "") for _, v in records(self.broker, f"{self.name}-{output}")]

    def table(self, output: str) -> list[dict[str, Any]]:
        return list(table(self.broker, f"{self.name}-{output}").values())

    def differing(self) -> list[str]:
        """Outputs that are not what DuckDB gives."""
        found = {"models": sorted((row["id"], row["model"]) for row in self.rows("models"))}
        wanted: dict[str, Any] = {"models": self.expected, "worst": worst(self.year)}
        top = sorted(self.table("worst"), key=lambda row: row["place"])
        found["worst"] = [(row["tail"], row["flights"], row["late"]) for row in top]
        # rows of the last hours may wait for more weather; what comes too late corrects, or nothing
        known = max(row["at"] for row in self.year.weather)
        last = (datetime.fromisoformat(known) - timedelta(hours=6)).isoformat()
        left = {row["id"] for row in self.year.flights if row["at"] <= last}
        for name, rows, weather in (
            ("winds", self.rows("winds"), self.year.weather),
            ("corrected", self.table("corrected"), self.year.weather + self.year.revised),
        ):
            found[name] = sorted((row["id"], row["wind"]) for row in rows if row["id"] in left)
            wanted[name] = [row for row in winds(self.year, weather) if row[0] in left]
        assert (wanted["winds"] != wanted["corrected"]) == bool(self.year.revised)
        return [name for name in found if found[name] != wanted[name]]


def tried(airport: Airport, most: int, *, days: int, per_day: int, planes: int) -> list[str]:
    differing = []
    for more in (days, days // 2):
        airport.grow(more, per_day=per_day, planes=planes)
        airport.run(most)
        differing += airport.differing()
    return differing


def test_full_topics_give_what_duckdb_gives_on_a_first_start_and_after_an_outage(
    broker, once, tmp_path
):
    airport = Airport(broker, once, "airport", tmp_path)
    assert tried(airport, 2_500, days=6, per_day=600, planes=3_000) == []


@pytest.mark.slow
@pytest.mark.parametrize("most", [5_000, 60_000, 500_000])
def test_a_year_gives_what_duckdb_gives_for_every_size_of_batches(most, broker, once, tmp_path):
    days = int(os.environ.get("DAYS", "365"))
    airport = Airport(broker, once, f"year{most}", tmp_path)
    assert tried(airport, most, days=days, per_day=923, planes=4_000) == []


LATEST = """
import riverrun as rr
app = rr.App("fromhere")
app.stream("fromhere-in", schema="n int", start="latest").to("fromhere-out")
"""


def test_what_comes_after_a_first_start_is_read_though_its_first_batch_is_killed(
    broker, broker_settings, tmp_path, once
):
    admin.create_topic(broker, "fromhere-in", partitions=1)
    produce(broker, "fromhere-in", [{"n": number} for number in range(100)])
    file, home = tmp_path / "fromhere.py", broker_settings.home
    file.write_text(LATEST)
    query = home / "checkpoints" / "fromhere" / "query"
    with Run(file, home=home) as run:
        number = 100
        while not (query / "offsets" / "0").exists():
            assert run.process.poll() is None, run.error()
            produce(broker, "fromhere-in", [{"n": number}])
            number += 1
        run.kill()
    assert not (query / "commits" / "0").exists()
    produce(broker, "fromhere-in", [{"n": each} for each in range(number, number + 50)])
    logged = json.loads((query / "offsets" / "0").read_text().splitlines()[-1])
    began = logged["begins"]["fromhere-in/0"]
    once(file)
    found = sorted(json.loads(value or "")["n"] for _, value in records(broker, "fromhere-out"))
    assert found == list(range(began, number + 50))
    assert 100 <= began < number
