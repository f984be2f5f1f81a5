"""The Java side of the embedded broker: its command line, and the formatting of its data folder."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from riverrun.config import Settings
from riverrun.embedded import class_archive, jars, java
from riverrun.embedded.kafka_files import Files
from riverrun.errors import ServerError

MEMORY = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Jvm:
    """A Java with the broker's class path."""

    java: java.Java
    class_path: Sequence[Path]
    archive: Path

    def command(self, options: Sequence[str], main: Sequence[str]) -> list[str]:
        path = ":".join(map(str, self.class_path))
        return [str(self.java.executable), *MEMORY, *options, "-cp", path, *main]

    def server(self, files: Files, draft: Path | None) -> list[str]:
        """The broker. The path of its settings is the mark by which its process is known."""
        options = [
            *class_archive.options(self.archive, draft),
            f"-Dlog4j2.configurationFile={files.logging}",
            f"-XX:ErrorFile={files.folder}/logs/java-error-%p.log",
        ]
        return self.command(options, ["kafka.Kafka", str(files.properties)])


def find(settings: Settings) -> Jvm:
    runtime, class_path = java.find(settings.cache), jars.fetch("broker", settings)
    archive = class_archive.location(runtime, class_path, settings.cache)
    return Jvm(runtime, class_path, archive)


def prepare(files: Files, jvm: Jvm) -> None:
    """Format the data folder, unless it already is formatted."""
    if files.cluster is not None:
        return
    held = next(_records(files.data), None)
    if held is not None:
        raise ServerError(
            "the broker's data folder holds records, but not its meta.properties",
            where=files.data,
            got=f"records in {held.parent.name}",
            hint="restore meta.properties, or move the folder away to start empty",
        )
    shutil.rmtree(files.data, ignore_errors=True)
    _format(files, jvm)


def _records(data: Path) -> Iterator[Path]:
    return (file for file in data.glob("*/*.log") if file.stat().st_size > 0)


def _format(files: Files, jvm: Jvm) -> None:
    tool = ["kafka.tools.StorageTool", "format", "-t", _new_id(), "-c", str(files.properties)]
    command = jvm.command(class_archive.options(jvm.archive), tool)
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        shutil.rmtree(files.data, ignore_errors=True)
        raise ServerError(
            "the broker's data folder cannot be formatted",
            where=files.data,
            got=(answer.stderr + answer.stdout).strip()[-1500:],
        )


def _new_id() -> str:
    """A cluster's id as Kafka writes it: a random UUID in base 64."""
    first, *rest = uuid.uuid4().bytes
    # The top bit is cleared: an id that began with a dash would be taken for an option.
    return urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")
