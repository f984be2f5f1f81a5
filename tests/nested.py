"""Random types, nested two levels deep, with values that fit them and values that do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from hypothesis import strategies as st

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = -62_135_596_800, 253_402_300_799


class Given(NamedTuple):
    """A value as JSON has it, and as it leaves."""

    json: Any
    leaves: Any


class Kind(NamedTuple):
    """A type, values of it, and values that are none."""

    ddl: str
    good: st.SearchStrategy[Given]
    bad: st.SearchStrategy[Any]


def plain(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Given]:
    return values.map(lambda value: Given(value, value))


def iso(micros: int) -> str:
    at = (EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None)
    return at.isoformat(timespec="microseconds" if at.microsecond else "seconds") + "Z"


def shown(number: Decimal) -> float | Decimal:
    """A float, unless that would lose digits."""
    return float(number) if Decimal(repr(float(number))) == number else number


def _without_zeros(text: str) -> str:
    return text.rstrip("0") if "." in text else text


def integers(ddl: str, low: int, high: int) -> Kind:
    numbers = st.integers(low, high) | st.sampled_from([low, high])
    good = plain(numbers) | numbers.map(lambda n: Given(str(n), n))
    bad = st.sampled_from([low - 1, high + 1, 1.5, "x", "1.5", [1], {"a": 1}, "", 1e30])
    return Kind(ddl, good, bad)


def times(ddl: str, per_second: int) -> Kind:
    units = st.integers(FIRST * per_second, (LAST + 1) * per_second - 1)
    good = units.map(lambda n: Given(n, iso(n * (1_000_000 // per_second))))
    return Kind(ddl, good, st.sampled_from(["x", (LAST + 1) * per_second, FIRST * per_second - 1]))


MICROS = st.integers(FIRST * 1_000_000, LAST * 1_000_000)
NO_TIME = ["x", 5, "infinity", "-infinity", "0000-12-31", "10000-01-01", True, ["2026-01-01"]]
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

SCALARS = [
    *(integers(name, -(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in BITS.items()),
    *(integers(f"u{name}", 0, (1 << bits) - 1) for name, bits in BITS.items() if name != "int"),
    integers("uinteger", 0, (1 << 32) - 1),
    integers("hugeint", 1 - 10**38, 10**38 - 1),
    integers("uhugeint", 0, 10**38 - 1),
    Kind("string", plain(st.text(st.characters(codec="utf-8"))), st.nothing()),
    Kind("boolean", plain(st.booleans()), st.sampled_from(["x", [True]])),
    Kind(
        "double",
        plain(st.floats(allow_nan=False, allow_infinity=False)),
        st.sampled_from(["x", [1.5]]),
    ),
    Kind("double", plain(st.sampled_from(["NaN", "Infinity", "-Infinity"])), st.just("x")),
    Kind(
        "decimal(18, 2)",
        st.decimals(-(10**15), 10**15, places=2).map(lambda n: Given(n, shown(n))),
        st.sampled_from(["x", 10**17]),
    ),
    Kind("uuid", plain(st.uuids().map(str)), st.sampled_from(["x", 5])),
    Kind(
        "date",
        plain(st.dates().map(lambda day: day.isoformat())),
        st.sampled_from([*NO_TIME, "2026-01-01T12:00:00Z"]),
    ),
    Kind(
        "time",
        plain(st.times().map(lambda at: _without_zeros(at.replace(fold=0).isoformat()))),
        st.sampled_from(["x", 5, "24:00:00", "12:00:00+02"]),
    ),
    Kind("timestamp", MICROS.map(iso).map(lambda at: Given(at, at)), st.sampled_from(NO_TIME)),
    Kind("timestamptz", MICROS.map(iso).map(lambda at: Given(at, at)), st.sampled_from(NO_TIME)),
    times("timestamp_s", 1),
    times("timestamp_ms", 1000),
]
KEYS = [kind for kind in SCALARS if kind.ddl in ("string", "bigint", "int", "date", "timestamp")]


def listed(item: Kind) -> Kind:
    good = st.lists(maybe(item.good), max_size=3).map(
        lambda all: Given([each.json for each in all], [each.leaves for each in all])
    )
    bad = st.tuples(good, item.bad).map(lambda pair: [*pair[0].json, pair[1]])
    return Kind(f"{item.ddl}[]", good, bad | st.sampled_from([5, {"a": []}]))


def packed(item: Kind, other: Kind) -> Kind:
    good = st.tuples(maybe(item.good), maybe(other.good)).map(
        lambda all: Given(
            {"a": all[0].json, "b c": all[1].json}, {"a": all[0].leaves, "b c": all[1].leaves}
        )
    )
    bad = st.tuples(item.good, other.bad).map(lambda both: {"a": both[0].json, "b c": both[1]})
    bad |= st.tuples(item.bad, other.good).map(lambda both: {"a": both[0], "b c": both[1].json})
    ddl = f'struct(a {item.ddl}, "b c" {other.ddl})'
    return Kind(ddl, good, bad | st.sampled_from([5, [1], "x"]))


def mapped(key: Kind, item: Kind) -> Kind:
    keys = key.good.filter(lambda found: isinstance(found.json, str)).map(_key)
    good = st.dictionaries(keys, maybe(item.good), max_size=3).map(
        lambda all: Given(
            {name: each.json for name, each in all.items()},
            {name: each.leaves for name, each in all.items()},
        )
    )
    bad = st.tuples(keys, item.bad).map(lambda pair: {pair[0]: pair[1]})
    return Kind(f"map({key.ddl}, {item.ddl})", good, bad | st.sampled_from([5, [1], "x"]))


def _key(found: Given) -> str:
    return str(found.leaves)


def maybe(values: st.SearchStrategy[Given]) -> st.SearchStrategy[Given]:
    return values | st.just(Given(None, None))


scalars = st.sampled_from(SCALARS)


def deeper(inside: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    return st.one_of(
        inside.map(listed),
        st.tuples(inside, scalars).map(lambda both: packed(*both)),
        st.tuples(st.sampled_from(KEYS), inside).map(lambda both: mapped(*both)),
    )


kinds = scalars | deeper(scalars) | deeper(deeper(scalars))
"""Single values, and lists, structs and maps of them, two levels deep."""
