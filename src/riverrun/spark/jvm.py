"""Options of the JVM that Spark's driver runs in."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from riverrun import private

JVM = " ".join(
    (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "-XX:InitialHeapSize=48m -XX:MinHeapSize=16m",
        "-XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 -XX:-ShrinkHeapInSteps",
    )
)
"""The JVM moves few fat rows: the optimising compiler and the parallel collector only cost. When it
is asked to collect everything, at rest, what is free goes back to the system."""

SOCKETS = "sockets"
"""A link to the folder of connections."""

LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def log_option(folder: Path) -> str:
    file = folder / "log4j2.properties"
    private.write(file, LOG4J)
    return f"-Dlog4j2.configurationFile={file}"


def temporary_option(folder: Path) -> str:
    """Where libraries are unpacked. A JVM that was killed leaves them, and the files of its
    shuffles: they go now."""
    shutil.rmtree(folder / "work", ignore_errors=True)
    return f"-Djava.io.tmpdir={private.folder(folder / 'work' / 'tmp')}"


def socket_folder(folder: Path) -> Path:
    """Where connections to Python workers are. Their paths may have 107 characters and no more, so
    it is none of ours, but ours knows it; that of a run that was killed goes now."""
    remove_sockets(folder)
    made = Path(tempfile.mkdtemp(prefix="riverrun-"))
    (folder / SOCKETS).symlink_to(made)
    return made


def remove_sockets(folder: Path) -> None:
    link = folder / SOCKETS
    if link.is_symlink():
        shutil.rmtree(link.readlink(), ignore_errors=True)
        link.unlink()
