"""Class-data archives: what a JVM has loaded once, kept so that its next start takes half the time.

Java writes one as it ends, under a draft name; it is kept once the process is gone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from riverrun.embedded.java import Java

QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")


def location(java: Java, class_path: Sequence[Path], cache: Path) -> Path:
    """Where the archive of this Java with these jars is, or will be."""
    stamp = f"{java.home} {java.executable.stat().st_mtime_ns} {':'.join(map(str, class_path))}"
    return cache / "classes" / f"{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"


def draft_of(archive: Path) -> Path | None:
    """The name under which to write the archive; None when there is one already."""
    if archive.exists():
        return None
    archive.parent.mkdir(parents=True, exist_ok=True)
    return archive.with_name(f"{archive.name}.{os.getpid()}")


def options(archive: Path, draft: Path | None = None) -> list[str]:
    """The Java options that use the archive, or write the draft of it."""
    if draft is not None:
        return [*QUIET, f"-XX:ArchiveClassesAtExit={draft}"]
    return [*QUIET, f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def settle(draft: Path, *, whole: bool) -> None:
    """Make the draft the archive, if Java has come to write it to its end."""
    if whole and draft.exists():
        draft.replace(draft.with_suffix(""))
    draft.unlink(missing_ok=True)
