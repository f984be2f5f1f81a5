"""What every format must hold: what is written is what is read, and a bad record harms no other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from riverrun.formats import Format, arrow_schema
from riverrun.schema import Schema, parse

NOON = datetime(2026, 1, 1, 12)
STRANGE = "Grüße, 世界 🌍\n\"'\\,\t;=|"

SAMPLES: dict[str, Sequence[Any]] = {
    "string": ("plain", STRANGE, " ", "null", "0"),
    "boolean": (True, False),
    "int": (0, -7, 2**31 - 1),
    "bigint": (0, -(2**53), 2**53),
    "double": (0.0, 0.1, -1e300),
    "decimal(9, 2)": (Decimal("1234567.89"), Decimal("-0.01")),
    "date": (date(2026, 2, 28), date(1969, 12, 31)),
    "timestamp": (NOON, NOON + timedelta(microseconds=5), datetime(1969, 12, 31, 23, 59, 59)),
    "string[]": (["a", "ü", STRANGE], []),
    "bigint[]": ([1, 2, 3], [0]),
    "struct(a bigint, b string)": ({"a": 1, "b": STRANGE}, {"a": 2, "b": None}),
    "map(string, bigint)": ([("a", 1), ("ü", 2)],),
}
"""Values of each type that a format may say it can."""

KEYS = (
    "a string", "a bigint", "a string, b bigint", "a timestamp", "a string[]",
    "a bigint[], b boolean",
)  # fmt: skip


class FormatContract(ABC):
    """Derive a class whose name begins with `Test`, and say what the format can."""

    types: Sequence[str] = tuple(SAMPLES)
    """Those of SAMPLES that come back as they were."""
    nulls = True
    """Whether a null comes back as one."""
    empty_text = True
    """Whether an empty text comes back as one, and not as null."""
    garbage: Sequence[bytes] = (b"\xff\xfe{", b"\x00")
    """Bytes that are no record of `text string, number bigint`."""

    @abstractmethod
    def format(self) -> Format:
        """A new one."""

    def test_a_value_of_each_type_comes_back_as_it_was(self) -> None:
        for type in self.types:
            columns = parse(f"v {type}, n bigint")
            rows = [{"v": value, "n": n} for n, value in enumerate(self._samples(type))]
            assert self._round(columns, rows) == self._typed(columns, rows), type

    def _samples(self, type: str) -> list[Any]:
        return [*SAMPLES[type], *([""] if type == "string" and self.empty_text else [])]

    def test_all_types_go_together(self) -> None:
        columns = parse(", ".join(f"c{n} {type}" for n, type in enumerate(self.types)))
        rows = [
            {f"c{n}": SAMPLES[type][turn % len(SAMPLES[type])] for n, type in enumerate(self.types)}
            for turn in range(5)
        ]
        assert self._round(columns, rows) == self._typed(columns, rows)

    def test_a_null_comes_back_as_one(self) -> None:
        if not self.nulls:
            return
        for type in self.types:
            columns = parse(f"v {type}, n bigint")
            rows = [{"v": None, "n": 1}, {"v": SAMPLES[type][0], "n": None}, {"v": None, "n": 2}]
            assert self._round(columns, rows) == self._typed(columns, rows), type

    def test_what_is_no_record_has_a_cause_and_harms_no_neighbour(self) -> None:
        columns, given = self._plain()
        for bad in self.garbage:
            mixed = [each for value in given for each in (value, bad)]
            found = self._read(mixed, columns)
            causes = found["__cause"].to_pylist()
            assert causes[::2] == [None] * len(given)
            assert all(causes[1::2]), f"{bad!r} is read as {found.to_pylist()[1]}"
            assert found.to_pylist()[::2] == self._read(given, columns).to_pylist()

    def test_a_record_without_a_value_deletes_from_a_table_and_is_none_of_a_stream(self) -> None:
        columns, given = self._plain()
        found = self._read([given[0], None, given[1]], columns)
        assert [cause is None for cause in found["__cause"].to_pylist()] == [True, False, True]
        found = self._read([given[0], None, given[1]], columns, key=("text",))
        assert found["__gone"].to_pylist() == [False, True, False]
        assert found["__cause"].null_count == 3

    def test_a_key_says_by_itself_what_it_is_the_key_of(self) -> None:
        for ddl in KEYS:
            columns = parse(ddl)
            names, types = columns.names, ddl.split(", ")
            rows = [
                dict(zip(names, row, strict=True)) for row in zip(*map(_of, types), strict=True)
            ]
            rows += [dict.fromkeys(names)]
            table = pa.Table.from_pylist(rows, schema=arrow_schema(columns))
            keys = self.format().encode_key(table, columns, table=True).cast(pa.binary())
            assert keys.null_count == 0
            read = self.format().decode_key(keys, columns)
            assert read.cast(table.schema).to_pylist() == table.to_pylist(), ddl

    def test_a_deleted_row_has_the_key_of_its_record(self) -> None:
        columns = parse("text string, number bigint")
        found = self._read([None], columns, key=("text",), keys=[b"ann"])
        assert found.to_pylist() == [
            {"text": "ann", "number": None, "__cause": None, "__gone": True}
        ]

    def test_any_cut_of_a_lot_gives_the_same(self) -> None:
        columns, given = self._plain()
        values = [*given, self.garbage[0], *given, None, *given]
        whole = self._read(values, columns, key=("text",)).to_pylist()
        for size in (1, 2, 3, len(values) - 1):
            parts = [values[at : at + size] for at in range(0, len(values), size)]
            found = [self._read(part, columns, key=("text",)).to_pylist() for part in parts]
            assert [row for part in found for row in part] == whole
        lot = _records(values, [b"k"] * len(values))
        sliced = self.format().read(lot.slice(2, 5), columns, ("text",))
        assert sliced.to_pylist() == whole[2:7]

    def test_records_that_come_in_pieces_stay_in_their_order(self) -> None:
        """Pieces of any size in one table, as partitions and fetches give them: what is read is put
        beside the records."""
        columns = parse("text string, number bigint")
        rows = [{"text": f"t{n}", "number": n} for n in range(300)]
        values = [None if n % 9 == 4 else v for n, v in enumerate(self._written(columns, rows))]
        lot = _records(values, [b"k"] * len(values))
        whole = self.format().read(lot, columns).to_pylist()
        for cuts in ((47, 123), (1, 70, 72, 299), (100, 101, 102)):
            edges = [*zip((0, *cuts), (*cuts, len(rows)), strict=True)]
            pieces = pa.concat_tables([lot.slice(start, end - start) for start, end in edges])
            assert self.format().read(pieces, columns).to_pylist() == whole

    def _plain(self) -> tuple[Schema, list[bytes | None]]:
        columns = parse("text string, number bigint")
        rows = [{"text": text, "number": n} for n, text in enumerate(("ann", "bob", "eve"))]
        return columns, self._written(columns, rows)

    def _written(self, columns: Schema, rows: list[dict[str, Any]]) -> list[bytes | None]:
        table = pa.Table.from_pylist(rows, schema=arrow_schema(columns))
        values: list[bytes | None] = (
            self.format().encode(table, columns).cast(pa.binary()).to_pylist()
        )
        return values

    def _round(self, columns: Schema, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = self._read(self._written(columns, rows), columns)
        assert found["__cause"].null_count == len(rows), found["__cause"].to_pylist()
        read: list[dict[str, Any]] = found.select(list(columns.names)).to_pylist()
        return read

    def _typed(self, columns: Schema, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """As Arrow has them."""
        table = pa.Table.from_pylist(rows, schema=arrow_schema(columns))
        found: list[dict[str, Any]] = table.to_pylist()
        return found

    def _read(
        self,
        values: Sequence[bytes | None],
        columns: Schema,
        *,
        key: tuple[str, ...] = (),
        keys: Sequence[bytes | None] | None = None,
    ) -> pa.Table:
        given = keys if keys is not None else [b"k" for _ in values]
        return self.format().read(_records(values, given), columns, key)


def _of(column: str) -> Sequence[Any]:
    return SAMPLES[column.partition(" ")[2]][:2]


def _records(values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> pa.Table:
    return pa.table(
        {"__value": pa.array(values, pa.binary()), "__key": pa.array(keys, pa.binary())}
    )
