"""The folder of a capture: what is asked of it, how far it is, its log."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from riverrun import private
from riverrun.capture.capturer import By, CaptureState, TableState
from riverrun.config import Settings, named

COMMAND = (sys.executable, "-c", "from riverrun.capture.main import main; main()")


@dataclass(frozen=True)
class Wish:
    """What is asked of a capture. Its file is for its owner only: it may hold passwords."""

    name: str
    tables: tuple[str, ...] = ()
    database: str | None = field(default=None, repr=False)
    """None for the embedded server, wherever it listens."""
    brokers: str | None = None
    """None for the embedded broker."""
    kafka: dict[str, str] = field(default_factory=dict, repr=False)
    paused: bool = False
    snapshots: dict[str, int] = field(default_factory=dict)
    """How often a further snapshot of a table was asked for."""
    partitions: int = 4
    """Of topics that are made."""
    compaction_lag: int = 86_400_000
    """Of those that are compacted, in milliseconds."""
    by: By = "riverrun"


@dataclass(frozen=True)
class Files:
    """The paths of one capture's folder. Its own is the mark by which its process is known."""

    folder: Path

    @property
    def wish_file(self) -> Path:
        return self.folder / "capture.json"

    @property
    def log(self) -> Path:
        return self.folder / "capture.log"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def command(self) -> list[str]:
        return [*COMMAND, str(self.folder)]

    def wish(self) -> Wish | None:
        found = _read(self.wish_file)
        return Wish(**{**found, "tables": tuple(found["tables"])}) if found else None

    def ask(self, wish: Wish) -> None:
        private.folder(self.folder)
        private.replace(self.wish_file, json.dumps(asdict(wish)))

    def change(self, **changes: Any) -> None:
        wish = self.wish()
        assert wish is not None
        self.ask(replace(wish, **changes))

    def pid(self) -> int | None:
        return (_read(self.folder / "process.json") or {}).get("pid")

    def note_pid(self, pid: int | None) -> None:
        private.replace(self.folder / "process.json", json.dumps({"pid": pid}))

    def state(self) -> CaptureState | None:
        found = _read(self.folder / "state.json")
        if found is None:
            return None
        tables = tuple(TableState(**each) for each in found["tables"])
        return CaptureState(**{**found, "tables": tables})

    def forget_state(self) -> None:
        """What a process that is gone has told."""
        (self.folder / "state.json").unlink(missing_ok=True)

    def tell(self, state: CaptureState) -> None:
        private.replace(self.folder / "state.json", json.dumps(asdict(state)))

    def last_lines(self, count: int = 8) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n    ".join(["", *lines[-count:]]) if lines else "nothing was logged"

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def files_of(settings: Settings, name: str) -> Files:
    # Resolved, so that the mark of the process is the same however the folder is reached.
    return Files((settings.home / "captures" / named(name)).resolve())


def all_files(settings: Settings) -> list[Files]:
    folder = (settings.home / "captures").resolve()
    with suppress(FileNotFoundError):
        return [Files(each) for each in sorted(folder.iterdir()) if Files(each).wish()]
    return []


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return found
