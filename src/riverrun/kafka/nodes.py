"""Where brokers are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Node(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bootstrap(client: Mapping[str, str]) -> list[Node]:
    """The brokers of the settings."""
    found = []
    for each in client["bootstrap.servers"].split(","):
        host, _, port = each.strip().rpartition("://")[2].rpartition(":")
        found.append(Node(host.strip("[]") or port, int(port) if host else 9092))
    return found
