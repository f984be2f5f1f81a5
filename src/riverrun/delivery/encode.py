"""Rows of an output as records in its format, or as lines for people and tests."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import exact
from riverrun.formats import JSON, keys
from riverrun.formats.json_types import object_of
from riverrun.formats.known import NESTED
from riverrun.outputs import Evaluator, OutputSpec
from riverrun.schema import METADATA, Schema, schema_of

EPOCH = datetime(1970, 1, 1)
Line = dict[str, Any]


def records(output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> pa.Table:
    """`key`, `value` and `timestamp` (ms) as written to Kafka; a deleted row has a null value."""
    rows, key, value = output.format.written(
        rows, output.schema, key_of(output), table=output.table
    )
    if not output.table:
        headers = ", __headers AS headers" if "__headers" in rows.column_names else ""
        time = "epoch_ms(__at) AS timestamp"
        query = f"SELECT {key} AS key, {value} AS value, {time}{headers} FROM rows"
        return evaluator.run(query, rows=rows)
    if pc.min(rows["__op"]).as_py() > 0:
        # nothing is taken back: each key is there once
        query = f"SELECT {key} AS key, {value} AS value, NULL::BIGINT AS timestamp FROM rows"
        return evaluator.run(query, rows=rows)
    # a key's old and new row leave together: only the new one is written
    query = (
        f"SELECT {key} AS key, any_value({value}) FILTER (__op > 0) AS value, "
        "NULL::BIGINT AS timestamp FROM rows GROUP BY key"
    )
    return evaluator.run(query, rows=rows)


def lines(output: OutputSpec, rows: pa.Table, evaluator: Evaluator) -> list[Line]:
    """Rows for people and tests, each with the place it takes in the defined order."""
    key = keys.as_json(key_of(output))
    order = "[window_us, 0, 0]" if output.table else "[epoch_us(__at), __pos, __sub]"
    as_json = [c.name for c in output.schema.columns if c.type == "JSON"]
    nested = as_json if output.format == NESTED else ()
    query = (
        f"SELECT {key} AS key, {object_of(output.schema.names, nested)} AS value, "
        f"{'__op' if output.table else 1} AS op, "
        f"{'__revision' if output.table else 'NULL'} AS revision, {order} AS place "
        "FROM rows"
    )
    found = evaluator.run(query, rows=JSON.shown(rows).append_column("window_us", _starts(rows)))
    return [_line(output, row) for row in found.to_pylist()]


def _starts(rows: pa.Table) -> pa.ChunkedArray | pa.Array:
    """When the windows of rows begin, if they are rows of windows."""
    if "window_start" in rows.column_names and pa.types.is_timestamp(rows["window_start"].type):
        return rows["window_start"].cast(pa.int64()).fill_null(0)
    return pa.array([0] * rows.num_rows, pa.int64())


def _line(output: OutputSpec, row: dict[str, Any]) -> Line:
    line: Line = {
        "output": output.name,
        "op": "+" if row["op"] > 0 else "-",
        "key": exact.loads(row["key"]) if row["key"] is not None else None,
        "value": exact.loads(row["value"]),
    }
    if output.table:
        line["revision"] = row["revision"]
    line["place"] = (row["place"], row["key"] or "", line["op"] != "-")
    return line


def ordered(found: list[Line], *, timed: bool = False) -> list[Line]:
    """A batch's lines by output; facts by time and position, changes by window, key, `-` first.
    `timed` shows when facts happened."""
    ranked = sorted(found, key=lambda line: (line["output"], line["place"]))
    if timed:
        ranked = [line if "revision" in line else {**line, "time": _time(line)} for line in ranked]
    return [{name: item for name, item in line.items() if name != "place"} for line in ranked]


def _time(line: Line) -> str | None:
    """As records have it; None for what Python's calendar does not know."""
    at = line["place"][0][0]
    try:
        return f"{(EPOCH + timedelta(microseconds=at)).isoformat()}Z"
    except (TypeError, OverflowError):
        return None


def key_of(output: OutputSpec) -> Schema:
    """A key may be a column that is not written, such as Kafka's own key."""
    known = {column.name: column.type for column in output.schema.columns}
    return schema_of([(name, known.get(name) or dict(METADATA)[name]) for name in output.key])
