"""Functions whose result depends on the clock, on chance or on the process: no expression has any,
since a batch that is run again would give something else."""

from __future__ import annotations

import duckdb
import pytest

import riverrun as rr
from riverrun.kernels import sql
from riverrun.schema import Schema

CONSTANT = {
    "add", "array_cat", "array_concat", "array_to_json", "array_value", "array_zip", "json_array",
    "json_object", "json_quote", "list_cat", "list_concat", "list_pack", "list_value", "list_zip",
    "map", "map_concat", "pi", "row", "row_to_json", "struct_concat", "struct_pack", "to_json",
    "union_value", "unpivot_list", "version", "+",
}  # fmt: skip
"""Functions that can be called without arguments, and give the same each time."""


def stream():
    app = rr.App("stable")
    return app.stream("t", schema="a bigint, t string, at timestamp, until timestamp", time="at")


@pytest.mark.parametrize(
    "expression",
    [
        "age(at)",
        "AGE(at)",
        '"age"(at)',
        "main.age(at)",
        "system.main.age(at)",
        "until.age()",
        "list_transform([at], lambda x: age(x))",
        "ago(INTERVAL 1 DAY)",
        "current_localtime()",
        "current_localtimestamp()",
        "pg_postmaster_start_time()",
        "pg_conf_load_time()",
        "pg_sleep(1)",
        "now()",
        "localtime",
        "uuid()",
        "nextval('s')",
    ],
)
def test_what_depends_on_the_clock_or_on_chance_is_refused_in_every_expression(expression):
    for build in (stream().where, lambda text: stream().with_columns(z=text)):
        with pytest.raises(rr.ProgramError, match="cannot be used in an expression") as error:
            build(f"{expression} IS NULL")
        assert "replay would differ" in str(error.value)


def test_a_macro_that_is_short_for_an_aggregate_is_refused_as_one():
    with pytest.raises(rr.ProgramError, match=r"weighted_avg\(\) cannot be used") as error:
        stream().with_columns(z="weighted_avg(a, a)")
    assert "it aggregates" in str(error.value)


@pytest.mark.parametrize(
    "expression",
    [
        "age(at, until) > INTERVAL 1 DAY",
        "until.age(at) > INTERVAL 1 DAY",
        "nullif(a, 1) > 2",
        "split_part(t, '-', 1) = 'x'",
        "list_sum([a]) > 1",
        "date_add(at, INTERVAL 1 DAY) > until",
        "assert_true(a > 1) IS NULL",
    ],
)
def test_what_gives_the_same_each_time_is_taken(expression):
    assert stream().where(expression) is not None


def test_no_function_without_arguments_is_taken_unless_it_is_known_to_be_constant():
    rows = duckdb.connect().execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() "
        "WHERE function_type = 'scalar' AND len(parameter_types) = 0"
    )
    nothing = Schema(())
    for (name,) in rows.fetchall():
        if name not in CONSTANT:
            with pytest.raises(rr.ProgramError, match="cannot be used in an expression"):
                sql.type_of(f'"{name}"()', nothing, "here")
