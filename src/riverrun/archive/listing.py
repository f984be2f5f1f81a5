"""What an archive has: offsets, times and gaps, by partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from riverrun.archive.files import times_of
from riverrun.archive.folder import Piece, TopicArchive, archived_topics
from riverrun.errors import InputError
from riverrun.partitions import Partition


@dataclass(frozen=True)
class Listed:
    partition: Partition
    first: int
    last: int
    """Offsets, both of them archived."""
    since: datetime | None
    until: datetime | None
    """The earliest time of the first file with records, and the latest of the last."""
    files: int
    bytes: int
    gaps: tuple[tuple[int, int], ...]
    """First and last offsets that retention took before they were archived."""


def listed(root: Path, topics: Sequence[str]) -> Iterator[Listed]:
    """Of the topics that are named, or of all."""
    known = archived_topics(root)
    for topic in topics:
        if topic not in known:
            raise InputError(
                f"{topic!r} is not archived", where=root,
                got=f"there are: {', '.join(known) or 'none'}",
            )  # fmt: skip
    for topic in topics or known:
        archive = TopicArchive(root, topic)
        for number in archive.partitions():
            if pieces := archive.pieces(number):
                yield _listed(Partition(topic, number), pieces)


def _listed(partition: Partition, pieces: list[Piece]) -> Listed:
    files = [each for each in pieces if not each.gap]
    return Listed(
        partition, pieces[0].start, pieces[-1].end - 1,
        since=_time(files, 0), until=_time(files[::-1], 1),
        files=len(files), bytes=sum(each.path.stat().st_size for each in files),
        gaps=tuple((each.start, each.end - 1) for each in pieces if each.gap),
    )  # fmt: skip


def _time(files: list[Piece], which: int) -> datetime | None:
    """That of the first file that has records: in one there may be marks of transactions only."""
    for each in files:
        if (found := times_of(each.path)) is not None:
            return datetime.fromtimestamp(found[which] / 1000, UTC)
    return None
