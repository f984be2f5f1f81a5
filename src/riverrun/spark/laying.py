"""One batch that puts other state in the place of a query's own: it reads nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from riverrun.sources.planning import Offset
from riverrun.spark.exchange import SegmentStore, page_state
from riverrun.spark.failures import translated
from riverrun.spark.source import ARROW_SCHEMA, CHUNK_SCHEMA

BATCH = "batch"
"""The file with the number of the batch, beside those with state."""
TASKS = 4
HEAD = ""
"""In place of a segment's id."""


def written(folder: Path, level: int, page: int, head: bytes, segments: dict[str, bytes]) -> None:
    """All that a page is to hold; nothing, if the head is empty."""
    items = [(HEAD, head), *segments.items()]
    columns = [[page] * len(items), [f"{level}/{name}" for name, _ in items], range(len(items)),
               [data for _, data in items]]  # fmt: skip
    arrays = [pa.array(c, f.type) for c, f in zip(columns, ARROW_SCHEMA, strict=True)]
    path = str(folder / f"{level:03d}-{page:06d}.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, ARROW_SCHEMA) as out:
        out.write_batch(pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA))


def lay(session: SparkSession, folder: Path, query: Path, *, levels: int, batch: int) -> None:
    """Runs the batch in a checkpoint: its number is one more than that of the last."""
    (folder / BATCH).write_text(str(batch))
    session.dataSource.register(LaidSource)
    chunks = session.readStream.format("riverrun state").option("folder", str(folder)).load()
    for level in range(levels):
        chunks = chunks.groupBy("page").transformWithState(
            Layer(level), CHUNK_SCHEMA, "Append", "None"
        )
    writer = chunks.writeStream.format("noop").option("checkpointLocation", str(query))
    with translated():
        writer.outputMode("append").trigger(availableNow=True).start().awaitTermination()


class LaidSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "riverrun state"

    def schema(self) -> str:
        return CHUNK_SCHEMA

    def streamReader(self, schema: StructType) -> LaidReader:
        return LaidReader(Path(self.options["folder"]))


@dataclass
class Files(InputPartition):
    paths: list[str]


class LaidReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def initialOffset(self) -> dict[str, Any]:
        return Offset({}).logged()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """There is one batch, whatever comes."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = Offset.of(start)
        if before.batch >= int((self.folder / BATCH).read_text()):
            return start
        return replace(before, batch=before.batch + 1, begins={}).logged()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Files]:
        paths = sorted(map(str, self.folder.glob("*.arrow")))
        return [Files(paths[number::TASKS]) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        for path in partition.paths:
            with pa.memory_map(path) as file, pa.ipc.open_stream(file) as found:
                yield from found


class Layer(StatefulProcessor):
    """Takes what is for its level, and lets the rest pass."""

    def __init__(self, level: int) -> None:
        self.level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.head, self.segments = page_state(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        cleared, store = False, SegmentStore(self.segments)
        for row in rows:
            level, _, name = row.edge.partition("/")
            if int(level) != self.level:
                yield row
                continue
            if not cleared:
                self.head.clear()
                self.segments.clear()
                cleared = True
            self._put(store, name, bytes(row.data))

    def _put(self, store: SegmentStore, name: str, data: bytes) -> None:
        if name != HEAD:
            store.put(name, data)
        elif data:
            self.head.update((data,))

    def close(self) -> None:
        pass
