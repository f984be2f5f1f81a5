"""What is told while the first batch has not come."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from riverrun.spark.progress import of_the_first_batch


@pytest.mark.parametrize(
    ("message", "available", "told"),
    [
        ("Initializing sources", False, None),
        ("Getting offsets from RiverrunSource", False, None),
        ("Processing new data", True, "the first batch takes its time"),
        ("Waiting for data to arrive", False, "there is nothing to read yet"),
        ("Waiting for next trigger", False, "there is nothing to read yet"),
    ],
)
def test_there_is_nothing_to_read_only_once_spark_has_looked(message, available, told):
    query = SimpleNamespace(status={"message": message, "isDataAvailable": available})
    news = of_the_first_batch(query)
    assert news is None if told is None else news.startswith(told)
