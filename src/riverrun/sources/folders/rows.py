"""Rows of files as the values of records: JSON, whatever the file is.

A value that its column's type does not take is left as the text that it is, so that it is found
where all records are checked, and becomes a dead letter.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
from pyarrow import parquet

from riverrun.errors import InputError
from riverrun.kernels.sql import shared_evaluator
from riverrun.schema import Schema, literal, nested, quoted
from riverrun.sources.folders.lines import PIECE, contents, first_record, indexed, records

WHOLE = r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|TIMESTAMP_(S|MS|NS)"
FRACTIONS = r"FLOAT|DOUBLE|DECIMAL.*"
NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"
DELIMITERS = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson", ".json")
ENDINGS = (*DELIMITERS, *LINES, ".parquet")


def index(path: Path) -> tuple[int, list[int]]:
    """How many rows a file has, and what helps to find them."""
    ending = path.suffix.lower()
    if ending == ".parquet":
        return parquet.ParquetFile(path).metadata.num_rows, []
    return indexed(path, quoted=ending in DELIMITERS, header=ending in DELIMITERS)


def values(path: Path, places: list[int], start: int, end: int, schema: Schema) -> pa.Array:
    """The rows of a file from one to another, as JSON in bytes."""
    ending = path.suffix.lower()
    if ending == ".parquet":
        return _of_parquet(path, start, end, schema)
    texts = _texts(path, places, start, end, quoted=ending in DELIMITERS)
    if ending in DELIMITERS:
        return _of_csv(path, texts, DELIMITERS[ending], schema)
    return pa.array(texts, pa.binary())


def _texts(path: Path, places: list[int], start: int, end: int, *, quoted: bool) -> list[bytes]:
    first, last = start // PIECE, -(-end // PIECE)
    data = contents(path, places[first], places[last] if last < len(places) else None)
    found: list[bytes] = []
    for starts, ends in records(data, quoted=quoted):
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        found += [data[a:b].tobytes().rstrip(b"\r") for a, b in pairs]
    return found[start - first * PIECE : end - first * PIECE]


def _of_csv(path: Path, texts: list[bytes], delimiter: str, schema: Schema) -> pa.Array:
    header = first_record(path, quoted=True).decode("utf-8-sig", "replace").rstrip("\r")
    [names] = csv.reader([header], delimiter=delimiter)
    known = [each for each in schema.columns if each.name in names]
    cells = _quickly(texts, names, delimiter) or _one_by_one(texts, names, delimiter)
    row = _row((c.name, _from_text(quoted(c.name), c.type)) for c in known)
    wrong = "encode(__wrong)" if "__wrong" in cells.column_names else "NULL"
    query = f"SELECT coalesce({wrong}, encode({row})) AS v FROM cells"
    return shared_evaluator().run(query, cells=cells)["v"].combine_chunks()


def _row(columns: Iterable[tuple[str, str]]) -> str:
    """SQL for an object. It is put together as text: JSON of DuckDB's own rounds long numbers."""
    keys = [(literal(json.dumps(name, ensure_ascii=False) + ":"), value) for name, value in columns]
    parts = [f"{key} || coalesce(({value})::VARCHAR, 'null')" for key, value in keys]
    return " || ',' || ".join(parts).join(("'{' || ", " || '}'")) if parts else "'{}'"


def _quickly(texts: list[bytes], names: list[str], delimiter: str) -> pa.Table | None:
    """None if a row is not as the header says: then each is looked at by itself."""
    if len(set(names)) < len(names):
        return None
    try:
        found = arrow_csv.read_csv(
            pa.BufferReader(b"\n".join(texts) + b"\n"),
            read_options=arrow_csv.ReadOptions(column_names=names, block_size=1 << 28),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return found if found.num_rows == len(texts) else None


def _one_by_one(texts: list[bytes], names: list[str], delimiter: str) -> pa.Table:
    """A row that cannot be read is kept as it is, in `__wrong`."""
    made: dict[str, list[str | None]] = {name: [] for name in (*names, "__wrong")}
    for text in texts:
        line = text.decode(errors="replace")
        cells = next(csv.reader(io.StringIO(line), delimiter=delimiter), [])
        fits = len(cells) == len(names)
        row = {name: cell or None for name, cell in zip(names, cells, strict=False)} if fits else {}
        for name, column in made.items():
            column.append(row.get(name) if name != "__wrong" else None if fits else line)
    return pa.table({name: pa.array(column, pa.string()) for name, column in made.items()})


def _from_text(cell: str, type: str) -> str:
    """SQL for a cell of text as JSON."""
    as_text = f"to_json({cell})"
    if re.fullmatch(WHOLE, type):
        whole = f"regexp_full_match({cell}, '[+-]?\\d+')"
        return (
            f"CASE WHEN {whole} THEN coalesce(to_json(TRY_CAST({cell} AS HUGEINT)), {as_text}) "
            f"WHEN regexp_full_match({cell}, '{NUMBER}') THEN {cell} ELSE {as_text} END"
        )
    if re.fullmatch(FRACTIONS, type):
        is_number = f"regexp_full_match({cell}, '{NUMBER}')"
        return f"CASE WHEN {is_number} THEN {cell} ELSE {as_text} END"
    if type == "BOOLEAN":
        return f"coalesce(to_json(TRY_CAST({cell} AS BOOLEAN)), {as_text})"
    if nested(type):
        return f"CASE WHEN json_valid({cell}) THEN {cell} ELSE {as_text} END"
    return as_text


def _of_parquet(path: Path, start: int, end: int, schema: Schema) -> pa.Array:
    file = parquet.ParquetFile(path)
    known = [each for each in schema.columns if each.name in file.schema_arrow.names]
    names = [each.name for each in known]
    groups, first, before = list[int](), 0, 0
    for number in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(number).num_rows
        if before < end and before + size > start:
            first = before if not groups else first
            groups.append(number)
        before += size
    rows = file.read_row_groups(groups, columns=names).slice(start - first, end - start)
    types = dict(zip(names, map(str, rows.schema.types), strict=True))
    row = _row((c.name, _from_value(quoted(c.name), types[c.name], c.type)) for c in known)
    # a column that counts rows, since there may be no other
    rows = rows.append_column("__row", pa.array(range(rows.num_rows), pa.int64()))
    query = f"SELECT encode({row}) AS v FROM cells ORDER BY __row"
    return shared_evaluator().run(query, cells=rows)["v"].combine_chunks()


def _from_value(cell: str, type: str, wanted: str) -> str:
    """SQL for a typed value as JSON, in the form that records have it."""
    if type.startswith("timestamp"):
        if wanted in ("TIMESTAMP_MS", "TIMESTAMP_S"):
            divisor = 1_000 if wanted == "TIMESTAMP_MS" else 1_000_000
            return f"to_json(epoch_us({cell}::TIMESTAMP) // {divisor})"
        return f"to_json(strftime({cell}::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%fZ'))"
    if type in ("float", "double"):
        return (
            f"CASE WHEN isnan({cell}) THEN to_json('NaN') WHEN {cell} = 'inf' THEN "
            f"to_json('Infinity') WHEN {cell} = '-inf' THEN to_json('-Infinity') "
            f"ELSE to_json({cell}) END"
        )
    if type.startswith("decimal"):
        return f"{cell}::VARCHAR"
    if type.startswith(("binary", "large_binary", "fixed_size_binary")):
        return f"to_json(TRY(decode({cell}::BLOB)))"
    return f"to_json({cell})"


def same(path: Path, size: int, changed_at: int) -> None:
    """Refuses a file that is not the one whose rows were counted."""
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(
            "a file that is still to be read is gone", where=path, got=error.strerror,
            hint="put it back as it was, or start over with --fresh",
        ) from error  # fmt: skip
    if (found.st_size, found.st_mtime_ns) != (size, changed_at):
        raise InputError(
            "a file has changed after its rows were counted", where=path,
            got=f"{found.st_size} bytes, was {size}",
            hint="a file is put into the folder as a whole, and stays as it is: new rows are in a "
            "new file; put it back as it was, or start over with --fresh",
        )  # fmt: skip
