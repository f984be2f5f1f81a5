"""What compaction has left of a topic, as people read it."""

from __future__ import annotations

import click

from riverrun.cli.grid import print_grid
from riverrun.durations import duration_text
from riverrun.kafka.admin import Topic
from riverrun.kafka.compaction import Left

OFFSETS = ("first offset", "next offset")
COUNTS = ("records", "keys", "tombstones", "bytes", "superseded")


def print_left(topic: Topic, counts: dict[int, Left]) -> None:
    """Partitions with their offsets, and, if they were counted, what is there."""
    columns = ["partition", *OFFSETS, *(COUNTS if counts else ())]
    rows = []
    for each in topic.partitions:
        facts = counts[each.number].facts() if counts else {}
        numbers = [each.start, each.end, *(facts[name] for name in COUNTS if facts)]
        rows.append((str(each.number), *(f"{number:,}" for number in numbers)))
    print_grid(columns, rows, numbers=set(columns[1:]))
    if counts:
        _print_totals(topic, list(counts.values()))


def _print_totals(topic: Topic, counts: list[Left]) -> None:
    records, keys = sum(each.records for each in counts), sum(each.keys for each in counts)
    size, old = sum(e.size for e in counts), sum(e.superseded_size for e in counts)
    click.echo(f"records = {records:,}")
    click.echo(f"keys = {keys:,}")
    spent = topic.span - records
    click.echo(f"offsets without a record = {spent:,} (compacted, aborted, or marks of commits)")
    if size:
        share = f"{old / size:.0%} of {size:,} bytes"
        click.echo(f"superseded = {share} (what compaction may still remove)")


def setting_line(name: str, value: str, *, own: bool) -> str:
    """`segment.ms = 60000 (1 minute; the broker's)`."""
    notes = [] if own else ["the broker's"]
    if name.endswith(".ms") and value.isdigit() and 0 < int(value) < 1 << 50:
        notes.insert(0, duration_text(int(value) * 1000))
    return f"{name} = {value}" + (f" ({'; '.join(notes)})" if notes else "")
