"""The folder of the embedded broker: settings, data, logs, and what is remembered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from riverrun.embedded.ports import LOOPBACK
from riverrun.embedded.remembered import Remembered

PROPERTIES = """# Written by riverrun at every start.
process.roles=broker,controller
node.id=1
listeners=CLIENT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=CLIENT://{host}:{port}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@{host}:{controller}
log.dirs={data}

# One node: nothing to replicate, nobody to wait for.
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
group.share.assignment.interval.ms=0
group.share.min.record.lock.duration.ms=1000
group.share.max.record.lock.duration.ms=3600000
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=8388608
log.cleaner.backoff.ms=2000
num.network.threads=2
num.io.threads=4

# After a kill -9 the node has to outwait its own old session before it serves again.
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000

# A misspelt topic is an error, as on a well-kept cluster; and replayed records with timestamps of
# last year are not swept away by the default retention.
auto.create.topics.enable=false
log.retention.ms=-1
"""

LOGGING = """status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %m (%c)%n
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
"""


@dataclass(frozen=True)
class State:
    """What is remembered between commands. `pid` is None while the broker is down."""

    port: int
    controller: int
    pid: int | None = None
    archive_draft: str | None = None


@dataclass(frozen=True)
class Files:
    """The paths of one broker's folder."""

    folder: Path

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "logs" / "server.log"

    @property
    def console(self) -> Path:
        return self.folder / "logs" / "console.log"

    @property
    def logging(self) -> Path:
        return self.folder / "log4j2.properties"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def cluster(self) -> str | None:
        """The id that the data folder was formatted with; None if it was not, or not to the end."""
        meta = self.data / "meta.properties"
        text = meta.read_text(errors="replace") if meta.is_file() else ""
        found = re.search(r"^cluster\.id=(\S+)$", text, re.MULTILINE)
        return found[1] if found else None

    def read_state(self) -> State | None:
        return Remembered(self.state, State).read()

    def write_state(self, state: State) -> None:
        Remembered(self.state, State).write(state)

    def write_settings(self, state: State) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        ports = {"port": state.port, "controller": state.controller}
        self.properties.write_text(PROPERTIES.format(host=LOOPBACK, data=self.data, **ports))
        self.logging.write_text(LOGGING.format(log=self.log))

    def last_lines(self, count: int = 12) -> str:
        """The end of what the broker wrote, or of what Java did when it did not get that far."""
        texts = [f.read_text(errors="replace") for f in (self.log, self.console) if f.exists()]
        lines = [line for text in texts for line in text.splitlines()[-count:]]
        return "\n    ".join(["", *lines]) if lines else "nothing was logged"
