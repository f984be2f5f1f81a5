"""Class-data archives: what a JVM has loaded once, kept so that its next start takes half the time.

Java writes one as it ends, under a draft name; it is kept once the process is gone. From Java 25 on
it is an ahead-of-time cache, since the runtime from PyPI lacks the base that the older kind needs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from riverrun.embedded.java import Java

AHEAD_OF_TIME = 25
WRITE = {".jsa": "-XX:ArchiveClassesAtExit", ".aot": "-XX:AOTCacheOutput"}
READ = {".jsa": "-XX:SharedArchiveFile", ".aot": "-XX:AOTCache"}
IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""The archive is mapped where it was written for. Elsewhere every pointer in it would be changed as
the JVM starts, and each process would have a copy of the 170 MB for itself."""
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def location(java: Java, class_path: Sequence[Path], cache: Path) -> Path:
    """Where the archive of this Java with these jars is, or will be."""
    # The image of Java's own classes is another file after every upgrade, even under the same path.
    image = (java.home / "lib" / "modules").stat().st_mtime_ns
    stamp = f"{java.home} {image} {':'.join(map(str, class_path))}"
    kind = "aot" if java.version >= AHEAD_OF_TIME else "jsa"
    return cache / "classes" / f"{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.{kind}"


def draft_of(archive: Path) -> Path | None:
    """The name under which to write the archive; None when there is one already."""
    if archive.exists():
        return None
    archive.parent.mkdir(parents=True, exist_ok=True)
    return archive.with_name(f"{archive.name}.{os.getpid()}")


def options(archive: Path, draft: Path | None = None) -> list[str]:
    """The Java options that use the archive, or write the draft of it."""
    if draft is not None:
        return [*QUIET, f"{WRITE[archive.suffix]}={draft}"]
    if not archive.exists():
        return []
    placed = IN_PLACE if archive.suffix == ".jsa" else ()
    return [*QUIET, *placed, f"{READ[archive.suffix]}={archive}"]


def settle(draft: Path, *, whole: bool) -> None:
    """Make the draft the archive, if Java has come to write it to its end."""
    if whole and draft.exists():
        draft.chmod(0o644)  # no secret, and a cache may be shared
        draft.replace(draft.with_suffix(""))
    draft.unlink(missing_ok=True)
