"""Random programs over tables: made again in other cuts they are the same, and of what is planted
all is found, and nothing else."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import riverrun as rr
from envelopes import Database
from riverrun.kafka.records import Record
from riverrun.outputs import OutputSpec, Owner, Part
from riverrun.runtime.comparison import Comparison
from riverrun.runtime.replay import Replay
from riverrun.sinks.sqlite_file import SqliteFile
from riverrun.sources.files import MemoryTopics
from riverrun.sources.planning import Offset

OWNER = Owner("shop", "c1")


def tables(app: rr.App, dice: random.Random) -> rr.Table:
    """Some table of users, teams and clicks."""
    users = app.table("users", schema="id bigint, team string, score double", key="id")
    teams = app.table("teams", schema="team string, town string, since timestamp", key="team")
    notes = app.table(
        "notes", format="debezium", key="id", schema="id bigint, name string, body string"
    )
    clicks = app.stream("clicks", schema="user bigint, ms decimal(9, 2), tags string[]")
    counts = clicks.group_by("user").agg(
        n=rr.count(), total=rr.sum("ms"), last=rr.last("tags"), most=rr.max("ms")
    )
    chosen = [
        lambda: users.where("score > 0.3").with_columns(double="score * 2"),
        lambda: users.group_by("team").agg(n=rr.count(), total=rr.sum("score")),
        lambda: users.join(teams, on="team", how=dice.choice(["inner", "left", "full"])),
        lambda: users.join(counts, on={"id": "user"}, how="left"),
        lambda: notes.where("id % 3 > 0"),
        lambda: notes.join(users, on="id", prefix="user_"),
        lambda: users.join(teams, on="team").group_by("town").agg(n=rr.count(), m=rr.avg("score")),
        lambda: users.group_by("team").top(2, by="score"),
        lambda: counts,
    ]
    return dice.choice(chosen)()


def sent(dice: random.Random) -> tuple[MemoryTopics, list[Offset]]:
    """Input of some batches."""
    topics, database, cuts = MemoryTopics(), Database(dice.randrange(10**9)), []

    def send(topic: str, key: object, value: object) -> None:
        made = None if value is None else json.dumps(value).encode()
        topics.append(topic, Record(made, str(key).encode(), 0, hash(key) % 2, {}))

    for number in range(dice.randrange(2, 7)):
        for _ in range(dice.randrange(40)):
            gone, user, team = dice.random() < 0.2, dice.randrange(20), f"t{dice.randrange(4)}"
            send("users", user, None if gone else {"team": team, "score": dice.random()})
            if dice.random() < 0.2:
                town = {"town": dice.choice("abc"), "since": f"2026-01-0{dice.randrange(1, 9)}"}
                send("teams", len(team), None if gone else {"team": team, **town})
            ms = dice.randrange(10**6) / 100
            send("clicks", user, {"user": user, "ms": ms, "tags": [team] * dice.randrange(3)})
        database.act(dice.randrange(30))
        for key, value in database.log:
            topics.append("notes", Record(value and value.encode(), key and key.encode(), 0, 0, {}))
        database.log.clear()
        cuts.append(Offset(topics.ends(), tick=number * 1000, batch=number + 1, parallel=2))
    return topics, cuts


def written(destination: SqliteFile, replay: Replay, cuts: list[Offset]) -> None:
    """What the job does, in its cuts."""
    destination.prepare([replay.output])
    start = Offset({})
    for number, end in enumerate(cuts):
        rows = replay.batch(start, end)
        if rows is not None:
            part = Part("shop", "c1", 1, number, 0, tick=end.tick)
            destination.deliver(part, [(replay.output, rows)], replay.reader.evaluator)
        start = end


def differences(replay: Replay, destination: SqliteFile, cut: tuple[Offset, Offset], folder: Path):
    comparison = Comparison(replay.output, replay.reader.evaluator, folder)
    with closing(comparison), destination.standing(replay.output, OWNER) as standing:
        for rows in standing.rows:
            comparison.find(rows)
        if (rows := replay.batch(*cut)) is not None:
            comparison.want(rows)
        comparison.compare()
        key = replay.output.key[0]
        found = comparison.differences(1000)
        return sorted((each.kind, str((each.wanted or each.found)[key])) for each in found)


def planted(file: Path, output: OutputSpec, dice: random.Random) -> list[tuple[str, str]]:
    """Rows taken away, changed and added, and what is to be said of each."""
    key, other = output.key[0], next(n for n in output.schema.names if n not in output.key)
    expected = []
    with closing(sqlite3.connect(file)) as own, own:
        rows = own.execute(f'SELECT rowid, "{key}" FROM found').fetchall()
        for number, each in dice.sample(rows, min(len(rows), 4)):
            missing = dice.random() < 0.5
            change = "DELETE FROM found" if missing else f'UPDATE found SET "{other}" = 77'
            own.execute(f"{change} WHERE rowid = {number}")
            expected.append(("missing" if missing else "other", str(each)))
        own.execute(f'INSERT INTO found ("{key}", _version) VALUES (99, 0)')
    return sorted([*expected, ("extra", "99")])


@pytest.mark.parametrize("seed", range(25))
def test_a_random_table_is_what_the_log_says_until_something_is_planted(seed, tmp_path):
    dice = random.Random(seed)
    app = rr.App("shop", pages=3)
    tables(app, dice).to(rr.sinks.sqlite(tmp_path / "own.db", "found"))
    program = app.program()
    output = next(each for each in program.outputs if each.table)
    topics, cuts = sent(dice)
    destination = SqliteFile(tmp_path / "own.db")
    written(destination, Replay(program, output, topics, tmp_path / "job"), cuts)
    whole = (Offset({}), cuts[-1])
    for plant in (False, True):
        expected = planted(tmp_path / "own.db", output, dice) if plant else []
        with TemporaryDirectory(dir=tmp_path) as folder:
            replay = Replay(program, output, topics, Path(folder) / "state")
            assert differences(replay, destination, whole, Path(folder)) == expected
