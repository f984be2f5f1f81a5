"""What a checkpoint holds of an application's state, read and rearranged by Spark's own means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from riverrun.errors import CheckpointError
from riverrun.far import AnyPath

SAID = 200
"""Characters of what Spark says."""


@dataclass(frozen=True)
class StoredState:
    """The state of a checkpoint after its last batch. It may go on meanwhile."""

    session: SparkSession
    query: AnyPath

    def __post_init__(self) -> None:
        # readers of state ask the part of Spark that is started with the first streaming query
        _ = self.session.streams.active

    def exchanges(self) -> dict[int, int]:
        """By the number of the exchange, into how many parts its state is cut."""
        found = self.session.read.format("state-metadata").load(str(self.query))
        with self._told():
            return {row["operatorId"]: row["numPartitions"] for row in found.collect()}

    def heads(self, exchange: int) -> dict[int, bytes]:
        """By page."""
        with self._told():
            rows = self._variable(exchange, "head").collect()
        return {row["key"]["page"]: bytes(row["value"]["data"]) for row in rows}

    def segments(self, exchange: int) -> Iterator[tuple[int, str, bytes]]:
        """Page, id and content."""
        found = self._variable(exchange, "segments")
        rows = found.select("key.page", "user_map_key.id", "user_map_value.data")
        with self._told():
            for row in rows.toLocalIterator():
                yield row["page"], row["id"], bytes(row["data"])

    def repartition(self, parts: int) -> None:
        """Adds a batch to the log that reads nothing, and has the state in so many parts."""
        manager: Any = self.session._streamingCheckpointManager
        with self._told():
            manager.repartition(str(self.query), parts)

    def _variable(self, exchange: int, name: str) -> DataFrame:
        reader = self.session.read.format("statestore").option("operatorId", exchange)
        return reader.option("stateVarName", name).load(str(self.query))

    def _told(self) -> _Told:
        return _Told(self.query)


@dataclass(frozen=True)
class _Told:
    """Spark's errors as ours."""

    query: AnyPath

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PySparkException):
            raise CheckpointError(
                "the state of the checkpoint cannot be read",
                where=self.query,
                got=str(error).splitlines()[0][:SAID],
                hint="was the application ever run to the end of a batch? Spark's log tells more",
            ) from error
