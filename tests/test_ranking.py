"""Rankings at random, cut and restarted at random, against the same in DuckDB at once."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import riverrun as rr
from riverrun.testing import Driver
from test_join_oracle import balanced, few, mishaps, sql, told

places = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 9) | st.none(), st.booleans()), max_size=8
)


@few
@given(st.lists(places, min_size=3, max_size=9), st.integers(1, 3), mishaps)
def test_a_ranking_of_many_rows_is_that_of_all(batches, limit, mishaps):
    """More rows than are kept at hand, so that places are filled again from the rest."""
    app = rr.App("oracle", pages=1)
    table = app.table("t", schema="id bigint, v bigint", key="id").with_columns(k="id % 2")
    table.group_by("k").top(limit, by="v", place="place").to("top")
    table.group_by("k").bottom(limit, by="v").to("bottom")
    driver, rows = Driver(app), {}
    for number, batch in enumerate(batches):
        for key, value, gone in batch:
            driver.send("t", None if gone else {"id": key, "v": value}, key=str(key))
            rows.pop(key, None)
            rows |= {} if gone else {key: {"id": key, "v": value, "k": key % 2}}
        if number < len(mishaps) and mishaps[number]:
            getattr(driver, mishaps[number])()
        balanced(driver.batch())
        schema = {"id": pl.Int64, "v": pl.Int64, "k": pl.Int64}
        all_rows = pl.DataFrame(list(rows.values()), schema=schema)
        for name, order, columns in (
            ("top", "v DESC NULLS LAST", ("id", "k", "place")),
            ("bottom", "v NULLS LAST", ("id", "k")),
        ):
            place = f"row_number() OVER (PARTITION BY k ORDER BY {order}, id) AS place"
            ranked = f"SELECT *, {place} FROM t QUALIFY place <= {limit}"
            wanted = sql(f"SELECT {', '.join(columns)} FROM ({ranked})", t=all_rows)
            assert told(driver.table(name), columns) == wanted
