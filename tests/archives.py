"""Topics with all that a record can have, what they hold, and what their archives do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from riverrun.archive.copying import Archiver, WholeRanges
from riverrun.archive.folder import TopicArchive
from riverrun.kafka import admin
from riverrun.kafka.browse import Browser
from riverrun.partitions import Range

ODD = (
    (None, None, None),
    (b"", b"", []),
    (b"k", None, [("a", b"1"), ("a", b"2"), ("b", None), ("c", b"")]),
    (None, b"\xff\x00", [("é", "ü".encode())]),
    (b"large", b"x" * 50_000, None),
)
"""Keys, values and headers of records."""
KINDS = {0: None, 1: "create", 2: "append"}
START = 1_767_225_600_000


def filled(client: dict[str, str], topic: str, *, rounds: int = 6, partitions: int = 3) -> None:
    """Transactions, some of them aborted, in all partitions but the last, and odd records."""
    admin.create_topic(client, topic, partitions=partitions)
    fill(client, topic, rounds=rounds, partitions=partitions)


def fill(client: dict[str, str], topic: str, *, rounds: int, partitions: int = 3) -> None:
    producer = Producer({**client, "transactional.id": f"fill-{topic}"})
    producer.init_transactions(30)
    for number in range(rounds):
        producer.begin_transaction()
        for n in range(20):
            key, value, headers = ODD[n] if n < len(ODD) else (f"k{n}", f"{number}-{n}", None)
            producer.produce(
                topic, value, key, (number + n) % (partitions - 1), headers=headers,
                timestamp=START + number * 60_000 + n * 1000,
            )  # fmt: skip
        if number % 3 == 1:
            producer.flush(30)  # else an abort leaves nothing
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def expired(client: dict[str, str], topic: str, offsets: dict[int, int]) -> None:
    """Retention has deleted what was before these offsets."""
    own = AdminClient(client)  # answers come only as long as it is there
    places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
    for each in own.delete_records(places).values():
        each.result(30)


def held_by_topic(client: dict[str, str], topic: str) -> list[tuple[Any, ...]]:
    with Browser(client, topic) as browser:
        return sorted(
            (
                (
                    m.partition(), m.offset(), m.timestamp()[1], KINDS[m.timestamp()[0]], m.key(),
                    m.value(), m.headers(),
                )
                for m in browser.read(browser.earliest)
            ),
            key=lambda row: row[:2],
        )  # fmt: skip


def held_by_archive(root: Path, topic: str) -> list[tuple[Any, ...]]:
    """As anybody reads Parquet."""
    with duckdb.connect() as own:
        rows = own.execute(
            'SELECT partition, "offset", epoch_ms(timestamp), timestamp_type, key, value, headers '
            f"FROM read_parquet('{root}/{topic}/*/*.parquet', hive_partitioning=true) "
            'ORDER BY partition, "offset"'
        ).fetchall()
    return [(*row[:-1], _headers(row[-1])) for row in rows]


def _headers(found: list[dict[str, Any]] | None) -> list[tuple[str, Any]] | None:
    # a client makes no difference between no headers and an empty list of them
    return [(each["name"], each["value"]) for each in found] if found else None


class InSlices(WholeRanges):
    """Records come a few at a time, so that there are many files."""

    def as_it_comes(self, whole: Range) -> Iterator[tuple[pa.Table, int]]:
        for rows, end in super().as_it_comes(whole):
            for at in range(0, rows.num_rows, 200):
                part = rows.slice(at, 200)
                yield part, part["__offset"][-1].as_py() + 1
            yield rows.slice(0, 0), end


def archive_slowly(client: dict[str, str], root: Path, topic: str) -> None:
    archiver = Archiver(client, root, file_bytes=10_000)
    archiver.ranges = InSlices(client)
    with TopicArchive(root, topic).held():
        archiver.copy([topic], lambda done, total: None)


def archive(client: dict[str, str], root: Path, *topics: str, file_bytes: int = 1 << 27) -> Any:
    archiver = Archiver(client, root, file_bytes=file_bytes)
    for topic in topics:
        with TopicArchive(root, topic).held():
            found = archiver.copy([topic], lambda done, total: None)
    return found


def names(root: Path, topic: str, number: int) -> list[str]:
    return [each.path.name for each in TopicArchive(root, topic).pieces(number)]
