"""The history of deployments of an application: one file that is only added to."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from riverrun import private
from riverrun.config import Settings, named
from riverrun.errors import InputError
from riverrun.runtime import checkpoint, runs
from riverrun.runtime.applications import application
from riverrun.versions import CURRENT, Version

FOLDER = "deployments"

Event = Literal["deployed", "retired", "promoted"]


@dataclass(frozen=True)
class Entry:
    """A line of the history."""

    event: Event
    version: str
    at: str
    by: str
    """Who, and on which machine."""
    file: str = ""
    """The program."""
    sha256: str = ""
    """Of the program's file as it was then."""
    start: str = ""
    """From where it began: a time, `beginning`, `state`, or empty for where the program says."""
    made: list[dict[str, str]] = field(default_factory=list)
    """What is its own, to be removed with it."""
    place: dict[str, int] = field(default_factory=dict)
    """Of the input, from which on it is public, where it was promoted."""


@dataclass(frozen=True)
class Deployment:
    """A version that was deployed, and what has become of it."""

    entry: Entry
    state: str
    """As of applications (`running`, `stopped` …), `replaced` by another deployment of the same
    version, `retired`, or `gone`, without a checkpoint."""
    public: bool = False
    """Whether its results are those that others read."""
    since: dict[str, int] = field(default_factory=dict)
    """Of the input, from where on, if it was promoted."""

    def as_dict(self) -> dict[str, Any]:
        facts = asdict(self.entry)
        facts["from"] = facts.pop("start")
        del facts["event"], facts["place"]
        return {**facts, "state": self.state, "public": self.public, "since": self.since}


def note(settings: Settings, of: str, entry: Entry) -> None:
    """Adds a line, for good."""
    private.folder(settings.home / FOLDER)
    with private.opened(_file(settings, of), "a") as file:
        # behind one that was cut off, a line of its own; others may add theirs at the same time
        file.write("" if _text_of(_file(settings, of))[-1:] in ("", "\n") else "\n")
        file.write(json.dumps(asdict(entry)) + "\n")
        file.flush()
        os.fsync(file.fileno())


def deployed(version: Version, program: Path, **facts: Any) -> Entry:
    file = str(program.absolute())
    return Entry("deployed", version.name, _now(), _who(), file, _digest(program), **facts)


def changed_since(entry: Entry) -> bool:
    """Whether the file is not what was deployed."""
    return _digest(Path(entry.file)) != entry.sha256


def _digest(program: Path) -> str:
    return hashlib.sha256(program.read_bytes()).hexdigest()


def retired(version: Version) -> Entry:
    return Entry("retired", version.name, _now(), _who())


def promoted(settings: Settings, version: Version, place: dict[str, int]) -> None:
    """Noted once, however often it is said."""
    last = _last_promoted(settings, version.of)
    if last is None or (last.version, last.place) != (version.name, place):
        entry = Entry("promoted", version.name, _now(), _who(), place=place)
        note(settings, version.of, entry)


def _last_promoted(settings: Settings, of: str) -> Entry | None:
    found = [each for each in entries(settings, of) if each.event == "promoted"]
    return found[-1] if found else None


def entries(settings: Settings, of: str) -> list[Entry]:
    found = []
    for line in _text_of(_file(settings, of)).splitlines():
        with suppress(json.JSONDecodeError):  # cut off by a full disk or a power cut: never noted
            found.append(Entry(**json.loads(line)))
    return found


def _text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def standing(settings: Settings, version: Version) -> Entry | None:
    """The last deployment of a version that is not retired."""
    found = entries(settings, version.of)
    mine = [e for e in found if e.version == version.name and e.event != "promoted"]
    return mine[-1] if mine and mine[-1].event == "deployed" else None


def require(settings: Settings, version: Version) -> Entry:
    found = standing(settings, version)
    if found is None:
        there = versions(settings, version.of)
        raise InputError(
            f"there is no version {version.name!r} of {version.of!r}",
            hint=f"there is {', '.join([CURRENT, *there])}"
            if there
            else "`riverrun deploy` makes one",
        )
    return found


def versions(settings: Settings, of: str) -> list[str]:
    """Those that are deployed and not retired."""
    names = dict.fromkeys(each.version for each in entries(settings, of))
    return [name for name in names if standing(settings, Version(of, name))]


def deployments(settings: Settings, of: str) -> Iterator[Deployment]:
    """The current one first, if it has run here, then all that ever were, in their order."""
    last = _last_promoted(settings, of)
    public, since = (last.version, last.place) if last else (CURRENT, {})
    if (current := _current(settings, of)) is not None:
        yield replace(current, public=public == CURRENT, since=since if public == CURRENT else {})
    found = [each for each in entries(settings, of) if each.event != "promoted"]
    for number, entry in enumerate(found):
        if entry.event == "deployed":
            later = [each for each in found[number + 1 :] if each.version == entry.version]
            state = _state(settings, Version(of, entry.version), later)
            mine = entry.version == public and state not in ("replaced", "retired")
            yield Deployment(entry, state, mine, since if mine else {})


def _current(settings: Settings, of: str) -> Deployment | None:
    folder = settings.checkpoint_of(of)
    if not checkpoint.known(folder):
        return None
    run = runs.last(folder)
    at = "" if "started_at" not in run else _text(run["started_at"])
    entry = Entry("deployed", CURRENT, at, run.get("host") or "", run.get("program") or "")
    return Deployment(entry, application(settings, of).state)


def _state(settings: Settings, version: Version, later: list[Entry]) -> str:
    if later:
        return "replaced" if later[0].event == "deployed" else "retired"
    if not checkpoint.known(settings.checkpoint_of(version.application)):
        return "gone"  # somebody has deleted its checkpoint
    return application(settings, version.application).state


def _file(settings: Settings, of: str) -> Path:
    return settings.home / FOLDER / f"{named(of)}.jsonl"


def _who() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
