"""`riverrun replay` across archive and topic: what comes out is made of all that was ever sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from confluent_kafka import Producer

from archives import archive, expired
from jobs import Job
from riverrun.cli.program_file import load_app
from riverrun.durations import milliseconds_of
from riverrun.errors import InputError
from riverrun.kafka import admin
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition
from riverrun.runtime.beside import removed, replay
from riverrun.runtime.spans import Asked
from running import records, table

START = 1_767_225_600_000  # 2026-01-01T00:00:00Z
PROGRAM = """
import riverrun as rr
app = rr.App("shop", pages=3)
users = app.table("{name}-users", schema="user bigint, country string", key="user")
clicks = app.stream(
    "{name}-clicks", schema="user bigint, ms bigint, at timestamp_ms", time="at",
    lateness="1 minute",
)
rows = clicks.select("user", "ms", "at", source="_headers['source']").join(users, on="user")
groups = rows.group_by("country", "source"){window}
groups.agg(n=rr.count(), ms=rr.sum("ms"), last=rr.last("ms")).to("{name}-sums")
"""
DEAD = 7
"""Each so many seconds one cannot be read."""


def send_users(client: dict[str, str], name: str) -> None:
    producer = Producer(client)
    for number in range(20):
        value = {"user": number, "country": "fr" if number % 2 else "de"}
        key = json.dumps({"user": number})
        producer.produce(f"{name}-users", json.dumps(value), key, timestamp=START)
    assert producer.flush(30) == 0


def send(client: dict[str, str], name: str, minutes: range) -> list[dict]:
    """Clicks in three of four partitions; those of every tenth minute are aborted."""
    producer, sent = Producer({**client, "transactional.id": name}), []
    producer.init_transactions(30)
    for minute in minutes:
        producer.begin_transaction()
        rows = []
        for number in range(minute * 60, minute * 60 + 60):
            at, source = START + number * 1000, f"s{number % 3}"
            row = {"user": number % 20, "ms": number * 7919 % 1000, "at": at}
            good = number % (60 * DEAD) != 0
            rows += [{**row, "source": source}] if good else []
            producer.produce(
                f"{name}-clicks", json.dumps(row) if good else "no json", None, number % 3,
                timestamp=at, headers=[("source", source), ("other", None)],
            )  # fmt: skip
        if minute % 10 == 5:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            sent += rows
    return sent


def by_duckdb(sent: list[dict], window: int | None) -> list[tuple]:
    """By windows of so many milliseconds, or without."""
    rows = [("fr" if r["user"] % 2 else "de", r["source"], r["at"], r["ms"]) for r in sent]
    slot = f"moment // {window} * {window}" if window else "NULL"
    with duckdb.connect() as own:
        own.execute("CREATE TABLE rows (country text, source text, moment bigint, ms bigint)")
        own.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", rows)
        return own.execute(
            f"SELECT country, source, {slot} AS slot, count(*), sum(ms)::bigint, "
            "arg_max(ms, moment) FROM rows GROUP BY ALL ORDER BY ALL"
        ).fetchall()


def rows_of(found: dict[str, dict]) -> list[tuple]:
    return sorted(
        (
            row["country"], row["source"],
            milliseconds_of(row["window_start"]) if "window_start" in row else None,
            row["n"], row["ms"], row["last"],
        )
        for row in found.values()
    )  # fmt: skip


@dataclass(frozen=True)
class Crossed:
    sent: list[dict]
    from_archive: int
    """Offsets that only the archive is asked for."""


def archived_in_part(client: dict[str, str], name: str, root: Path) -> Crossed:
    """Of one partition a part of what is archived is gone from the topic, of one all of that."""
    clicks, users = f"{name}-clicks", f"{name}-users"
    admin.create_topic(client, clicks, partitions=4)
    admin.create_topic(client, users, partitions=1)
    send_users(client, name)
    sent = send(client, name, range(40))
    archive(client, root, clicks, users, file_bytes=40_000)
    parts = [Partition(clicks, number) for number in range(4)]
    kept = KafkaTopics(client).ends(parts)
    sent += send(client, name, range(40, 60))
    expired(client, clicks, {0: 500, 1: kept[parts[1]]})
    expired(client, users, {0: 20})
    return Crossed(sent, kept[parts[0]] + kept[parts[1]] + 20)


@pytest.mark.broker
def test_archive_and_topic_give_what_all_that_was_sent_gives_in_batches_of_any_size(
    tmp_path, broker, broker_settings
):
    crossed = archived_in_part(broker, "sizes", tmp_path)
    settings = broker_settings.override(archive=tmp_path, brokers=broker["bootstrap.servers"])
    program = tmp_path / "app.py"
    program.write_text(PROGRAM.format(name="sizes", window=""))
    with pytest.raises(InputError, match="sizes-clicks/0 begins at offset 500: retention has del"):
        replay(load_app(program), broker_settings.override(brokers=settings.brokers), "none",
               Asked(), fresh=False, anyway=False)  # fmt: skip
    letters = []
    for most in (150, 900, 100_000):
        into = f"sizes{most}"
        found = replay(load_app(program), settings, into, Asked(), fresh=False, anyway=False)
        assert not found.gaps
        assert found.span.from_archive() == crossed.from_archive
        again = replay(load_app(program), settings, into, Asked(), fresh=False, anyway=False)
        assert (again.begun, again.span) == (True, found.span)
        job = Job(found.app, settings, broker, max_events=most, span=found.span).run()
        job.close()
        assert rows_of(table(broker, f"{into}.sizes-sums")) == by_duckdb(crossed.sent, None)
        letters.append(dead_letters(broker, into))
        removed(into, settings)
    assert letters[0] == letters[1] == letters[2]
    assert len(letters[0]) > 5
    assert {value for *_, value in letters[0]} == {"no json"}


@pytest.mark.broker
@pytest.mark.spark
def test_on_spark_archive_and_topic_give_what_all_that_was_sent_gives(
    tmp_path, broker, riverrun, once
):
    name, root = "crossed", tmp_path / "archive"
    crossed = archived_in_part(broker, name, root)
    program = tmp_path / "app.py"
    window = '.window(rr.tumbling("10 minutes"))'
    program.write_text(PROGRAM.format(name=name, window=window))
    given = ("--archive", str(root), "--close", "--json")
    told = once.command("replay", str(program), "--into", "all", "--max-events", "1500", *given)
    found = json.loads(told.out)
    assert found["events"] == len(crossed.sent) + found["dead"] + 20
    assert found["in_doubt"] == []
    assert found["from_archive"] == crossed.from_archive
    assert rows_of(table(broker, f"all.{name}-sums")) == by_duckdb(crossed.sent, 600_000)

    # a part of it, by time: of two partitions it is in the archive
    times = ("--from", "2026-01-01T00:10", "--to", "2026-01-01T00:30")
    once.command("replay", str(program), "--into", "part", *times, *given)
    low, high = START + 600_000, START + 1_800_000
    archived = [r for r in crossed.sent if low <= r["at"] < high and r["source"] != "s2"]
    got = rows_of(table(broker, f"part.{name}-sums"))
    assert [row for row in got if row[1] != "s2"] == by_duckdb(archived, 600_000)
    for each in ("all", "part"):
        assert riverrun("replay", "--remove", each).code == 0


def dead_letters(client: dict[str, str], app: str) -> list[tuple]:
    found = [json.loads(value) for _, value in records(client, f"{app}.dead")]
    return sorted((row["topic"], row["partition"], row["offset"], row["value"]) for row in found)
