"""What deliveries to folders of Parquet files share, exactly once.

Tasks write files that nobody sees yet. When all have, the driver notes the batch with its files:
that is the commit. Then it moves the files to where readers see them; a run that is killed before
it has moved them all is followed by one that moves the rest.
"""

from __future__ import annotations

import os
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riverrun.errors import ConfigError, JobError, Location, ProgramError
from riverrun.outputs import Destination, Evaluator, OutputSpec, Part, Rows
from riverrun.private import sync
from riverrun.schema import quoted
from riverrun.sinks.journal import Batch, Journal, compare, sync_names

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Receipt:
    """The files that a task has staged."""

    part: Part
    files: tuple[str, ...]
    rows: int
    checksum: int
    """A sum over rows: the same however tasks cut them."""


class Folder(Destination):
    """A folder that takes one output: what Parquet and Delta have in common."""

    def __init__(self, folder: str, partition_by: tuple[str, ...] = ()) -> None:
        self.folder, self.partition_by = Path(folder), partition_by

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                "the folder of an output cannot be made", where=self.folder, got=error.strerror
            ) from error

    def take_over(self, application: str, run: int) -> None:
        journal = Journal(self.folder, application)
        with journal.held(run):
            journal.note_run(run)
            for batch in journal.every_noted():
                self.complete(journal, batch)
            journal.clear()

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> Receipt:
        # one output, but a union comes by several ways
        shaped = pa.concat_tables(self.shaped(*each, evaluator) for each in found)
        checksum = checksum_of(shaped, evaluator)
        name = f"{part.checkpoint[:8]}-{part.batch:09d}-{part.task:05d}-{checksum:016x}.parquet"
        journal, files = Journal(self.folder, part.application), {}
        for folder, piece in _partitioned(shaped, self.partition_by):
            file = str(folder / name)
            files[file] = journal.stage(part.checkpoint, part.batch, file)
            _write(files[file], piece)
        sync_names(files.values(), journal.home)
        return Receipt(part, tuple(files), shaped.num_rows, checksum)

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        told: list[Receipt] = [receipt for receipt in receipts if receipt is not None]
        if not told:
            return
        part, now = told[0].part, _batch(batch, told)
        journal = Journal(self.folder, part.application)
        with journal.held(part.run):
            noted = journal.noted(part.checkpoint)
            done = self.committed(part.checkpoint, noted)
            if batch <= done:
                if batch < done or not part.keep_written:
                    compare(now, done, noted, self.folder)
                self.complete(journal, noted)
            else:
                self.commit(journal, now, noted)
            journal.clear(part.checkpoint, batch)

    @abstractmethod
    def shaped(self, output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
        """The rows as files hold them."""

    @abstractmethod
    def committed(self, checkpoint: str, noted: Batch | None) -> int:
        """The last batch of the checkpoint that is committed; -1 before the first."""

    @abstractmethod
    def commit(self, journal: Journal, batch: Batch, noted: Batch | None) -> None: ...

    @abstractmethod
    def complete(self, journal: Journal, noted: Batch | None) -> None:
        """Does what a run that was killed had left to do of the batch."""


def shown(folder: str | os.PathLike[str], at: Location) -> str:
    """The folder as it was given."""
    text = os.fspath(folder)
    if "://" in text or not text:
        raise ProgramError(
            "a folder is a path", where=at, got=text, hint="mount the store, and give its folder"
        )
    return os.path.normpath(text)


class Piece(NamedTuple):
    folder: Path
    rows: pa.Table


def _partitioned(rows: pa.Table, columns: tuple[str, ...]) -> Iterator[Piece]:
    """The rows of each folder, in order; its columns are in its name alone."""
    if not columns:
        yield Piece(Path(), rows)
        return
    numbered = rows.select(columns).append_column("__row", pa.array(np.arange(rows.num_rows)))
    groups = numbered.group_by(list(columns), use_threads=False).aggregate([("__row", "list")])
    kept = rows.drop_columns(list(columns))
    for group in groups.to_pylist():
        names = [f"{quote(name)}={_folder_text(group[name])}" for name in columns]
        yield Piece(Path(*names), kept.take(group["__row_list"]))


def _folder_text(value: Any) -> str:
    if value is None:
        return NULL_FOLDER
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe=" ")


def _write(file: Path, rows: pa.Table) -> None:
    """The whole file under its name; a call for the same part may run beside this one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{uuid.uuid4().hex}.tmp")
    pq.write_table(rows, temporary, compression="zstd")
    sync(temporary)
    os.replace(temporary, file)


def _batch(number: int, told: list[Receipt]) -> Batch:
    checksum = sum(receipt.checksum for receipt in told) % 2**64
    return Batch(
        told[0].part.checkpoint,
        number,
        sum(receipt.rows for receipt in told),
        f"{duckdb.__version__}:{checksum:016x}",
        tuple(sorted(file for receipt in told for file in receipt.files)),
    )


def require_staged(journal: Journal, batch: Batch) -> None:
    for file in batch.files:
        staged = journal.stage(batch.checkpoint, batch.batch, file)
        if not staged.exists() and not (journal.folder / file).exists():
            raise JobError(
                "a file that a task wrote is not there",
                where=staged,
                hint="the folder must be the same for the driver and all workers",
            )


def checksum_of(rows: pa.Table, evaluator: Evaluator) -> int:
    """A sum of hashes, which DuckDB makes quickly, but another version of it differently."""
    found = evaluator.run("SELECT sum(hash(rows)) AS checksum FROM rows", rows=rows)
    return int(found["checksum"][0].as_py() or 0) % 2**64


def arrow_schema(output: OutputSpec, evaluator: Evaluator, *, signed: bool = False) -> pa.Schema:
    """The columns of an output as files hold them; `signed` for formats without unsigned types."""
    columns = output.schema.columns
    nothing = ", ".join(f"CAST(NULL AS {each.type}) AS {quoted(each.name)}" for each in columns)
    found = evaluator.run(f"SELECT {nothing} WHERE false").schema
    return pa.schema([(field.name, _stored(field.type, signed)) for field in found])


def _stored(type: pa.DataType, signed: bool) -> pa.DataType:
    """Times are in UTC, texts plain."""
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", "UTC")
    if pa.types.is_dictionary(type):
        return type.value_type
    if signed and pa.types.is_unsigned_integer(type):
        wide = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return wide[type.bit_width]
    return _nested(type, signed) if pa.types.is_nested(type) else type


def _nested(type: pa.DataType, signed: bool) -> pa.DataType:
    if pa.types.is_struct(type):
        return pa.struct([(field.name, _stored(field.type, signed)) for field in type])
    if pa.types.is_map(type):
        return pa.map_(_stored(type.key_type, signed), _stored(type.item_type, signed))
    return pa.list_(_stored(type.value_type, signed))


def shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns as declared. Of times finer than a microsecond the rest is cut off."""
    return rows.select(schema.names).cast(schema, safe=False)
