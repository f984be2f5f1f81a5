"""The database's side of a capture by Debezium: what Connect does not do there, or cannot tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from riverrun.capture.connectors import Connector


@dataclass(frozen=True)
class Behind:
    """How far the log was read, and how much of it waits."""

    position: str | None = None
    bytes: int | None = None
    seconds: float | None = None
    warning: str | None = None


@dataclass(frozen=True)
class Described:
    """A table that can be captured."""

    name: str
    """With its schema, or its database."""
    rows: int | None
    """An estimate."""


class Side(ABC):
    """One connection to the database. Use it in a `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def described(self, tables: Sequence[str]) -> list[Described]:
        """Those tables; one that cannot be captured is an error."""

    @abstractmethod
    def prepare(self, connector: Connector) -> None:
        """What has to be there before the connector reads these tables."""

    @abstractmethod
    def ask_snapshot(self, connector: Connector, tables: Sequence[str]) -> None:
        """The connector reads all rows of these tables while changes go on."""

    @abstractmethod
    def behind(self, connector: Connector, offset: Mapping[str, Any]) -> Behind:
        """`offset` is what Connect has noted of the log."""

    @abstractmethod
    def drop(self, connector: Connector) -> None:
        """Nothing is kept there for the connector any more."""


def seconds_since(micros: float, now: float) -> float:
    return round(max(now - micros / 1e6, 0.0), 1)


def wish_for(tables: Sequence[str]) -> dict[str, object]:
    """Of a snapshot while changes go on, as Debezium wants to be asked."""
    patterns = [table.replace(".", r"\.") for table in tables]
    return {"data-collections": patterns, "type": "incremental"}
