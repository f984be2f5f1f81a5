"""The folder of the embedded Kafka Connect: settings, plugins, secrets, logs, memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from riverrun import private
from riverrun.embedded.kafka_files import LOGGING
from riverrun.embedded.ports import LOOPBACK
from riverrun.embedded.remembered import Remembered

# Topics of Connect itself have the broker's own number of replicas. After a kill -9 the new worker
# does not wait for the old one to come back: there is only one.
PROPERTIES = """# Written by riverrun at every start.
bootstrap.servers={brokers}
group.id=riverrun-connect
listeners=http://{host}:{port}
rest.advertised.host.name={host}
rest.advertised.port={port}
plugin.path={plugins}
plugin.discovery=service_load
exactly.once.source.support=enabled
scheduled.rebalance.max.delay.ms=0
session.timeout.ms=6000
heartbeat.interval.ms=1500
task.shutdown.graceful.timeout.ms=10000

config.storage.topic=riverrun.connect.configs
offset.storage.topic=riverrun.connect.offsets
status.storage.topic=riverrun.connect.status
config.storage.replication.factor=-1
offset.storage.replication.factor=-1
status.storage.replication.factor=-1
offset.storage.partitions=1
status.storage.partitions=1

key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false

# Passwords of databases are read from files, so that neither topics nor answers hold them.
config.providers=file
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.file.param.allowed.paths={secrets}
"""


@dataclass(frozen=True)
class State:
    """What is remembered between commands. `pid` is None while Connect is down."""

    port: int
    brokers: str
    pid: int | None = None
    archive_draft: str | None = None


@dataclass(frozen=True)
class Files:
    """The paths of one worker's folder."""

    folder: Path

    @property
    def properties(self) -> Path:
        return self.folder / "worker.properties"

    @property
    def plugins(self) -> Path:
        return self.folder / "plugins"

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    @property
    def log(self) -> Path:
        return self.folder / "logs" / "connect.log"

    @property
    def console(self) -> Path:
        return self.folder / "logs" / "console.log"

    @property
    def logging(self) -> Path:
        return self.folder / "log4j2.properties"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    def read_state(self) -> State | None:
        return Remembered(self.state, State).read()

    def write_state(self, state: State) -> None:
        Remembered(self.state, State).write(state)

    def write_settings(self, state: State) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        private.folder(self.secrets)
        places = {"plugins": self.plugins, "secrets": self.secrets}
        self.properties.write_text(
            PROPERTIES.format(host=LOOPBACK, port=state.port, brokers=state.brokers, **places)
        )
        self.logging.write_text(LOGGING.format(log=self.log))

    def write_plugins(self, plugins: Mapping[str, Iterable[Path]]) -> None:
        """A folder per plugin: each sees its own jars, which differ in version, and no other's."""
        shutil.rmtree(self.plugins, ignore_errors=True)
        for name, jars in plugins.items():
            (self.plugins / name).mkdir(parents=True)
            for jar in jars:
                os.symlink(jar, self.plugins / name / jar.name)

    def last_lines(self, count: int = 12) -> str:
        """The end of what Connect wrote, or of what Java did when it did not get that far."""
        texts = [f.read_text(errors="replace") for f in (self.log, self.console) if f.exists()]
        said = [[x for x in text.splitlines() if not x.startswith("\tat ")] for text in texts]
        lines = [line for each in said for line in each[-count:]]
        return "\n    ".join(["", *lines]) if lines else "nothing was logged"
