"""Times as ISO 8601 text, whole columns at a time."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from riverrun.formats.nesting import changed, holds
from riverrun.formats.query import run

SECOND = "%Y-%m-%dT%H:%M:%S"


FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds: the years 1 to 9999."""


def with_texts(rows: pa.Table) -> pa.Table:
    """Timestamps, however deep, as ISO 8601 text. `__at` stays: it is not written."""
    for place, field in enumerate(rows.schema):
        if field.name != "__at" and holds(field.type, pa.types.is_timestamp):
            rows = rows.set_column(place, field.name, texts(rows[field.name].combine_chunks()))
    return rows


def texts(times: pa.Array) -> pa.Array:
    """Times, or what is made of them."""
    return changed(times, pa.types.is_timestamp, _texts)


def _texts(times: pa.Array) -> pa.Array:
    coded = times.dictionary_encode()  # windows repeat: each distinct time is written once
    known = coded.dictionary.cast(pa.timestamp("us")).cast(pa.int64())
    usual = pc.and_(pc.less_equal(FIRST, known), pc.less_equal(known, LAST))
    if pc.all(usual).as_py() is not False:
        return _instants(coded.dictionary).take(coded.indices)
    written = _instants(pc.if_else(usual, coded.dictionary, None))
    return pc.coalesce(written, _beyond(coded.dictionary)).take(coded.indices)


def _beyond(times: pa.Array) -> pa.Array:
    """Expressions may give times that ISO 8601 does not have."""
    iso = "format('{:04d}', year(x)) || strftime(x, '-%m-%dT%H:%M:%S.%fZ')"
    text = f"CASE WHEN isfinite(x) THEN replace({iso}, '.000000', '') ELSE x::VARCHAR END"
    found = run(
        f"SELECT {text} AS text FROM times", times=pa.table({"x": times.cast(pa.timestamp("us"))})
    )
    return found["text"].combine_chunks().cast(pa.string())


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
