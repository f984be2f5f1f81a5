"""What a sink gives back of values of every type is what was written, however it keeps them."""

from __future__ import annotations

import pytest

from riverrun.delivery.comparable import comparable, unlike
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import OutputSpec, Owner, Part
from riverrun.schema import parse, schema_of
from riverrun.sinks import delta, parquet, postgres, sqlite
from riverrun.sinks.delta_folder import DeltaFolder
from riverrun.sinks.parquet_folder import ParquetFolder
from riverrun.sinks.postgresql.delivery import PostgresDatabase
from riverrun.sinks.sqlite_file import SqliteFile

VALUES = {
    "bigint": ("-9223372036854775808", "9223372036854775807", "0"),
    "hugeint": ("170141183460469231731687303715884105", "-1", "0"),
    "ubigint": ("18446744073709551615", "0", "7"),
    "double": ("0.1", "1e300", "'NaN'", "'-Infinity'", "-0.0"),
    "float": ("0.1", "3e38", "1.5"),
    "decimal(18, 4)": ("12345678901234.5678", "-0.0001", "1"),
    "boolean": ("true", "false"),
    "date": ("'2026-02-28'", "'0001-01-01'"),
    "timestamp": ("'2026-01-01 12:00:00.000005'", "'1969-12-31 23:59:59.999999'"),
    "time": ("'23:59:59.999999'", "'00:00:00'"),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",),
    "blob": ("'\\x00\\xff'::BLOB", "''::BLOB"),
    "json": ("""'{"b": [1, 2.50], "a": null}'""", "'[]'"),
    "string": ("'Grüße, 世界 🌍\n\"\\'", "''", "'null'", "chr(1)"),
    "string[]": ("['a', NULL, '']", "[]"),
    "struct(a bigint, b timestamp)": ("{'a': 1, 'b': TIMESTAMP '2026-01-01 12:00:00'}",),
    "map(string, double)": ("MAP {'x': 0.5, 'y': 2.0}", "MAP {}"),
    "struct(a double[])": ("{'a': [0.1, 'NaN'::DOUBLE, NULL]}",),
}
DUCKDB = {
    "string": "VARCHAR",
    "string[]": "VARCHAR[]",
    "struct(a bigint, b timestamp)": "STRUCT(a BIGINT, b TIMESTAMP)",
    "map(string, double)": "MAP(VARCHAR, DOUBLE)",
    "struct(a double[])": "STRUCT(a DOUBLE[])",
    "decimal(18, 4)": "DECIMAL(18,4)",
}
NOT_IN = {"delta": ("hugeint", "time", "uuid", "json"), "parquet": (), "sqlite": (), "postgres": ()}


@pytest.fixture(params=["sqlite", "postgres", "delta", "parquet"])
def made(request, tmp_path):
    """The kind of sink, a sink, and its destination."""
    match request.param:
        case "sqlite":
            sink = sqlite(tmp_path / "own.db", "kept")
            destination = SqliteFile(tmp_path / "own.db")
        case "postgres":
            sink = postgres("kept")
            destination = PostgresDatabase(request.getfixturevalue("postgres"))
        case "delta":
            sink = delta(tmp_path / "lake")
            destination = DeltaFolder(sink)
        case "parquet":
            sink = parquet(tmp_path / "files")
            destination = ParquetFolder(sink)
        case other:
            raise AssertionError(other)
    yield request.param, sink, destination
    destination.close()


def test_values_of_every_type_come_back_as_they_were(made):
    kind, sink, destination = made
    types = [type for type in VALUES if type not in NOT_IN[kind]]
    names = {f"c{number}": DUCKDB.get(type, type.upper()) for number, type in enumerate(types)}
    columns = schema_of([("id", "BIGINT"), *names.items()])
    output = OutputSpec("kept", sink, columns, ("id",), table=True)
    evaluator, most = Evaluator(), max(len(VALUES[type]) for type in types)
    lines = []
    for row in range(most + 1):  # the last one is all nulls
        cells = [
            f"({VALUES[type][row] if row < len(VALUES[type]) else 'NULL'})::{declared} AS {name}"
            for type, (name, declared) in zip(types, names.items(), strict=True)
        ]
        lines.append(
            f"SELECT {row}::BIGINT AS id, {', '.join(cells)},"
            " 1::TINYINT AS __op, 0::BIGINT AS __revision"
        )
    rows = evaluator.run(" UNION ALL ".join(lines))
    destination.prepare([output])
    destination.take_over("shop", 1)
    receipt = destination.deliver(Part("shop", "c1", 1, 7, 0, 1000), [(output, rows)], evaluator)
    destination.finish(7, [receipt])
    wanted = comparable(output, rows, evaluator).to_pylist()
    with destination.standing(output, Owner("shop", "c1")) as standing:
        assert standing.batch == 7
        found = [
            row for each in standing.rows for row in comparable(output, each, evaluator).to_pylist()
        ]
    by_key = {row["k"]: row["v"] for row in found}
    assert len(found) == len(by_key) == len(wanted)
    for row in wanted:
        assert not unlike(output, row["v"], by_key[row["k"]]), f"{row['v']}\n{by_key[row['k']]}"


def test_rows_that_say_the_same_are_alike_and_others_are_not():
    output = OutputSpec(
        "x", sqlite("x.db", "x"), parse("i bigint, d double, j json"), ("i",), table=True
    )
    one = '{"i": 1, "d": 0.1, "j": {"a": 1, "b": [2]}}'
    for same in ('{"i": 1, "d": 0.10000000000000002, "j": {"b": [2], "a": 1}}',):
        assert not unlike(output, one, same)
    for other in (
        '{"i": 2, "d": 0.1, "j": {"a": 1, "b": [2]}}',
        '{"i": true, "d": 0.1, "j": {"a": 1, "b": [2]}}',
        '{"i": 1, "d": 0.1000001, "j": {"a": 1, "b": [2]}}',
        '{"i": 1, "d": null, "j": {"a": 1, "b": [2]}}',
        '{"i": 1, "d": 0.1, "j": {"a": 1, "b": [2, 3]}}',
        '{"i": 1, "d": 0.1, "j": null}',
    ):
        assert unlike(output, one, other)
    assert not unlike(output, '{"i": 1, "d": "NaN", "j": 1}', '{"i": 1, "d": null, "j": 1}')
