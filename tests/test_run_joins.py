"""Joined tables on real Kafka and real Spark: changes of one key come from several pages."""

from __future__ import annotations

import random

import pytest

from riverrun.kafka import admin
from running import Run, produce, table

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr
app = rr.App("staff")
people = app.table("staff-people", key="id", schema="id bigint, team bigint, version bigint")
teams = app.table("staff-teams", key="id", schema="id bigint, name string")
placed = people.join(teams, on={"team": "id"}, how="left", prefix="team_")
placed.to("staff-placed")
sizes = placed.through("staff-through").group_by("team_name").agg(people=rr.count())
sizes.to("staff-sizes")
"""
PEOPLE, TEAMS = 200, 7


def moved(version: int, chosen: random.Random) -> list[dict[str, int]]:
    """Everybody in some team, some of which are not there."""
    teams = [chosen.randrange(TEAMS + 2) for _ in range(PEOPLE)]
    return [{"id": n, "team": team, "version": version} for n, team in enumerate(teams)]


def test_a_foreign_key_change_in_flight_to_a_compacted_topic_leaves_the_new_row(
    broker, broker_settings, tmp_path, once
):
    """Its `-` comes from the page of the old team, its `+` from that of the new one. They must
    reach the topic in this order, whatever is killed meanwhile."""
    chosen = random.Random(3)
    for topic in ("staff-people", "staff-teams"):
        admin.create_topic(broker, topic, partitions=2)
    file, home = tmp_path / "staff.py", broker_settings.home
    file.write_text(PROGRAM)
    names = {n: f"team {n}" for n in range(TEAMS)}
    teams = [{"id": n, "name": name} for n, name in names.items()]
    produce(broker, "staff-teams", teams, partitions=2)
    people = moved(0, chosen)
    produce(broker, "staff-people", people, partitions=2)
    with Run(file, home=home) as run:
        run.until(PEOPLE + TEAMS)
        for version in range(1, 4):
            people = moved(version, chosen)
            produce(broker, "staff-people", people, partitions=2)
            run.until((version + 1) * PEOPLE + TEAMS)
        people = moved(4, chosen)
        produce(broker, "staff-people", people, partitions=2)
    once(file)
    placed = table(broker, "staff-placed")
    assert {
        row["id"]: (row["team"], row["version"], row["team_name"]) for row in placed.values()
    } == {each["id"]: (each["team"], 4, names.get(each["team"])) for each in people}
    assert table(broker, "staff-through") == placed
    counts: dict[str | None, int] = {}
    for each in people:
        counts[names.get(each["team"])] = counts.get(names.get(each["team"]), 0) + 1
    sizes = table(broker, "staff-sizes").values()
    assert {row["team_name"]: row["people"] for row in sizes} == counts
