"""Schemas as text: read, never run."""

from __future__ import annotations

import duckdb
import pytest

import riverrun as rr
from riverrun.schema import defaults, parse

TYPES = (
    "bigint", "string", "decimal(10, 2)", "double precision", "int[][]", "int[3]", "int array",
    "timestamp_ms", "timestamp without time zone", "map(varchar, int[3])", "json", "uuid",
    """struct(a int, "b c" text[], m map(int, text))[]""", """enum('a,b', 'c(', 'd''e')""",
)  # fmt: skip


def test_types_are_those_that_duckdb_gives_a_table():
    ddl = ", ".join(f"c{number} {type}" for number, type in enumerate(TYPES))
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t ({ddl})")
        described = [(row[0], row[1]) for row in connection.execute("DESCRIBE t").fetchall()]
    assert [(column.name, column.type) for column in parse(ddl).columns] == described


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("at timestamp, order int", ("at", "order")),
        ('"a b" int, "a,b" int', ("a b", "a,b")),
        ("a int,", ("a",)),
    ],
)
def test_a_column_may_have_any_name(text, names):
    assert parse(text).names == names


@pytest.mark.parametrize(
    "text",
    [
        "a bigint); copy (select 1) to 'written'; create table x (b int",
        "a bigint); copy (select 1) to 'written'; --",
        """"x" ) as (from read_csv('readable')""",
        "a int; copy (select 1) to 'written'",
        "a int default 0); copy (select 1) to 'written'; select (1",
        "a int default 0; copy (select 1) to 'written'",
        "a text default (select content from read_text('readable'))",
        "a int default 0) as int), cast((2",
        "a int not null", "a int primary key", "a int check (a > 0)",
        "", ",", "a", "a int, A text", "a foo", "a null", "a int -- b",
    ],
)  # fmt: skip
def test_what_is_no_schema_is_an_error_and_none_of_it_is_run(text, tmp_path):
    (tmp_path / "readable").write_text("secret\n")
    with pytest.raises(rr.ProgramError) as caught:
        (parse(text), defaults(text))
    assert "secret" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["readable"]


def test_defaults_are_values_of_their_columns_types():
    text = (
        "n bigint default 0, tags string[] default [], s string default 'a,b', x double default 1"
    )
    assert defaults(f"{text}, none int") == (0, [], "a,b", 1.0, None)
