"""Records against what an application declares, by the code that reads them there.

The query of a source is planned once: of small lots planning is what is slow. A plan that is not
optimized takes its input anew each time, and is as quick on large ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa

from riverrun.formats import keys
from riverrun.formats.json import Json
from riverrun.formats.query import in_order, run
from riverrun.kafka.records import columns_of
from riverrun.kernels.arrivals import LATEST, TICK, arrival, demands
from riverrun.kernels.program import ReadTopic
from riverrun.schema import Schema, quoted
from riverrun.server.ingest.bodies import Fault
from riverrun.times import ProcessingTime

FAR = 1 << 62


@dataclass(frozen=True)
class Sent:
    """A record as it will be in the topic."""

    number: int
    value: bytes
    received: int
    """Milliseconds."""


class Checker:
    """Of one application's source. It is used by one thread."""

    def __init__(self, source: ReadTopic) -> None:
        assert isinstance(source.format, Json)
        self.format: Json = source.format
        try:
            self._plan(source)
        except duckdb.Error:  # its time calls a function of the program's own
            self._plan(replace(source, time=ProcessingTime(), metadata=frozenset()))

    def _plan(self, source: ReadTopic) -> None:
        self.source, self.key = source, key_of(source)
        self.connection = in_order()
        self.connection.execute("PRAGMA disable_optimizer")
        self.connection.register("given", self._lot([]))
        self.connection.execute(
            "CREATE TABLE lot AS SELECT *, 0::BIGINT AS __tick, 0::BIGINT AS __latest FROM given"
        )
        query = arrival(source).replace(TICK, "__tick").replace(LATEST, "__latest")
        ahead = "__ahead" if source.max_ahead is not None and self._timed else "NULL AS __ahead"
        wanted = ", ".join(["__cause", ahead, *map(quoted, self.key.names)])
        self.connection.execute(f"PREPARE checked AS SELECT {wanted} FROM ({query})")

    @property
    def _timed(self) -> bool:
        return not isinstance(self.source.time, ProcessingTime)

    def check(self, records: Sequence[Sent]) -> tuple[list[bytes | None], list[Fault]]:
        """The key of each record, and all that is wrong with any."""
        lot, tick = self._lot(records), time.time_ns() // 1000
        latest = tick + (self.source.max_ahead or FAR - tick)
        self.connection.execute("DELETE FROM lot")
        self.connection.register("given", lot)
        self.connection.execute("INSERT INTO lot SELECT *, $1, $2 FROM given", [tick, latest])
        found = self.connection.sql("EXECUTE checked").to_arrow_table()
        causes = [
            cause or ahead
            for cause, ahead in zip(
                found["__cause"].to_pylist(), found["__ahead"].to_pylist(), strict=True
            )
        ]
        bad = [place for place, cause in enumerate(causes) if cause is not None]
        faults = [*self._faults(records, bad, causes)] if bad else []
        return self._keys(found), faults

    def _keys(self, rows: pa.Table) -> list[bytes | None]:
        if not self.key.columns:
            return [None] * rows.num_rows
        table = bool(self.source.table_key)
        if keys.plain(self.key) and not table:
            written = rows[self.key.names[0]]
        else:
            written = self.format.encode_key(rows, self.key, table=table)
        return written.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]

    def _faults(
        self, records: Sequence[Sent], bad: list[int], causes: Sequence[str | None]
    ) -> Iterator[Fault]:
        """All that is wrong with those that are: the first cause is known, others are asked for."""
        source, lot = self.source, self._lot([records[place] for place in bad])
        wrong = self.format.causes(source.fields)
        listed = [
            f"CASE WHEN json_valid(__text) THEN {cause} END AS {quoted(name)}"
            for name, cause in wrong.items()
        ]
        relation = self.format.relation(source.fields, source.table_key)
        # a CASE is worked out in its order, unlike AND
        valid = "CASE WHEN json_valid(__text) THEN json_type(__text) = 'OBJECT' ELSE false END"
        misfits = run(f"SELECT {valid}, {', '.join(listed)} FROM ({relation})", lot=lot)
        unmet = run(demands(source), lot=lot)["__unmet"].to_pylist()
        by_row = zip(*(column.to_pylist() for column in misfits.columns), strict=True)
        for place, (fits, *columns), lacks in zip(bad, by_row, unmet, strict=True):
            named = dict(zip(wrong, columns, strict=True))
            all_of = _all(named, lacks) if fits else []
            number, first = records[place].number, causes[place]
            if first is not None and first not in [cause for _, cause in all_of]:
                all_of.append((None, first))
            yield from (Fault(number, column, cause) for column, cause in all_of)

    def _lot(self, records: Sequence[Sent]) -> pa.Table:
        """As a reader of the topic has them; those who write never give a key of their own."""
        many = len(records)
        lot = columns_of(
            {
                "__value": [each.value for each in records],
                "__key": [None] * many,
                "__timestamp": [each.received for each in records],
                "__offset": range(many),
            },
            [None] * many,
        ).append_column("__partition", pa.array([0] * many, pa.int32()))
        return self.format.prepared(lot, self.source.fields, self.source.table_key)


def key_of(source: ReadTopic) -> Schema:
    """The columns that a record's key is made of."""
    names = source.table_key or ((source.key,) if source.key in source.fields.names else ())
    return source.fields.only(tuple(name for name in names if name is not None))


def _all(named: dict[str, str | None], lacks: list[dict[str, Any]]) -> list[tuple[str | None, str]]:
    """Columns that do not fit, and what is missing: a time that does not fit is not missing too."""
    found: list[tuple[str | None, str]] = [(n, cause) for n, cause in named.items() if cause]
    wrong = {column for column, _ in found}
    found += [
        (each["column"], each["cause"])
        for each in lacks
        if each["column"] and each["column"] not in wrong
    ]
    return found
