"""A file, or a folder of files, that is asked for rows: CSV, JSON and Parquet.

It is read into memory when it is first asked, and again when it has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import duckdb
import pyarrow as pa

from riverrun.errors import DatabaseError
from riverrun.operators.lookups.database import (
    WHOLE,
    Answer,
    Away,
    DatabaseTable,
    Question,
    known_columns,
    one_line,
)
from riverrun.outputs import Need
from riverrun.schema import literal, nested, quoted

CSV = "read_csv({files}, header=true, union_by_name=true{more})"
JSON = "read_json({files}, union_by_name=true)"
PARQUET = "read_parquet({files}, union_by_name=true)"
READERS = {".csv": CSV, ".tsv": CSV, ".json": JSON, ".jsonl": JSON, ".ndjson": JSON,
           ".parquet": PARQUET}  # fmt: skip
"""By the end of a file's name."""
SAME = ("VARCHAR", "BOOLEAN", "DATE", "UUID")
"""Types of keys, beside whole numbers, that are looked for among values of the same type."""

Stamp = tuple[tuple[str, int, int], ...]
"""Names, times and sizes of files: when one of them is another, they are read again."""


@dataclass(frozen=True)
class FileTable(DatabaseTable):
    table: str
    path: Path

    kind = "file"

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def text(self) -> str:
        return f"the file {self.path.name}"

    def columns(self) -> dict[str, str]:
        found = _content(self._stamp()).types
        return {name: _plain(type) for name, type in found.items()}

    def unfit_key(self, column: str, type: str) -> str | None:
        found = self.columns()[column]
        texts = (type == "VARCHAR" or (type in WHOLE and found == "VARCHAR")) and self._texts()
        fits = texts or (found in WHOLE and type in WHOLE) or (found == type and type in SAME)
        return None if fits else f"it is {found} in the file"

    def rows(self, question: Question, keys: Sequence[tuple[str, ...]]) -> list[Answer]:
        content = _content(self._stamp())
        known_columns(content.types, (*question.on, *question.columns), self)
        asked = {f"k{n}": pa.array([key[n] for key in keys]) for n in range(len(question.on))}
        own = content.connection.cursor()
        own.register("asked", pa.table({"n": range(len(keys)), **asked}))
        found = own.sql(_query(question, content.types)).fetchall()
        return [Answer(row[0], tuple(row[1:])) for row in found]

    def needs(self) -> frozenset[Need]:
        return frozenset({"one machine"})

    def _texts(self) -> bool:
        """Whether values are texts as they stand, whatever they look like."""
        return all(READERS[Path(name).suffix.lower()] is CSV for name, _, _ in self._stamp())

    def _stamp(self) -> Stamp:
        try:
            files = sorted(self.path.iterdir()) if self.path.is_dir() else [self.path]
            known = [each for each in files if each.suffix.lower() in READERS]
            stats = [(str(each), each.stat()) for each in known]
        except OSError as error:
            raise Away(f"{self.path}: {error.strerror}") from error
        if not stats:
            raise DatabaseError(
                "a file to look up is CSV, JSON or Parquet",
                where=self.path,
                got="no such file" if self.path.is_dir() else self.path.suffix or "no suffix",
                hint=f"its name ends with one of {', '.join(READERS)}",
            )
        return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


@dataclass(frozen=True)
class _Content:
    connection: duckdb.DuckDBPyConnection
    types: dict[str, str]
    """Of the columns, as the files have them."""


@lru_cache(maxsize=8)
def _content(stamp: Stamp) -> _Content:
    """Files as a table `t` of texts, which databases give, too."""
    connection = duckdb.connect()
    connection.execute("SET threads=1; SET TimeZone='UTC'")
    try:
        described = connection.execute(f"DESCRIBE FROM {_reader(stamp)}").fetchall()
        types = {str(row[0]): str(row[1]) for row in described}
        whole = _reader(stamp, ", all_varchar=true")
        texts = (f"{_text(name, type)} AS {quoted(name)}" for name, type in types.items())
        connection.execute(f"CREATE TABLE t AS SELECT {', '.join(texts)} FROM {whole}")
    except duckdb.Error as error:
        raise Away(one_line(error)) from error
    return _Content(connection, types)


def _reader(stamp: Stamp, more: str = "") -> str:
    kinds = {READERS[Path(name).suffix.lower()] for name, _, _ in stamp}
    if len(kinds) > 1:
        raise DatabaseError(
            "the files of a folder to look up are of one kind", where=Path(stamp[0][0]).parent
        )
    files = f"[{', '.join(literal(name) for name, _, _ in stamp)}]"
    return kinds.pop().format(files=files, more=more)


def _text(name: str, type: str) -> str:
    column = quoted(name)
    if type == "BLOB":
        return f"hex({column})"
    return f"to_json({column})::VARCHAR" if nested(type) else f"{column}::VARCHAR"


def _plain(type: str) -> str:
    """Times are UTC, in microseconds."""
    return "TIMESTAMP" if type.startswith("TIMESTAMP") else type


def _query(question: Question, types: dict[str, str]) -> str:
    def same(number: int, name: str) -> str:
        mine, theirs = f"asked.k{number}", f"t.{quoted(name)}"
        if types[name] not in WHOLE:
            return f"{theirs} = {mine}"
        # a text that is no number is looked for as it stands
        numbers = (f"TRY_CAST({each} AS HUGEINT)" for each in (theirs, mine))
        return f"coalesce({' = '.join(numbers)}, {theirs} = {mine})"

    on = " AND ".join(same(number, name) for number, name in enumerate(question.on))
    cells = "".join(f", t.{quoted(name)}" for name in question.columns)
    return f"SELECT asked.n{cells} FROM asked JOIN t ON {on} ORDER BY asked.n"
