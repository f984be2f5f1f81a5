"""The jars of the embedded servers: exactly the locked ones, fetched once per user and checked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from riverrun.config import Settings
from riverrun.embedded import ivy
from riverrun.embedded.lock import exclusive
from riverrun.errors import JarError


@dataclass(frozen=True)
class Jar:
    """One line of the lock file."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


@cache
def locked(group: str) -> tuple[Jar, ...]:
    """The jars of a group, in the order of the lock file."""
    groups = json.loads(resources.files(__package__).joinpath("jars.lock.json").read_text())
    if group not in groups:
        raise JarError(f"no group of jars is called {group!r}", hint=f"known: {', '.join(groups)}")
    return tuple(Jar(**entry) for entry in groups[group])


def fetch(group: str, settings: Settings) -> list[Path]:
    """The paths of a group's jars; those that are missing or damaged are downloaded first."""
    folder, jars = settings.cache / "jars", locked(group)
    if _Store(folder).lacking(jars):
        with exclusive(folder / ".lock"):
            _download(group, _Store(folder), settings)
    return [folder / jar.name for jar in jars]


def _download(group: str, store: _Store, settings: Settings) -> None:
    # Asked again under the lock: another process may have fetched them meanwhile.
    jars = store.lacking(locked(group))
    if not jars:
        return
    for left_behind in store.folder.glob(".fetch-*"):
        shutil.rmtree(left_behind, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=store.folder, prefix=".fetch-") as work:
        retrieved = ivy.retrieve(jars, Path(work), title=f"{group} jars", settings=settings)
        for jar in jars:
            _check(jar, retrieved / jar.name)
        for jar in jars:
            store.add(jar, retrieved / jar.name)
    store.save()


def _check(jar: Jar, file: Path) -> None:
    found = _sha256(file) if file.exists() else "no file"
    if found != jar.sha256:
        raise JarError(
            f"the jar {jar.name} is not the locked one",
            where=f"{jar.group}:{jar.artifact}:{jar.version}",
            got=f"sha256 {found}, expected {jar.sha256}",
            hint="a proxy or mirror may have changed it: try again, or set RIVERRUN_IVYSETTINGS to"
            " an ivysettings.xml of a source you trust",
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


class _Store:
    """The folder of checked jars. Stamps of size and time spare hashing 44 MB on every start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stamps = self._load()

    def lacking(self, jars: Iterable[Jar]) -> list[Jar]:
        before = dict(self.stamps)
        lacking = [jar for jar in jars if not self._has(jar)]
        if self.stamps != before:
            self.save()
        return lacking

    def add(self, jar: Jar, file: Path) -> None:
        target = self.folder / jar.name
        file.replace(target)
        self.stamps[jar.name] = _stamp(target, jar)

    def save(self) -> None:
        draft = self.folder / f".verified.{os.getpid()}"
        draft.write_text(json.dumps(self.stamps, indent=1))
        draft.replace(self.folder / "verified.json")

    def _has(self, jar: Jar) -> bool:
        file = self.folder / jar.name
        if not file.exists():
            return False
        if self.stamps.get(jar.name) == _stamp(file, jar):
            return True
        if _sha256(file) != jar.sha256:
            return False
        self.stamps[jar.name] = _stamp(file, jar)
        return True

    def _load(self) -> dict[str, str]:
        try:
            stamps: dict[str, str] = json.loads((self.folder / "verified.json").read_text())
        except (OSError, ValueError):
            return {}
        return stamps


def _stamp(file: Path, jar: Jar) -> str:
    status = file.stat()
    return f"{status.st_size} {status.st_mtime_ns} {jar.sha256}"
