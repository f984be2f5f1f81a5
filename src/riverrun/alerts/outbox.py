"""The topic that holds all notifications of a step: from there they are sent, one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

from riverrun.alerts.channels import Channel
from riverrun.sinks.kafka.sink import Topic
from riverrun.versions import Version


@dataclass(frozen=True)
class Addressed:
    """A channel, and from which level on it is told."""

    level: int
    """0: from the beginning."""
    channel: Channel

    def wants(self, kind: str, level: int) -> bool:
        """Those of a level are told that it has come to them, and everything from then on."""
        return level == self.level > 0 if kind == "escalated" else level >= self.level

    @property
    def condition(self) -> str:
        """The same over the columns of notifications."""
        if self.level == 0:
            return "kind <> 'escalated'"
        return (
            f"CASE kind WHEN 'escalated' THEN level = {self.level} ELSE level >= {self.level} END"
        )


@dataclass(frozen=True)
class Outbox(Topic):
    channels: tuple[Addressed, ...] = field(default=(), repr=False)
    """Those that are sent what is in it."""
    step: str = ""
    keys: tuple[str, ...] = ()
    """The columns of groups."""

    def beside(self, version: Version) -> Topic:
        """Nobody is sent what is in it."""
        return Topic(version.topic(self.name), self.partitions)

    @property
    def text(self) -> str:
        names = ", ".join(each.channel.name for each in self.channels)
        return f"topic {self.name} (then {names})" if names else super().text
