"""Which topics are open: those that an application of the home reads, as its checkpoint has it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from starlette.concurrency import run_in_threadpool

from riverrun.compiler.shape import source_of
from riverrun.config import Settings
from riverrun.config_tables import NAME, Intake
from riverrun.errors import Location, ProgramError
from riverrun.far import AnyPath, FarPath
from riverrun.formats.json import Json
from riverrun.formats.known import FORMATS
from riverrun.kernels.program import ReadTopic
from riverrun.partitions import real
from riverrun.schema import Schema
from riverrun.server.answers import Refused
from riverrun.server.ingest.checking import Checker, key_of
from riverrun.times import DeviceTime

PROGRAM = "program.json"
REMEMBERED = 1.0
"""Seconds for which it is known what applications there are."""
Version = tuple[int, int]


@dataclass(frozen=True)
class ReadBy:
    """An application that reads the topic."""

    application: str
    source: ReadTopic

    @cached_property
    def checker(self) -> Checker:
        return Checker(self.source)


@dataclass(frozen=True)
class Opened:
    """A topic that is written through the server."""

    name: str
    readers: tuple[ReadBy, ...]
    intake: Intake

    @property
    def applications(self) -> tuple[str, ...]:
        return tuple(each.application for each in self.readers)

    @property
    def columns(self) -> dict[str, str]:
        """Of all who read it."""
        return {c.name: c.type for each in self.readers for c in each.source.fields.columns}

    @property
    def key(self) -> Schema:
        """Of the first who has one: what the others group by is their own matter."""
        found = (key_of(each.source) for each in self.readers)
        return next((key for key in found if key.columns), Schema(()))

    def stamps(self) -> Iterator[tuple[str, str]]:
        """The columns for the time of receipt, and their types."""
        for each in self.readers:
            when = each.source.time
            if isinstance(when, DeviceTime) and when.received in each.source.fields:
                yield when.received, each.source.fields.type_of(when.received)


@dataclass(frozen=True)
class Application:
    version: Version
    sources: dict[str, ReadTopic]
    closed: dict[str, str]
    """Topics that it reads, but that are not for the server, and why."""


class OpenTopics:
    """What checkpoints tell; those that have changed are read again."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._known: dict[str, Application] = {}
        self._topics: dict[str, Opened] = {}
        self._closed: dict[str, str] = {}
        self._looked_at = -REMEMBERED
        self._looking: asyncio.Future[None] | None = None

    async def all(self) -> list[Opened]:
        await self._look()
        return [self._topics[name] for name in sorted(self._topics)]

    async def topic(self, name: str) -> Opened:
        await self._look()
        found = self._topics.get(name)
        if found is not None:
            return found
        if name in self._closed:
            raise Refused(404, f"the topic {name!r} is not written here", got=self._closed[name])
        raise Refused(
            404, "no application of this home reads such a topic", got=name[:200],
            hint="`riverrun run` once a program that reads it; GET /topics lists those that are",
        )  # fmt: skip

    async def _look(self) -> None:
        """All who come meanwhile wait for the same look."""
        if self._looking is None and time.monotonic() > self._looked_at + REMEMBERED:
            self._looking = asyncio.ensure_future(run_in_threadpool(self.read))
            self._looking.add_done_callback(self._looked)
        if self._looking is not None:
            await asyncio.shield(self._looking)

    def _looked(self, _: asyncio.Future[None]) -> None:
        self._looking, self._looked_at = None, time.monotonic()

    def read(self) -> None:
        found = {file.parent.name: file for file in self._files()}
        gone = set(self._known) - set(found)
        changed = {name for name, file in found.items() if self._renewed(name, file)}
        for name in gone:
            del self._known[name]
        if gone or changed:
            self._open()

    def _files(self) -> list[AnyPath]:
        root = self.settings.checkpoint_root
        found = (each / PROGRAM for each in root.iterdir()) if root.is_dir() else ()
        return sorted((each for each in found if each.exists()), key=str)

    def _renewed(self, name: str, file: AnyPath) -> bool:
        """Whether it has changed, and can be read: it may just be being written."""
        known = self._known.get(name)
        try:
            version = _version(file)
            if not NAME.fullmatch(name) or (known and known.version == version):
                return False
            self._known[name] = _application(version, json.loads(file.read_text()), file)
        except (OSError, ValueError, KeyError, TypeError, ProgramError):
            return False
        return True

    def _open(self) -> None:
        readers: dict[str, list[ReadBy]] = {}
        self._closed = {}
        for name, application in self._known.items():
            for topic, source in application.sources.items():
                readers.setdefault(real(topic), []).append(ReadBy(name, source))
            self._closed |= application.closed
        before = {(each.application, id(each.source)): each for each in self._readers()}
        self._topics = {}
        for topic, found in readers.items():
            intake = self.settings.serve.topics.get(topic, Intake())
            chosen = [each for each in found if intake.application in (None, each.application)]
            # those that are the same keep their plans
            kept = [before.get((each.application, id(each.source)), each) for each in chosen]
            if kept and topic not in self._closed:
                self._topics[topic] = Opened(topic, tuple(kept), intake)

    def _readers(self) -> Iterator[ReadBy]:
        for each in self._topics.values():
            yield from each.readers


def _version(file: AnyPath) -> Version:
    """What changes with the file."""
    if isinstance(file, FarPath):
        return hash(file.read_bytes()), 0
    facts = file.stat()
    return facts.st_mtime_ns, facts.st_size


def _application(version: Version, shape: dict[str, Any], file: AnyPath) -> Application:
    found = Application(version, {}, {})
    for topic, kept in shape["sources"].items():
        if "filled_by" in kept:
            found.closed[real(topic)] = f"it is filled by {kept['filled_by']}"
        elif not isinstance(FORMATS.get(kept["format"]), Json):  # any other: the program's own
            found.closed[real(topic)] = f"it holds {kept['format']}, not JSON"
        else:
            found.sources[topic] = source_of(topic, kept, Location(str(file), 1))
    return found
