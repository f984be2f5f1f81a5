"""Sketches: answers within a known error, from state that does not grow with the input.

Distinct values are counted by DataSketches' HyperLogLog. The others are multisets kept small: the
frequent values of Misra and Gries, and the cells of a count-min sketch. DataSketches' own for these
give other bytes in every process (frequent items), or take 22 KB for a group of one row
(count-min).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import polars_hash as plh

from riverrun.errors import ProgramError
from riverrun.kernels import quantiles
from riverrun.kernels.hashes import mixed
from riverrun.kernels.multisets import GROUP, gathered, items, lengths, settled, summed

LG_K = 12
"""2^12 registers: a standard error of 1.04 / sqrt(4096), 1.6 %."""
FREQUENT = 1024
"""So many values are kept: a count is at most rows / 1025 too low."""
HASHES, BUCKETS = 5, 544
"""A count is at most rows * e / 544 (0.5 %) too high, with a confidence of 1 - exp(-5), 99.3 %."""

COUNTABLE: dict[str | None, Any] = {
    "VARCHAR": pl.String, "BOOLEAN": pl.Boolean, "DOUBLE": pl.Float64, "TINYINT": pl.Int8,
    "SMALLINT": pl.Int16, "INTEGER": pl.Int32, "BIGINT": pl.Int64,
}  # fmt: skip
"""Types whose values can be asked for."""

Shrink = Callable[[Any, Any], tuple[Any, Any]]


def _datasketches(where: object = None) -> Any:
    try:
        import datasketches  # noqa: PLC0415 - only programs with approx_distinct need it
    except ImportError as error:
        raise ProgramError(
            "approx_distinct needs the package datasketches, which is not installed",
            where=where,
            hint="install it (it has no build for Python 3.14 yet), or use rr.distinct",
        ) from error
    return datasketches


def refuse_without_datasketches(where: object) -> None:
    _datasketches(where)


def hashed_sql(value: str, type: str | None) -> str:
    """The value as it is hashed: text, a whole number or a double."""
    match type:
        case "BOOLEAN" | "TINYINT" | "SMALLINT" | "INTEGER" | "BIGINT":
            return f"{value}::BIGINT"
        case "FLOAT" | "DOUBLE":
            return f"{value}::DOUBLE"
        case "TIMESTAMP":
            # what has no end has no microseconds, either
            far = f"if({value} > 'epoch'::TIMESTAMP, {1 << 62}, {-1 << 62})"
            return f"coalesce(epoch_us({value}), {far})"
        case _:  # any other: told apart by its text
            return f"{value}::VARCHAR"


def hll_of_values(lists: pl.Series) -> pl.Series:
    """A sketch for each list of values."""
    library = _datasketches()

    def sketch(values: Sequence[Any]) -> bytes:
        made = library.hll_sketch(LG_K, library.HLL_8)
        for value in values:
            made.update(value)
        return bytes(made.serialize_compact())

    return pl.Series(lists.name, [sketch(values) for values in lists.to_list()], pl.Binary)


def hll_united(lists: pl.Series) -> pl.Series:
    """One sketch for each list of sketches."""
    library = _datasketches()

    def united(sketches: Sequence[bytes]) -> bytes:
        if len(sketches) == 1:
            return sketches[0]
        union = library.hll_union(LG_K)
        for each in sketches:
            union.update(library.hll_sketch.deserialize(each))
        return bytes(union.get_result(library.HLL_8).serialize_compact())

    return pl.Series(lists.name, [united(each) for each in lists.to_list()], pl.Binary)


def hll_estimate(sketches: pl.Series) -> pl.Series:
    """Estimates from the registers alone, whatever the order in which they were filled."""
    library = _datasketches()

    def estimate(data: bytes) -> int:
        sketch = library.hll_sketch.deserialize(data)
        union = library.hll_union(LG_K)
        # a sketch that met another forgets its history, and with it the estimator that uses it
        union.update(sketch)
        union.update(sketch)
        found: float = union.get_result(library.HLL_8).get_estimate()
        return round(found)

    return pl.Series(sketches.name, [estimate(data) for data in sketches.to_list()], pl.Int64)


def quantiles_settled(lists: pl.Series) -> pl.Series:
    return _kept_small(lists, quantiles.LIMIT, quantiles.shrunk)


def frequent_settled(lists: pl.Series) -> pl.Series:
    return _kept_small(lists, FREQUENT, _most_frequent)


def _kept_small(lists: pl.Series, limit: int, shrink: Shrink) -> pl.Series:
    """Settles, and then shrinks the multisets that are above the limit, one by one."""
    made = settled(lists)
    large = lengths(made) > limit
    if not large.any():
        return made
    rows = items(made)
    groups = rows[GROUP].to_numpy()
    kept = [rows.filter(pl.Series(~large[groups]))]
    for group in np.flatnonzero(large).tolist():
        start, end = np.searchsorted(groups, [group, group + 1])
        kept.append(_shrunk(rows.slice(int(start), int(end - start)), shrink))
    return gathered(pl.concat(kept).sort(GROUP, "value"), len(lists), lists.name)


def _shrunk(rows: pl.DataFrame, shrink: Shrink) -> pl.DataFrame:
    places, counts = shrink(np.arange(rows.height), rows["n"].to_numpy())
    kept: pl.DataFrame = rows[places]
    return kept.with_columns(pl.Series("n", counts, pl.Int64))


def _most_frequent(places: Any, counts: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """All counts lowered by that of the first value that has no room (Misra and Gries)."""
    lowered = counts - np.partition(counts, -FREQUENT - 1)[-FREQUENT - 1]
    kept = lowered > 0
    return places[kept], lowered[kept]


def cells_of_values(lists: pl.Series) -> pl.Series:
    """A multiset of values as a multiset of the cells that count them."""
    rows = summed(items(lists))
    spread = pl.DataFrame(
        {
            "value": pl.Series(cells(rows["value"]).ravel(), dtype=pl.UInt32),
            "n": np.repeat(rows["n"].to_numpy(), HASHES),
            GROUP: np.repeat(rows[GROUP].to_numpy(), HASHES),
        }
    )
    return gathered(summed(spread), len(lists), lists.name)


def cells(values: pl.Series) -> npt.NDArray[np.uint32]:
    """The cells of each value, one per hash function."""
    texts = pl.DataFrame({"text": values.cast(pl.String)})
    hashes = texts.select(plh.col("text").nchash.xxhash64())["text"].to_numpy()
    columns = [
        mixed(hashes, salt=row) % np.uint64(BUCKETS) + np.uint64(row * BUCKETS)
        for row in range(HASHES)
    ]
    return np.column_stack(columns).astype(np.uint32)


def counts_of(lists: pl.Series, values: pl.Series) -> pl.Series:
    """The count of each of the values, by group, as a list of struct(value, count)."""
    rows, asked = items(lists), cells(values)
    width = np.int64(HASHES * BUCKETS)
    known = np.append(rows[GROUP].to_numpy() * width + rows["value"].to_numpy(), -1)
    counts = np.append(rows["n"].to_numpy(), 0)
    groups = np.arange(len(lists), dtype=np.int64)
    wanted = groups[:, None, None] * width + asked.astype(np.int64)
    places = np.searchsorted(known[:-1], wanted)
    found = np.where(known[places] == wanted, counts[places], 0).min(axis=2)
    answer = pl.DataFrame(
        {
            "value": pl.concat([values] * len(lists)) if len(lists) else values.clear(),
            "count": pl.Series(found.ravel(), dtype=pl.Int64),
            GROUP: np.repeat(groups, len(values)),
        }
    )
    return gathered(answer, len(lists), lists.name)
