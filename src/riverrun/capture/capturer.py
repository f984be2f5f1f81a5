"""What captures a database: it writes Debezium's envelopes of some tables to topics.

There are two kinds: riverrun's own process, which reads PostgreSQL's log, and Debezium on Kafka
Connect, for every other database and for those who have it. Commands and programs see this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

By = Literal["riverrun", "connect"]

Doing = Literal["starting", "snapshot", "streaming", "paused", "failed", "stopped"]
"""What a capture, or one of its tables, is at. `failed` has an error, and has lost nothing."""


@dataclass(frozen=True)
class TableState:
    """How far one table is."""

    table: str
    """With its schema: `public.users`."""
    topic: str
    doing: Doing
    rows: int = 0
    """Of the snapshot, written so far."""
    rows_expected: int | None = None
    """What the database estimates; None if it does not."""
    error: str | None = None

    @property
    def loaded(self) -> bool:
        """Whether its snapshot is complete: a program that joins it may begin."""
        return self.doing in ("streaming", "paused")


@dataclass(frozen=True)
class CaptureState:
    """How far a capture is: what `riverrun capture status` prints."""

    name: str
    database: str
    """Its address, without the password."""
    by: By
    doing: Doing
    tables: tuple[TableState, ...]
    slot: str | None = None
    position: str | None = None
    """How far its log is written to topics, as the database writes it: `0/16B3748`."""
    behind_bytes: int | None = None
    behind_seconds: float | None = None
    warning: str | None = None
    """Such as that the log which the slot keeps is about to fill the server's disk."""
    error: str | None = None


class Capturer(ABC):
    """Captures some tables of one database."""

    name: str
    """The first part of its topics' names; slot and publication have it too."""
    by: ClassVar[By]

    @abstractmethod
    def ensure(self, tables: Sequence[str]) -> None:
        """It runs, and captures these tables too. Those that are new are snapshot first."""

    @abstractmethod
    def state(self) -> CaptureState: ...

    @abstractmethod
    def pause(self) -> None:
        """Nothing is written until `resume`; the database keeps its log meanwhile."""

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def snapshot(self, table: str) -> None:
        """All rows of a table once more, while changes go on."""

    @abstractmethod
    def remove(self) -> None:
        """It ends, and the database keeps nothing for it: slot and publication are dropped.
        Topics stay."""

    @abstractmethod
    def stop(self) -> bool:
        """It ends, and goes on from there when it is started again; False if it did not run."""

    @abstractmethod
    def running(self) -> int | None:
        """The id of its process, if it runs on this machine."""

    def died(self) -> bool:
        """Whether its process has ended though nobody stopped it; `ensure` starts it again. What
        runs elsewhere is watched there."""
        return False
