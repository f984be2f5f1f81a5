"""What Debezium tells of transactions: which one a change is part of, and what each has done.

Its ids are those of the database, with PostgreSQL followed by the place of the operation in the
log, which is another one in each record of a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.formats.debezium import OWN, SHAPE, Debezium
from riverrun.formats.format import Format
from riverrun.formats.json import Json, texts_of
from riverrun.formats.query import run
from riverrun.schema import Schema, parse

TRANSACTION, TURN = "__transaction", "__turn"
"""Of a change: its transaction, and its place among all changes of that."""

BOUNDARIES = parse(
    "status string, id string, ts_ms timestamp_ms, "
    "data_collections struct(data_collection string, event_count bigint)[]"
)
"""What a record of the transactions' topic holds."""


def same_transaction(id: str) -> str:
    """The part of an id that all records of a transaction have, as an expression."""
    postgresql = f"regexp_full_match({id}, '[0-9]+:[0-9]+')"
    return f"CASE WHEN {postgresql} THEN split_part({id}, ':', 1) ELSE {id} END"


class DebeziumInTransactions(Debezium):
    """Envelopes with the transaction that they are part of (`provide.transaction.metadata`)."""

    marks: ClassVar[Mapping[str, str]] = {
        **Debezium.marks,
        TRANSACTION: "VARCHAR",
        TURN: "BIGINT",
    }
    shape: ClassVar[Mapping[str, Any]] = {
        **SHAPE,
        "transaction": {"id": "VARCHAR", "total_order": "BIGINT"},
    }
    beside: ClassVar[Mapping[str, str]] = {
        **OWN,
        TRANSACTION: same_transaction("e.transaction.id"),
        TURN: "e.transaction.total_order",
    }


class Boundaries(Format):
    """Where transactions begin and end, with or without a schema part."""

    name = "debezium transactions"
    time = "ts_ms"

    def decode(self, records: pa.Table, columns: Schema, *, key: tuple[str, ...] = ()) -> pa.Table:
        inside = run(
            "SELECT CASE WHEN json_valid(text) THEN "
            "coalesce(json_extract(text, '$.payload')::VARCHAR, text) ELSE text END AS __value "
            "FROM lot",
            lot=pa.table({"text": texts_of(records["__value"])}),
        )
        found = Json().read(inside, columns)
        if "__timestamp" not in records.column_names:
            return found
        recorded = records["__timestamp"].cast(pa.timestamp("ms")).cast(pa.timestamp("us"))
        place = found.column_names.index(self.time)
        return found.set_column(place, self.time, pc.coalesce(found[self.time], recorded))

    def encode(self, rows: pa.Table, columns: Schema) -> pa.Array:
        return Json().encode(rows, columns)
