"""Rows as the text of records."""

from __future__ import annotations

import pyarrow as pa

from riverrun.formats.instants import texts


def test_times_are_iso_text_with_a_fraction_only_where_there_is_one():
    times = pa.array([0, 1_500_000, -1, None, 1_000_007, 1_500_000], pa.timestamp("us"))
    expected = [
        "1970-01-01T00:00:00Z", "1970-01-01T00:00:01.500000Z", "1969-12-31T23:59:59.999999Z",
        None, "1970-01-01T00:00:01.000007Z", "1970-01-01T00:00:01.500000Z",
    ]  # fmt: skip
    assert texts(times).to_pylist() == expected
    assert texts(times.cast(pa.timestamp("us", "UTC"))).to_pylist() == expected
