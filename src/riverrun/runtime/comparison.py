"""Two versions of a table: what the log says, or another version, and what stands. Both are kept on
disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from riverrun import exact
from riverrun.delivery.comparable import comparable, unlike
from riverrun.outputs import Evaluator, OutputSpec

MEMORY = "1GB"
RANGES = 16
JUDGED = 10_000
"""Pairs of rows that are looked at together."""

Kind = Literal["missing", "extra", "other"]


@dataclass(frozen=True)
class Difference:
    kind: Kind
    key: Any
    wanted: Any
    """The row by the log; None for one that should not be there."""
    found: Any
    """The row that stands."""
    columns: tuple[str, ...] = ()
    """Of a row that is another: the columns in which it differs."""


@dataclass(frozen=True)
class KeyRange:
    """A part of the table, by the order of its keys."""

    first: str
    last: str
    wanted: int
    found: int
    wanted_checksum: str
    found_checksum: str

    @property
    def same(self) -> bool:
        return (self.wanted, self.wanted_checksum) == (self.found, self.found_checksum)


@dataclass(frozen=True)
class InWindow:
    """How rows of one window differ."""

    window: str
    wanted: int
    found: int
    missing: int
    extra: int
    other: int


class Comparison:
    def __init__(self, output: OutputSpec, evaluator: Evaluator, folder: Path) -> None:
        self.output, self.evaluator = output, evaluator
        self.told = 0
        own = duckdb.connect(str(folder / "comparison.duckdb"))
        own.execute(f"SET memory_limit='{MEMORY}'; SET temp_directory='{folder / 'spilled'}'")
        own.execute("CREATE TABLE told (k VARCHAR, v VARCHAR, place BIGINT)")
        own.execute("CREATE TABLE taken (k VARCHAR, v VARCHAR, place BIGINT)")
        own.execute("CREATE TABLE stood (k VARCHAR, v VARCHAR)")
        self.own = own

    def close(self) -> None:
        self.own.close()

    def want(self, rows: pa.Table) -> None:
        """What a batch of the log tells: later ones replace. A key's old and new row come
        together, and the new one counts."""
        self._change("told", rows)

    def take(self, rows: pa.Table) -> None:
        """What a batch of the other version tells, in place of what stands."""
        self._change("taken", rows)

    def _change(self, table: str, rows: pa.Table) -> None:
        self.told += 1
        made = comparable(self.output, rows, self.evaluator)
        query = f"SELECT k, v, {self.told} FROM made"
        if self.output.table:
            query = f"SELECT k, any_value(v) FILTER (__op > 0), {self.told} FROM made GROUP BY k"
        self._insert(table, query, made)

    def expect(self, rows: pa.Table) -> None:
        """What stands elsewhere, in place of what the log tells."""
        made = comparable(self.output, rows, self.evaluator)
        self._insert("told", "SELECT k, v, 0 FROM made", made)

    def find(self, rows: pa.Table) -> None:
        """What stands."""
        made = comparable(self.output, rows, self.evaluator)
        self._insert("stood", "SELECT k, v FROM made", made)

    def _insert(self, table: str, query: str, made: pa.Table) -> None:
        self.own.register("made", made)
        self.own.execute(f"INSERT INTO {table} {query}")
        self.own.unregister("made")

    def compare(self) -> None:
        """A key that is there more often than it should be has a number: each counts for itself."""
        numbered = "row_number() OVER (PARTITION BY k ORDER BY v) AS n"
        self.own.execute(f"INSERT INTO stood {self._standing('taken')}")
        self.own.execute(
            "CREATE TABLE pairs AS SELECT coalesce(w.k, f.k) AS k, coalesce(w.n, f.n) AS n,"
            " w.v AS wanted, f.v AS found FROM"
            f" (SELECT k, v, {numbered} FROM ({self._standing('told')})) w FULL JOIN"
            f" (SELECT k, v, {numbered} FROM stood) f ON w.k = f.k AND w.n = f.n"
        )
        self._judge()

    def _standing(self, table: str) -> str:
        """What all that was told comes to."""
        if not self.output.table:
            return f"SELECT k, v FROM {table}"
        last = f"SELECT k, arg_max_null(v, place) AS v FROM {table} GROUP BY k"
        return f"SELECT * FROM ({last}) WHERE v IS NOT NULL"

    def _judge(self) -> None:
        """Rows that are written differently and say the same are the same."""
        written = "SELECT k, n, wanted, found FROM pairs WHERE wanted <> found"
        found = self.own.cursor().execute(written)
        while pairs := found.fetchmany(JUDGED):
            same = [(k, n) for k, n, one, other in pairs if not unlike(self.output, one, other)]
            if same:
                keys, numbers = zip(*same, strict=True)
                self.own.register("same", pa.table({"k": keys, "n": numbers}))
                self.own.execute(
                    "UPDATE pairs SET found = wanted FROM same"
                    " WHERE pairs.k = same.k AND pairs.n = same.n"
                )
                self.own.unregister("same")

    def counts(self) -> dict[str, int]:
        (found,) = self.own.execute(
            "SELECT {'wanted': count(wanted), 'found': count(found),"
            " 'missing': count(*) FILTER (found IS NULL),"
            " 'extra': count(*) FILTER (wanted IS NULL),"
            " 'other': count(*) FILTER (wanted <> found)} FROM pairs"
        ).fetchall()[0]
        return dict(found)

    def differences(self, limit: int) -> Iterator[Difference]:
        found = self.own.execute(
            "SELECT k, wanted, found FROM pairs WHERE wanted IS DISTINCT FROM found"
            " ORDER BY k, n LIMIT ?",
            [limit],
        )
        for key, wanted, stands in found.fetchall():
            kind: Kind = "missing" if stands is None else "extra" if wanted is None else "other"
            columns = unlike(self.output, wanted, stands) if kind == "other" else []
            one, other = (None if text is None else exact.loads(text) for text in (wanted, stands))
            yield Difference(kind, exact.loads(key), one, other, tuple(columns))

    def windows(self, column: str, limit: int) -> list[InWindow]:
        """Where rows differ, by a column that tells their window."""
        found = self.own.execute(
            "SELECT json_extract_string(coalesce(wanted, found), ?), count(wanted), count(found),"
            " count(*) FILTER (found IS NULL), count(*) FILTER (wanted IS NULL),"
            " count(*) FILTER (wanted <> found) FROM pairs GROUP BY 1"
            " HAVING count(*) FILTER (wanted IS DISTINCT FROM found) > 0 ORDER BY 1 LIMIT ?",
            [f'$."{column}"', limit],
        ).fetchall()
        return [InWindow(*each) for each in found]

    def ranges(self) -> list[KeyRange]:
        sums = ", ".join(
            f"count({side}), format('{{:016x}}', coalesce(sum(hash(k, {side}))"
            f" FILTER ({side} IS NOT NULL) % 18446744073709551616, 0)::UBIGINT)"
            for side in ("wanted", "found")
        )
        found = self.own.execute(
            f"SELECT min(k), max(k), {sums} FROM"
            f" (SELECT *, ntile({RANGES}) OVER (ORDER BY k) AS part FROM pairs)"
            " GROUP BY part ORDER BY part"
        ).fetchall()
        return [KeyRange(f, t, w, s, ws, fs) for f, t, w, ws, s, fs in found]
