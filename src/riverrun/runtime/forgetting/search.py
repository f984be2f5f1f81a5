"""Searches: for what stands for a subject's values, and for readable copies of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import exact
from riverrun.clock import Now
from riverrun.compiler.shape import source_of
from riverrun.errors import CheckpointAway, Location
from riverrun.far import AnyPath
from riverrun.forgetting import Keys, cipher
from riverrun.forgetting.places import place_of
from riverrun.kafka import admin
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.records import text_or_base64
from riverrun.kernels.arrivals import arrival, at_tick
from riverrun.kernels.sql import shared_evaluator
from riverrun.partitions import Partition, Range, real
from riverrun.runtime.forgetting.contents import pieces
from riverrun.runtime.forgetting.needles import Needles
from riverrun.runtime.forgetting.places import Application, under

SEALED = re.compile(rb"rrp1:[A-Za-z0-9_-]{22,}")
LONGEST = 1 << 16
"""Bytes of such a text."""


@dataclass
class Looked:
    """What was looked at."""

    place: str
    parts: int = 0
    """Files or records."""
    bytes: int = 0
    found: int = 0
    """Those with something that can be read."""


@dataclass(frozen=True)
class Search:
    """Of all that an application has written."""

    application: Application
    client: dict[str, str]
    also: tuple[Path, ...] = ()

    def looked(self, needles: Needles) -> list[Looked]:
        """Searches every place for what can be read."""
        found: dict[str, Looked] = {}
        for name, data in self._everything(needles.longest):
            each = found.setdefault(name, Looked(name))
            each.parts += 1
            each.bytes += len(data)
            each.found += needles.inside(data)
        return list(found.values())

    def values(self, keys: Keys, subject: bytes, kind: str, name: str) -> set[str]:
        """What is known of a subject: all that stands for values of it anywhere, read, and what
        others wrote in plain text."""
        texts: set[str] = set()
        for _, data in self._everything(LONGEST):
            texts.update(found.decode() for found in SEALED.findall(data))
        mine = [each for each in texts if cipher.subject_in(each) == subject]
        pairs = zip(mine, keys.read(mine), strict=True)
        # among the bytes of a file there may be more signs behind a text: that one is not opened
        read = {each.value for text, each in pairs if each.value not in (None, text)}
        plain = (self._plain(topic, kind, name) for topic in self.application.read)
        return read.union(*plain)

    def _everything(self, overlap: int) -> Iterator[tuple[str, bytes]]:
        existing = {topic.name for topic in admin.topics(self.client)}
        for topic in self.application.written:
            if topic in existing:
                for table in self._records(topic):
                    yield from ((f"topic {topic}", data) for data in _bytes(table))
        # a file that this process has open in SQLite must not be opened beside it: with the second
        # one the locks of the first end, and others take away the log under it
        place_of(self.application.settings, self.application.name).store().close()
        seen: set[AnyPath] = set()
        for what, place in self.application.files(self.also):
            for path in under(what, place):
                if path not in seen:
                    seen.add(path)
                    yield from ((f"{what}: {place}", data) for data in _pieces(path, overlap))

    def keys(self, topic: str, subject: bytes) -> list[str]:
        """The keys of a topic's records that are sealed, and the subject's."""
        found = {
            text_or_base64(key)[0]
            for table in self._records(topic)
            for key in table["__key"].to_pylist()
        }
        return sorted(each for each in found if each and cipher.subject_in(each) == subject)

    def _records(self, topic: str) -> Iterator[pa.Table]:
        facts = admin.describe(self.client, topic)
        reader = RangeReader(self.client)
        for each in facts.partitions:
            if each.start < each.end:
                place = Partition(topic, each.number)
                for found in reader.read(
                    [[Range(place, each.start, each.end)]], frozenset({topic})
                ):
                    number = pa.array([each.number] * found[place].num_rows, pa.int32())
                    yield found[place].append_column("__partition", number)

    def _plain(self, topic: str, kind: str, name: str) -> Iterator[str]:
        """The values of a subject in a topic that others write."""
        shape = self.application.shape["sources"][topic]
        source = source_of(topic, shape, Location(topic, 1))
        query, evaluator = arrival(source), shared_evaluator()
        for table in self._records(real(topic)):
            given = source.format.prepared(table, source.fields, source.table_key)
            rows = evaluator.run(query, at_tick(query, source, Now(0)), lot=given)
            for each in shape["personal"]:
                if each["subject"] == kind:
                    yield from _of(each, rows, name)


def _of(personal: dict[str, object], rows: pa.Table, name: str) -> Iterator[str]:
    whose = pc.cast(rows[str(personal["by"])], pa.string())
    mine = rows.filter(pc.fill_null(pc.equal(whose, name), False))
    columns = personal["columns"]
    assert isinstance(columns, list)
    if personal["inside"] is None:
        found = [value for column in columns for value in mine[column].to_pylist()]
    else:
        objects = [_object(text) for text in mine[str(personal["inside"])].to_pylist()]
        found = [each.get(column) for column in columns for each in objects]
    yield from (each if isinstance(each, str) else exact.dumps(each) for each in found if each)


def _object(text: str | None) -> dict[str, object]:
    try:
        found = exact.loads(text or "null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _bytes(table: pa.Table) -> Iterator[bytes]:
    """Keys, values and headers of each record."""
    for row in table.select(["__key", "__value", "__headers"]).to_pylist():
        headers = (part for each in row["__headers"] or () for part in each.values())
        parts = [row["__key"], row["__value"], *headers]
        given = (each.encode() if isinstance(each, str) else each for each in parts)
        yield b"\n".join(each for each in given if each is not None)


def _pieces(path: AnyPath, overlap: int) -> Iterator[bytes]:
    try:
        yield from pieces(path, overlap)
    except CheckpointAway:
        raise  # what was not looked through is not told to be clean
    except OSError:
        return  # of a running application, gone meanwhile; or no file, such as a socket
