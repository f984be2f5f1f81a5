"""Times as ISO 8601 text, whole columns at a time."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

SECOND = "%Y-%m-%dT%H:%M:%S"


def with_texts(rows: pa.Table) -> pa.Table:
    """Timestamps, also in lists and structs, as ISO 8601 text. `__at` stays: it is not written."""
    for place, field in enumerate(rows.schema):
        if field.name != "__at" and _timed(field.type):
            rows = rows.set_column(place, field.name, texts(rows[field.name].combine_chunks()))
    return rows


def _timed(type: pa.DataType) -> bool:
    if pa.types.is_struct(type):
        return any(_timed(field.type) for field in type)
    listed = pa.types.is_list(type) or pa.types.is_large_list(type)
    return _timed(type.value_type) if listed else pa.types.is_timestamp(type)


def texts(times: pa.Array) -> pa.Array:
    """Times, or lists and structs of them."""
    if pa.types.is_struct(times.type):
        names = [field.name for field in times.type]
        fields = [each if not _timed(each.type) else texts(each) for each in times.flatten()]
        return pa.StructArray.from_arrays(fields, names=names, mask=times.is_null())
    if not pa.types.is_timestamp(times.type):
        values = texts(times.values)
        return type(times).from_arrays(times.offsets, values, mask=times.is_null())
    coded = times.dictionary_encode()  # windows repeat: each distinct time is written once
    return _instants(coded.dictionary).take(coded.indices)


def _instants(times: pa.Array) -> pa.Array:
    """Distinct times share their seconds, and their fractions: each of those is written once."""
    if times.type.unit != "us":
        return pc.replace_substring(pc.strftime(times, f"{SECOND}Z"), ".000000Z", "Z")
    whole = pc.floor_temporal(times, unit="second")
    seconds = whole.cast(pa.timestamp("s", times.type.tz)).dictionary_encode()
    fractions = pc.subtract(times.cast(pa.int64()), whole.cast(pa.int64())).dictionary_encode()
    digits = pc.utf8_lpad(fractions.dictionary.cast(pa.string()), 6, "0")
    written = pc.binary_join_element_wise(".", digits, "Z", "")
    endings = pc.if_else(pc.equal(fractions.dictionary, 0), "Z", written)
    beginnings = pc.strftime(seconds.dictionary, SECOND)
    return pc.binary_join_element_wise(
        beginnings.take(seconds.indices), endings.take(fractions.indices), ""
    )
