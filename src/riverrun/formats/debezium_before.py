"""Rows as they were before an update, where Debezium's records tell it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from riverrun.formats.debezium import available, may_lack, read_rows
from riverrun.formats.debezium_values import Kind, kinds_in
from riverrun.formats.query import in_groups, run
from riverrun.schema import Schema

TOLD = "__told"
"""The columns that a record tells of the row before. One that the table did not have then, or a
large value that is not in the log, is none of them."""


def rows_before(texts: pa.ChunkedArray, columns: Schema) -> pa.Table:
    """The columns of what `Debezium` gives as BEFORE, and TOLD: none if it cannot be read."""
    lot = run(
        "SELECT left(text, line - 1) AS kinds, substr(text, line + 1) AS row "
        "FROM (SELECT text, strpos(text, chr(10)) AS line FROM lot)",
        lot=pa.table({"text": texts}),
    )
    coded = lot["kinds"].combine_chunks().dictionary_encode()
    kinds = list(map(kinds_in, coded.dictionary.to_pylist()))
    return in_groups(
        lot, coded.indices, lambda part, number: _rows(part["row"], columns, kinds[number])
    )


def _rows(texts: pa.ChunkedArray, columns: Schema, kinds: Mapping[str, Kind]) -> pa.Table:
    hinted = run(f"SELECT row, {may_lack('row')} AS hinted FROM lot", lot=pa.table({"row": texts}))
    rows, left_out = available(hinted, columns)
    found = read_rows(rows, columns, kinds)
    told = run(
        "SELECT CASE WHEN cause IS NULL THEN list_filter(json_keys(row), lambda x: NOT "
        "coalesce(list_contains(left_out, x), false)) ELSE [] END AS told FROM lot",
        lot=pa.table({"row": texts, "left_out": left_out, "cause": found["__cause"]}),
    )["told"]
    return found.drop_columns(["__cause"]).append_column(TOLD, told)
