"""The Java side of the embedded Kafka Connect: its command line, and the connectors in it."""

from __future__ import annotations

from pathlib import Path

from riverrun.config import Settings
from riverrun.embedded import class_archive, jars, java
from riverrun.embedded.connect_files import Files
from riverrun.embedded.kafka_jvm import Jvm

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
PLUGINS = ("debezium", "debezium-mariadb")
"""Groups of jars."""


def find(settings: Settings) -> Jvm:
    # Connect is built upon the client, logging and JSON that come with the broker.
    class_path = [*jars.fetch("broker", settings), *jars.fetch("connect", settings)]
    runtime = java.find(settings.cache)
    return Jvm(runtime, class_path, class_archive.location(runtime, class_path, settings.cache))


def plugins(settings: Settings) -> dict[str, list[Path]]:
    """The jars of each plugin."""
    return {group: jars.fetch(group, settings) for group in PLUGINS}


def worker(jvm: Jvm, files: Files, draft: Path | None) -> list[str]:
    """The worker. The path of its settings is the mark by which its process is known."""
    options = [
        *class_archive.options(jvm.archive, draft),
        f"-Dlog4j2.configurationFile={files.logging}",
        f"-XX:ErrorFile={files.folder}/logs/java-error-%p.log",
    ]
    return jvm.command(options, [MAIN, str(files.properties)])
