"""Single values in JSON, by their type: what they are read as, and what they become.

What does not fit its type, or is beyond what Arrow, Polars and Python have, becomes null.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Manner = Literal["strict", "quick", "lenient"]
"""Quick is strict, but long integers that a double does not hold are null; lenient rounds numbers
to integers."""


class Scalar(NamedTuple):
    """Expressions have `{0}` for the value."""

    read_as: str
    first: str = "{0}"
    then: str = "{0}"
    """Over what `first` gives, which it may use several times."""

    def made(self, value: str) -> str:
        return self.then.format(self.first.format(value))


EXACT = 1 << 53
"""Below it a double holds every integer."""
LENGTH = 38
"""Arrow carries no integer with more digits."""

_TIME = (
    "CASE WHEN {0} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999' "
    "THEN {0} END"
)
_ZONED = "make_timestamp(TRY(epoch_us(TRY_CAST({0} AS TIMESTAMPTZ))))"
_MIDNIGHT = "TRY_CAST({0} AS TIMESTAMP) = TRY_CAST({0} AS DATE) THEN TRY_CAST({0} AS DATE)"
_DAY = (
    "CASE WHEN strlen({0}) = 10 AND {0} BETWEEN '0001' AND '9999-12-31' THEN TRY_CAST({0} AS DATE) "
    "WHEN TRY_CAST({0} AS DATE) BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' "
    f"AND {_MIDNIGHT} END"
)
_CLOCK = (
    "CASE WHEN regexp_full_match({0}, '[0-9:.]+') AND TRY_CAST({0} AS TIME) < TIME '24:00:00' "
    "THEN TRY_CAST({0} AS TIME) END"
)


def _numbered(per_second: int) -> str:
    """Of a time as a number; a fraction is one of its unit."""
    first, end = -62_135_596_800 * per_second, 253_402_300_800 * per_second
    unit = 1_000_000 // per_second
    whole = f"CAST(trunc({{0}}) AS BIGINT) * {unit}"
    micros = f"{whole} + CAST(({{0}} - trunc({{0}})) * {unit} AS BIGINT)"
    return f"CASE WHEN {{0}} >= {first} AND {{0}} < {end} THEN make_timestamp({micros}) END"


SHORT = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER")
LONG = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT")


def whole(type: str, value: str = "{0}") -> str:
    """An integer of a double: it may not have a fraction."""
    return f"CASE WHEN {value} = trunc({value}) THEN TRY_CAST({value} AS {type}) END"


def _quick(type: str) -> str:
    exact = f"abs({{0}}) < {EXACT} AND {{0}} = trunc({{0}})"
    return f"CASE WHEN {exact} THEN CAST({{0}} AS {type}) END"


def _long(type: str) -> str:
    """An integer of its text, where a double would not do."""
    double = "TRY_CAST({0} AS DOUBLE)"
    return (
        f"CASE WHEN strlen(ltrim({{0}}, '-')) <= {LENGTH} "
        f"AND CAST(TRY_CAST({{0}} AS {type}) AS VARCHAR) = {{0}} THEN TRY_CAST({{0}} AS {type}) "
        f"WHEN {{0}} IN ('true', 'false') THEN CAST({{0}} = 'true' AS {type}) "
        f"WHEN abs({double}) < {EXACT} THEN {whole(type, double)} END"
    )


def _short_enough(type: str) -> str:
    most = "9" * LENGTH
    least = "0" if type.startswith("U") else f"-{most}"
    return f"CASE WHEN {{0}} BETWEEN {least}::{type} AND {most}::{type} THEN {{0}} END"


_BOTH = {
    "TIMESTAMP_S": Scalar("DOUBLE", then=_numbered(1)),
    "TIMESTAMP_MS": Scalar("DOUBLE", then=_numbered(1_000)),
    **{
        type: Scalar("VARCHAR", _ZONED, _TIME)
        for type in ("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE")
    },
    "DATE": Scalar("VARCHAR", then=_DAY),
    "TIME": Scalar("VARCHAR", then=_CLOCK),
}
_STRICT = {
    **_BOTH,
    **{type: Scalar("DOUBLE", then=whole(type)) for type in SHORT},
    **{type: Scalar("VARCHAR", then=_long(type)) for type in LONG},
}
_QUICK = {**_STRICT, "BIGINT": Scalar("DOUBLE", then=_quick("BIGINT"))}
_LENIENT = {
    **_BOTH,
    **{type: Scalar(type, then=_short_enough(type)) for type in ("HUGEINT", "UHUGEINT")},
}


SCALARS: dict[Manner, dict[str, Scalar]] = {
    "strict": _STRICT,
    "quick": _QUICK,
    "lenient": _LENIENT,
}
"""Of any other type: DuckDB reads it as what it is, or as null."""
