"""Where an application has written: what is searched, and what others write in plain text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun.archive.folder import TopicArchive
from riverrun.compiler import upgrades
from riverrun.compiler.shape import Shape
from riverrun.config import Settings
from riverrun.control import answer_topic, control_topic
from riverrun.durations import duration_text
from riverrun.errors import InputError
from riverrun.far import AnyPath, FarPath
from riverrun.forgetting.places import place_of
from riverrun.kafka import admin
from riverrun.kernels.subjects import Kinds
from riverrun.partitions import from_files, real
from riverrun.schema import parse


@dataclass(frozen=True)
class Application:
    """What is known of an application by its checkpoint."""

    name: str
    settings: Settings
    shape: Shape

    @classmethod
    def known(cls, settings: Settings, name: str) -> Application:
        folder = settings.checkpoint_of(name)
        shape = upgrades.read(folder)
        if shape is None or "forgetting" not in shape:
            fact = "nothing is known of" if shape is None else "nothing is personal in"
            hint = "has it run here?" if shape is None else "rr.personal(…) says what is"
            raise InputError(f"{fact} the application {name!r}", where=folder, hint=hint)
        return cls(name, settings, shape)

    @property
    def personal(self) -> dict[str, list[dict[str, Any]]]:
        """What is personal in each topic that is read."""
        sources = self.shape["sources"].items()
        return {topic: each["personal"] for topic, each in sources if "personal" in each}

    @property
    def kinds(self) -> Kinds:
        """Of subjects."""
        found: dict[str, set[str]] = {}
        for topic, several in self.personal.items():
            fields = parse(self.shape["sources"][topic]["columns"])
            for each in several:
                found.setdefault(each["subject"], set()).add(fields.type_of(each["by"]))
        return found

    @property
    def written(self) -> list[str]:
        """Topics, those of riverrun itself among them."""
        own = [f"{self.name}.progress", control_topic(self.name), answer_topic(self.name)]
        found = [*self.shape["forgetting"]["topics"], *own, f"{self.name}.dead.retried"]
        return [topic for topic in found if topic not in map(real, self.read)]

    @property
    def read(self) -> list[str]:
        """Topics that hold what is personal as others wrote it."""
        return [topic for topic in self.personal if not from_files(topic)]

    def read_of(self, kind: str) -> list[str]:
        """Those of them that hold a kind of subject."""
        return [topic for topic in self._holding(kind) if not from_files(topic)]

    def files_of(self, kind: str) -> list[str]:
        """Files that do, in words."""
        sources = self.shape["sources"]
        return [sources[topic]["filled_by"] for topic in self._holding(kind) if from_files(topic)]

    def _holding(self, kind: str) -> list[str]:
        several = self.personal.items()
        return [topic for topic, of in several if any(each["subject"] == kind for each in of)]

    @property
    def elsewhere(self) -> list[str]:
        """Outputs that are not on this machine, in words."""
        embedded = self.settings.postgres is None
        here = {"PostgreSQL"} if embedded else set()
        here |= {"views"} if embedded or self.settings.views == "sqlite" else set()
        others = self.shape["forgetting"]["others"]
        return [each["text"] for each in others if not here & set(each["needs"])]

    def subject_columns(self, kind: str, *, sealed: bool = False) -> set[str]:
        """Columns that tell a subject, readable, or personal themselves."""
        given = [p for of in self.personal.values() for p in of if p["subject"] == kind]
        return {each["by"] for each in given if (each["by"] in each["columns"]) == sealed}

    def keyed_by(self, kind: str, *, sealed: bool = False) -> list[str]:
        """Compacted topics whose key is the subject."""
        columns = self.subject_columns(kind, sealed=sealed)
        tables = self.shape["forgetting"]["tables"]
        return [topic for topic, key in tables.items() if len(key) == 1 and key[0] in columns]

    def files(self, also: tuple[Path, ...]) -> Iterator[tuple[str, AnyPath]]:
        """What was written to files, and what it is."""
        home, name = self.settings.home, self.name
        yield "checkpoint and state", self.settings.checkpoint_of(name)
        yield "logs, status, shuffle and spill", self.settings.run_of(name)
        if self.settings.keys is None:
            yield "keys", Path(place_of(self.settings, name).address)
        yield "views", home
        yield "indexes", home / "indexes"
        yield "database", home / "postgres"
        for topic in self.written:
            yield from (("broker", each) for each in _segments(home, topic))
            archive = TopicArchive(self.settings.archive_root, topic)
            if archive.exists():
                yield "archive", archive.folder
        for each in self.shape["forgetting"]["paths"]:
            yield "output", Path(each)
        yield from (("as asked", each) for each in also)


def _segments(home: Path, topic: str) -> Iterator[Path]:
    """The folders of a topic's partitions, if the broker is the embedded one."""
    found = (home / "kafka" / "data").glob(f"{topic}-*")
    yield from (each for each in found if each.name.removeprefix(f"{topic}-").isdigit())


def under(what: str, place: AnyPath) -> Iterator[AnyPath]:
    """The files of a place."""
    if isinstance(place, FarPath):
        yield from (place / inside for inside, _ in place.files())
    elif what == "views":  # a file of the home, its log, and its index of shared memory
        yield from place.glob("views.sqlite*")
    elif what == "broker":  # indexes hold numbers, in files that are large and empty
        yield from sorted(place.glob("*.log"))
    elif place.is_dir():
        # folders of a running application may go while they are walked through
        for folder, _, names in os.walk(place):
            yield from (Path(folder) / name for name in sorted(names))
    else:
        # a database has its log beside it
        yield from (each for each in place.parent.glob(f"{place.name}*") if each.is_file())


def kept_for(settings: Settings, client: dict[str, str], topic: str) -> str:
    """How long records of a topic stay, in words."""
    found = _retention(client, topic)
    archived = TopicArchive(settings.archive_root, topic).exists()
    return f"{found}, its archive for as long as its files are there" if archived else found


def _retention(client: dict[str, str], topic: str) -> str:
    found = admin.settings(client, topic)
    if "delete" not in found.get("cleanup.policy", "delete"):
        return "until a record of the same key comes, or for ever"
    kept = int(found.get("retention.ms", "-1"))
    return "for ever" if kept < 0 else duration_text(kept * 1000)
