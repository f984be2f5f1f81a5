"""A folder of Parquet files: rows of a stream; of a table its changes. Exactly once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from riverrun.arguments import checked, names
from riverrun.errors import ConfigError, ProgramError, caller
from riverrun.kernels import sql
from riverrun.outputs import (
    Delivery,
    Destination,
    Evaluator,
    Guarantee,
    OutputSpec,
    Owner,
    Places,
    Sink,
    Standing,
)
from riverrun.schema import Schema, quoted
from riverrun.sinks.folders import Folder, arrow_schema, require_staged, shaped, shown
from riverrun.sinks.journal import Batch, Journal
from riverrun.versions import Version

CHANGE = ("change", "revision")
"""What files hold of a change beside its row: "+" or "-", and which version of its key it is."""

FOLDER_TYPES = r"VARCHAR|BOOLEAN|DATE|U?(TINY|SMALL|BIG)?INT(EGER)?"
"""Types of columns that can be the names of folders."""


@dataclass(frozen=True)
class Parquet(Sink):
    """A folder of Parquet files."""

    name: str
    folder: str
    partition_by: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        by = f", a folder for each {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"Parquet files in {self.folder}{by}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "exactly once"

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        visible = columns.visible
        taken = [name for name in CHANGE if name in visible] if table else []
        if taken:
            raise ProgramError(
                f"the column {taken[0]!r} is one that files of changes have themselves",
                where=where,
                hint="give it another name",
            )
        for name in self.partition_by:
            visible.require(name, where)
            if not re.fullmatch(FOLDER_TYPES, visible.type_of(name)):
                raise ProgramError(
                    f"folders cannot be named by {name!r}, which is {visible.type_of(name)}",
                    where=where,
                    hint="use text, a whole number, a boolean or a date, e.g. CAST(… AS DATE)",
                )
        if set(self.partition_by) >= set(visible.names):
            raise ProgramError(
                "no column is left for the files", where=where, got=self.partition_by
            )

    def destination(self, places: Places) -> Destination:
        return ParquetFolder(self)

    def beside(self, version: Version) -> Parquet:
        name, folder = (version.with_dashes(each) for each in (self.name, self.folder))
        return replace(self, name=name, folder=folder)

    def owns(self) -> str:
        return self.folder


@checked
def parquet(folder: str | os.PathLike[str], *, partition_by: str | Sequence[str] = ()) -> Parquet:
    """A folder of Parquet files, with a folder for each value of the columns `partition_by`."""
    at = caller()
    columns = names("partition_by", partition_by, 'partition_by="day"')
    return Parquet(f"parquet:{shown(folder, at)}", os.path.abspath(folder), columns)


class ParquetFolder(Folder):
    def __init__(self, sink: Parquet) -> None:
        super().__init__(sink.folder, sink.partition_by)

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        super().prepare(outputs)
        if (self.folder / "_delta_log").exists():
            raise ConfigError(
                "the folder holds a Delta table",
                where=self.folder,
                hint="write to it with rr.sinks.delta(…), or choose another folder",
            )

    def shaped(self, output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
        schema = arrow_schema(output, evaluator)
        if output.table:
            rows = _with_change(rows)
            schema = schema.append(pa.field(CHANGE[0], pa.string()))
            schema = schema.append(pa.field(CHANGE[1], pa.int64()))
        return shaped(rows, schema)

    def committed(self, checkpoint: str, noted: Batch | None) -> int:
        return noted.batch if noted else -1

    def commit(self, journal: Journal, batch: Batch, noted: Batch | None) -> None:
        require_staged(journal, batch)
        journal.note(batch)
        journal.move_in(batch)

    def complete(self, journal: Journal, noted: Batch | None) -> None:
        if noted is not None:
            journal.move_in(noted)

    @contextmanager
    def standing(self, output: OutputSpec, owner: Owner) -> Iterator[Standing]:
        """Files are moved in one by one: they are listed while none is. None changes later."""
        journal = Journal(self.folder, owner.application)
        with journal.held(journal.run()):
            noted, files = journal.noted(owner.checkpoint), self._files()
        rows: Iterator[pa.Table] = (self._read(output, file) for file in files)
        if output.table:
            # names have the batch; what another checkpoint has written was there before
            names = [file.name for file in files]
            places = [(name.startswith(owner.checkpoint[:8]), name[9:18]) for name in names]
            rows = iter([_folded(output, list(zip(places, rows, strict=True)))])
        yield Standing(noted.batch if noted else -1, rows, whole=True)

    def _files(self) -> list[Path]:
        found = (file.relative_to(self.folder) for file in self.folder.rglob("*.parquet"))
        seen = [each for each in found if not any(part.startswith("_") for part in each.parts)]
        return sorted(self.folder / each for each in seen)

    def _read(self, output: OutputSpec, file: Path) -> pa.Table:
        folders = ds.partitioning(
            pa.schema([(name, pa.string()) for name in self.partition_by]), flavor="hive"
        )
        found = ds.dataset(
            file, format="parquet", partitioning=folders, partition_base_dir=str(self.folder)
        )
        return found.to_table(columns=[*output.schema.names, *(CHANGE if output.table else ())])


def _folded(output: OutputSpec, parts: list[tuple[tuple[bool, str], pa.Table]]) -> pa.Table:
    """The rows that changes have left, as the last batch to tell of each key has them."""
    if not parts:
        return pa.table({name: pa.array([], pa.string()) for name in output.schema.names})
    places = sorted({place for place, _ in parts})
    numbered = [
        part.append_column("__batch", pa.array([places.index(place)] * part.num_rows, pa.int64()))
        for place, part in parts
    ]
    key, columns = (", ".join(map(quoted, each)) for each in (output.key, output.schema.names))
    last = f"PARTITION BY {key} ORDER BY __batch DESC, change = '+' DESC, revision DESC"
    return sql.shared_evaluator().run(
        f"SELECT {columns} FROM (SELECT *, row_number() OVER ({last}) AS __place FROM rows)"
        " WHERE __place = 1 AND change = '+'",
        rows=pa.concat_tables(numbered),
    )


def _with_change(rows: pa.Table) -> pa.Table:
    sign = pc.if_else(pc.greater(rows["__op"], 0), "+", "-")
    return rows.append_column(CHANGE[0], sign).append_column(CHANGE[1], rows["__revision"])
