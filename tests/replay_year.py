"""A year of three topics replayed with several batch sizes, against DuckDB over all of it.

    python tests/replay_year.py --events 5000000 --batches 50000 1000000

One row in five is out of order, a partition is empty, and a topic starts in mid-year; rates are
joined as of event time. Every window and every hundredth joined row must be what DuckDB makes of
the whole history, none may be late, and at most one row in twenty may wait at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from riverrun import config
from riverrun.bench.load import PRODUCER
from riverrun.durations import milliseconds_of
from riverrun.embedded import kafka, ports
from riverrun.kafka import admin
from riverrun.kafka.browse import Browser
from running import COMMAND
from year import PARTITIONS, PROGRAM, Year

AT_ONCE = 20_000
MOST_WAITING = 0.05
NAME = "year"


def fill(client: dict[str, str], year: Year) -> None:
    """Makes the topics; records are sent with their event times as timestamps."""
    for topic, count in PARTITIONS.items():
        admin.create_topic(client, f"{NAME}-{topic}", partitions=count)
        for number in range(count):
            rows = year.values(topic, number)
            records = zip(*(column.to_pylist() for column in rows.columns), strict=True)
            _send(Producer({**client, **PRODUCER}), f"{NAME}-{topic}", number, records)


def _send(producer: Producer, topic: str, number: int, records: Iterator[Any]) -> None:
    for sent, (value, key, at) in enumerate(records, start=1):
        producer.produce(topic, value, key, number, timestamp=at)
        if sent % AT_ONCE == 0:
            producer.flush(60)
    assert producer.flush(60) == 0


def replay(program: Path, home: Path, into: str, most: int) -> dict[str, Any]:
    command = [*COMMAND, "replay", str(program), "--into", into, "--close", "--json"]
    told = subprocess.run(
        [*command, "--max-events", str(most)], env={**os.environ, "RIVERRUN_HOME": str(home)},
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def rows(client: dict[str, str], topic: str) -> list[dict[str, Any]]:
    with Browser(client, topic) as browser:
        return [json.loads(message.value()) for message in browser.read(browser.earliest)]


def days(client: dict[str, str], into: str) -> Counter[tuple[Any, ...]]:
    names = ("region", "n", "amount", "priced", "taxed", "mixed")
    return Counter(
        (milliseconds_of(row["window_start"]), *(row[name] for name in names))
        for row in rows(client, f"{into}.{NAME}-days")
    )


def some(client: dict[str, str], into: str) -> Counter[tuple[Any, ...]]:
    names = ("id", "region", "amount", "percent")
    found = rows(client, f"{into}.{NAME}-some")
    return Counter(tuple(row[name] for name in names) for row in found)


def wrong(client: dict[str, str], year: Year, told: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    into, found = told["application"], []
    for name, got, wanted in (
        ("windows", days(client, into), Counter(year.days())),
        ("joined rows", some(client, into), Counter(year.some())),
    ):
        if got != wanted:
            missing, surplus = (wanted - got).total(), (got - wanted).total()
            found.append(f"of {wanted.total():,} {name} {missing:,} miss, {surplus:,} are surplus")
    if told["late"] or told["dead"]:
        found.append(f"{told['late']:,} rows late, {told['dead']:,} dead letters")
    if told["most_waiting"] > MOST_WAITING * year.events:
        found.append(f"{told['most_waiting']:,} rows waited")
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--batches", type=int, nargs="+", default=[50_000, 1_000_000])
    asked = parser.parse_args(arguments)
    year, failed = Year(asked.events), False
    print(f"{asked.events:,} events, {year.out_of_order():.1%} out of order", flush=True)
    with tempfile.TemporaryDirectory(prefix="riverrun-year-") as folder:
        settings = replace(config.load(), home=Path(folder) / "home")
        program = Path(folder) / "year.py"
        program.write_text(PROGRAM.format(name=NAME))
        kafka.up(settings, port=ports.any_free())
        client = kafka.ensure(settings)
        try:
            began_at = time.monotonic()
            fill(client, year)
            print(f"sent in {time.monotonic() - began_at:.0f} s", flush=True)
            for most in asked.batches:
                told = replay(program, settings.home, f"by-{most}", most)
                share = told["most_waiting"] / asked.events
                print(
                    f"batches of {most:,}: {told['seconds']} s, "
                    f"{told['events'] / told['seconds']:,.0f} events/s, "
                    f"{told['most_waiting']:,} rows waiting at most, {share:.2%}",
                    flush=True,
                )
                for text in (problems := wrong(client, year, told)):
                    print(f"WRONG: {text}", flush=True)
                failed = failed or bool(problems)
        finally:
            kafka.down(settings)
    print("wrong" if failed else "all as DuckDB has it")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
