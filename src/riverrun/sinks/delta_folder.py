"""Delivery to Delta tables, exactly once: one commit of the table per batch, that names the batch.

The batch's number is the version of an application transaction in the same commit. A batch that
comes again finds it there, and is skipped.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, RemoveAction

from riverrun import schema
from riverrun.arguments import checked
from riverrun.errors import ConfigError, caller
from riverrun.kernels import sql
from riverrun.outputs import (
    Delivery,
    Destination,
    Evaluator,
    Guarantee,
    OutputSpec,
    Owner,
    Places,
    Renewal,
    Sink,
    Standing,
    Swapped,
)
from riverrun.schema import quoted
from riverrun.sinks.folders import Folder, arrow_schema, require_staged, shaped, shown
from riverrun.sinks.journal import HOME, Batch, Journal
from riverrun.versions import Version

KEY = b"riverrun.key"
SIGN = "__change"
"""The column of a staged change that says whether its key is put there or taken away."""


@dataclass(frozen=True)
class Delta(Sink):
    """A Delta table in a folder."""

    name: str
    folder: str

    @property
    def text(self) -> str:
        return f"Delta table in {self.folder}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "exactly once"

    def check(self, columns: schema.Schema, *, table: bool, where: object) -> None:
        """What it cannot hold is found when the table is made, before Spark starts."""

    def destination(self, places: Places) -> Destination:
        return DeltaFolder(self)

    def beside(self, version: Version) -> Delta:
        name, folder = (version.with_dashes(each) for each in (self.name, self.folder))
        return replace(self, name=name, folder=folder)

    def owns(self) -> str:
        return self.folder


@checked
def delta(folder: str | os.PathLike[str]) -> Delta:
    """A Delta table in a folder: rows of a stream are appended, a table is kept as a table."""
    at = caller()
    return Delta(f"delta:{shown(folder, at)}", os.path.abspath(folder))


class DeltaFolder(Folder):
    """A stream is appended; a table is kept as a table."""

    def __init__(self, sink: Delta) -> None:
        super().__init__(sink.folder)

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        super().prepare(outputs)
        (output,) = outputs
        wanted = self._schema(output, sql.shared_evaluator())
        try:
            found = DeltaTable(self.folder).schema()
        except TableNotFoundError:
            self._create(wanted)
        else:
            self._compare(_types(found), _types(wanted))

    def _schema(self, output: OutputSpec, evaluator: Evaluator) -> Schema:
        arrow = arrow_schema(output, evaluator, signed=True)
        return Schema([self._field(field) for field in arrow])

    def _field(self, field: pa.Field) -> Field:
        try:
            return Field.from_arrow(field)
        except Exception as error:  # it has no type of its own
            raise ConfigError(
                f"a Delta table cannot hold the column {field.name!r}",
                where=self.folder,
                got=str(field.type),
                hint="cast it, e.g. to text, with with_columns()",
            ) from error

    def _create(self, schema: Schema) -> None:
        others = [each.name for each in self.folder.iterdir() if each.name != HOME]
        if others:
            raise ConfigError(
                "the folder is neither empty nor a Delta table",
                where=self.folder,
                got=", ".join(sorted(others)[:3]),
                hint="choose another folder",
            )
        DeltaTable.create(self.folder, schema, mode="ignore")

    def _compare(self, found: dict[str, str], wanted: dict[str, str]) -> None:
        names = [*wanted, *(name for name in found if name not in wanted)]
        other = [name for name in names if found.get(name) != wanted.get(name)]
        if other:
            differing = [
                f"{name} is {found.get(name, 'missing')}, not {wanted.get(name, 'written')}"
                for name in other
            ]
            raise ConfigError(
                "the Delta table has other columns than the output",
                where=self.folder,
                got="; ".join(differing),
                hint="write to another folder, or select the columns that the table has",
            )

    def shaped(self, output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
        schema = arrow_schema(output, evaluator, signed=True)
        if not output.table:
            return shaped(rows, schema)
        made = shaped(_folded(output, rows, evaluator), schema.append(pa.field(SIGN, pa.int8())))
        return made.replace_schema_metadata({KEY: json.dumps(output.key)})

    def committed(self, checkpoint: str, noted: Batch | None) -> int:
        version = DeltaTable(self.folder).transaction_version(_application(checkpoint))
        return -1 if version is None else version

    def commit(self, journal: Journal, batch: Batch, noted: Batch | None) -> None:
        require_staged(journal, batch)
        if noted is not None and noted.batch == batch.batch:
            # moved in by a run that was killed before it could commit them
            for file in set(noted.files) - set(batch.files):
                (self.folder / file).unlink(missing_ok=True)
        journal.note(batch)
        staged = [journal.stage(batch.checkpoint, batch.batch, file) for file in batch.files]
        here = [file for file in staged if file.exists()]
        if here and SIGN in pq.read_schema(here[0]).names:
            _merge(DeltaTable(self.folder), here, _properties(batch))
        else:
            journal.move_in(batch)
            self._append(batch)

    def complete(self, journal: Journal, noted: Batch | None) -> None:
        """Nothing is left to do: the table's own commit is the last step."""

    @contextmanager
    def standing(self, output: OutputSpec, owner: Owner) -> Iterator[Standing]:
        """One version of the table."""
        table = DeltaTable(self.folder)
        version = table.transaction_version(_application(owner.checkpoint))
        found = table.to_pyarrow_dataset().to_batches(columns=list(output.schema.names))
        rows = (pa.Table.from_batches([each]) for each in found if each.num_rows)
        yield Standing(-1 if version is None else version, rows, whole=True)

    def _append(self, batch: Batch) -> None:
        table = DeltaTable(self.folder)
        added: list[AddAction | RemoveAction] = [_added(self.folder, file) for file in batch.files]
        table.create_write_transaction(
            added, "append", table.schema(), commit_properties=_properties(batch)
        )

    @contextmanager
    def renewal(self, output: OutputSpec, owner: Owner) -> Iterator[Renewal]:
        with duckdb.connect() as own:
            yield DeltaRenewal(self, output, owner, own)


class DeltaRenewal(Renewal):
    """Rows folded here, then one version of the table that has them in place of all files."""

    whole = True

    def __init__(
        self, to: DeltaFolder, output: OutputSpec, owner: Owner, own: duckdb.DuckDBPyConnection
    ) -> None:
        self.to, self.output, self.owner, self.own = to, output, owner, own
        self.journal = Journal(to.folder, owner.application)
        self.staged, self.note = (self.journal.home / name for name in ("rebuilt", "rebuilding"))
        self.told = 0

    def change(self, rows: pa.Table, evaluator: Evaluator) -> None:
        made = self.to.shaped(self.output, rows, evaluator)
        self.schema = pa.schema([field for field in made.schema if field.name != SIGN])
        self.own.register("made", made)
        into = "INSERT INTO told" if self.told else "CREATE TABLE told AS"
        self.own.execute(f"{into} SELECT *, {self.told}::BIGINT AS __place FROM made")
        self.own.unregister("made")
        self.told += 1

    @contextmanager
    def held(self) -> Iterator[int | None]:
        with self.journal.held(self.journal.run()):
            self._clear()
            yield self.to.committed(self.owner.checkpoint, None)

    def swap(self, tick: int) -> Swapped:
        table = DeltaTable(self.to.folder)
        before, added = table.to_pyarrow_dataset().count_rows(), list[AddAction | RemoveAction]()
        if self.told:
            name = f"rebuilt-{uuid.uuid4().hex}.parquet"
            rows = self._write()
            self.note.write_text(name)
            os.replace(self.staged, self.to.folder / name)
            added = [_added(self.to.folder, name)] if rows else []
        table.create_write_transaction(added, "overwrite", table.schema())
        self._clear()
        return Swapped(rows if self.told else 0, 0, before)

    def _write(self) -> int:
        key = ", ".join(map(quoted, self.output.key))
        last = f"row_number() OVER (PARTITION BY {key} ORDER BY __place DESC) AS __last"
        columns = ", ".join(map(quoted, self.schema.names))
        query = f"SELECT *, {last} FROM told"
        found = self.own.sql(f"SELECT {columns} FROM ({query}) WHERE __last = 1 AND {SIGN} > 0")
        count = 0
        reader: pa.RecordBatchReader = found.to_arrow_reader(100_000)
        with pq.ParquetWriter(self.staged, self.schema, compression="zstd") as file:
            for batch in reader:
                file.write_table(shaped(pa.Table.from_batches([batch]), self.schema))
                count += batch.num_rows
        return count

    def _clear(self) -> None:
        """What one that was killed has left: a file, or one that no version of the table has."""
        self.staged.unlink(missing_ok=True)
        if self.note.exists():
            file = self.to.folder / self.note.read_text()
            if file.name not in {
                Path(each).name for each in DeltaTable(self.to.folder).file_uris()
            }:
                file.unlink(missing_ok=True)
            self.note.unlink()


def _folded(output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
    """One change per key: a key's old and new row leave together, and the new one counts."""
    key = ", ".join(quoted(name) for name in output.key)
    order = "ORDER BY __op DESC, __revision DESC"
    return evaluator.run(
        f"SELECT *, __op AS {SIGN} FROM rows "
        f"QUALIFY row_number() OVER (PARTITION BY {key} {order}) = 1",
        rows=rows,
    )


def _merge(table: DeltaTable, staged: list[Path], properties: CommitProperties) -> None:
    files = ds.dataset([str(file) for file in staged], format="parquet")
    key = json.loads(files.schema.metadata[KEY])
    columns = [name for name in files.schema.names if name != SIGN]
    same = " AND ".join(f"(t.{quoted(name)} IS NOT DISTINCT FROM s.{quoted(name)})" for name in key)
    values = {quoted(name): f"s.{quoted(name)}" for name in columns}
    merge = table.merge(
        files.scanner().to_reader(),
        same,
        source_alias="s",
        target_alias="t",
        commit_properties=properties,
    )
    merge = merge.when_matched_delete(f"s.{SIGN} < 0").when_matched_update(values)
    merge.when_not_matched_insert(values, predicate=f"s.{SIGN} > 0").execute()


def _added(folder: Path, file: str) -> AddAction:
    facts, rows = (folder / file).stat(), pq.read_metadata(folder / file).num_rows
    stats = json.dumps({"numRecords": rows})
    return AddAction(file, facts.st_size, {}, int(facts.st_mtime * 1000), True, stats)


def _properties(batch: Batch) -> CommitProperties:
    transaction = Transaction(_application(batch.checkpoint), batch.batch)
    return CommitProperties(app_transactions=[transaction])


def _application(checkpoint: str) -> str:
    """A table takes one output of a program: the checkpoint says which batches are meant."""
    return f"riverrun:{checkpoint}"


def _types(schema: Schema) -> dict[str, str]:
    return {field.name: _type_text(field.type) for field in schema.fields}


def _type_text(type: Any) -> str:
    return str(getattr(type, "type", type)) if isinstance(type, PrimitiveType) else type.to_json()
