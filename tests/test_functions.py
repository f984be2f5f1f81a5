"""Functions of one's own in expressions: by row and by column, their errors, and where they run."""

from __future__ import annotations

import random
import sys
from datetime import date, datetime, timedelta

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import riverrun as rr
from riverrun.errors import JobError
from riverrun.kernels.sql import Evaluator
from riverrun.testing import Driver

SCHEMA = "page string, ms double, n bigint, at timestamp"


@rr.function("double")
def doubled(x):
    if x > 1000:
        raise ValueError(f"{x:g} is too much")
    return x * 2.0


@rr.function("double", over="arrow")
def sum_of(x, y):
    return pc.add(x, y)


@rr.function("string", over="polars")
def shouted(text):
    return text.str.to_uppercase()


@rr.function("string", nulls=True)
def known(x):
    return "no" if x is None else "yes"


def views(name="shop"):
    return rr.App(name, pages=2).stream("views", schema=SCHEMA, time="at")


def run(stream, text, output="out"):
    stream.to(output)
    driver = Driver(stream.registry)
    driver.run(views=text)
    return driver


def values(driver, output="out"):
    return [line["value"] for line in driver.outputs[output]]


TWO = """
    at    | page | ms | n
    12:00 | /a   | 3  | 1
    12:01 | /b   | 6  | 2
"""


def test_a_function_is_called_by_its_name_in_every_kind_of_expression():
    app = rr.App("shop", pages=2)
    source = app.stream("views", schema=SCHEMA, time="at", punctuation="doubled(ms) < 0")
    rows = source.where("doubled(ms) > 6").with_columns(d="doubled(ms)").select("page", "d", "at")
    rows.to("rows")
    per_page = source.group_by("page", name="per_page").agg(total=rr.sum("DOUBLED(ms) + 1"))
    per_page.where("doubled(total) > 20").to("totals")
    source.to_table("page", delete="doubled(ms) = 6", name="latest").to("latest")
    best = source.to_table("page", name="of_pages").with_columns(k="1").group_by("k", name="best")
    best.top(1, by="doubled(ms)").select("k", "page").to("best")
    source.join(source.select("page", m="ms"), on="page", within="1 minute", where="doubled(m) > 6",
                name="pairs").select("page", "m").to("pairs")  # fmt: skip
    driver = Driver(app)
    driver.run(views=TWO)
    assert [row["d"] for row in values(driver, "rows")] == [12.0]
    assert values(driver, "totals") == [{"page": "/b", "total": 13.0}]
    assert [row["page"] for row in driver.table("latest")] == ["/b"]
    assert driver.table("best") == [{"k": 1, "page": "/b"}]
    assert values(driver, "pairs") == [{"page": "/b", "m": 6.0}]


def test_functions_over_columns_are_given_whole_columns_without_nulls():
    text = """
        at    | page | ms | n
        12:00 | /a   | 3  | 1
        12:01 | /b   |    | 2
        12:02 |      | 5  | 3
    """
    driver = run(views().select("n", s="sum_of(ms, n)", p="shouted(page)", k="known(ms)"), text)
    assert values(driver) == [
        {"n": 1, "s": 4.0, "p": "/A", "k": "yes"},
        {"n": 2, "s": None, "p": "/B", "k": "no"},
        {"n": 3, "s": 8.0, "p": None, "k": "yes"},
    ]


def test_where_every_row_has_a_null_there_is_no_call():
    @rr.function("string", over="polars")
    def first_letter(text):
        return text[0][0] + text.str.slice(1)

    driver = run(views().select("n", f="first_letter(page)"), "at | n\n12:00 | 1\n12:01 | 2")
    assert [row["f"] for row in values(driver)] == [None, None]
    assert driver.outputs["dead"] == []


def test_arguments_come_as_they_are_unless_their_types_are_given():
    @rr.function("string")
    def as_it_comes(x):
        return type(x).__name__

    @rr.function("string")
    def annotated(x: float, day: date, at: datetime):
        return f"{x!r} {day} {at:%H:%M}"

    @rr.function("string", arguments="double, struct(a decimal(3, 1), b int)")
    def declared(x, pair):
        return f"{x!r} {pair['a']} {pair['b']!r}"

    driver = run(
        views().select(
            whole="as_it_comes(n)",
            decimal="as_it_comes(2.5)",
            several="as_it_comes([n])",
            a='annotated(n, "at"::date, "at")',
            d="declared(n, {'a': 1.5, 'b': 2})",
        ),
        TWO,
    )
    assert values(driver)[0] == {
        "whole": "int", "decimal": "float", "several": "list",
        "a": "1.0 2026-01-01 12:00", "d": "1.0 1.5 2",
    }  # fmt: skip


def test_types_of_results():
    @rr.function("struct(a bigint, b string[])")
    def pair(x):
        return {"a": x, "b": [str(x)]}

    @rr.function("timestamp")
    def later(at):
        return at + timedelta(minutes=1)

    @rr.function("bigint")
    def nothing(x):
        return None

    made = views().select(p="pair(n).b[1]", at='later("at")', none="nothing(n)")
    assert values(run(made, TWO))[0] == {"p": "1", "at": "2026-01-01T12:01:00Z", "none": None}


def test_a_function_stays_what_it_was_in_python():
    assert doubled(4) == 8.0
    assert shouted(pl.Series(["a"])).to_list() == ["A"]


def line_of(text):
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_a_row_that_a_function_fails_on_is_a_dead_letter_with_the_functions_line():
    text = """
        at    | page | ms
        12:00 | /a   | 3
        12:01 | /b   | 2000
        12:02 | /c   | 5
    """
    driver = run(views().select("page", d="doubled(ms)"), text)
    assert [row["page"] for row in values(driver)] == ["/a", "/c"]
    (letter,) = values(driver, "dead")
    line = line_of("raise ValueError(f")
    assert letter["cause"] == f"ValueError: 2000 is too much (test_functions.py:{line}, in doubled)"
    assert letter["offset"] == 1
    assert [name.partition(": ")[2] for name in driver.status.causes] == ["ValueError"]


def test_on_error_holds_for_functions_and_tables_stop():
    rows = views().select("page", d="doubled(ms)")
    rows.to("out", on_error="stop")
    with pytest.raises(JobError, match=r"ValueError: 2000 is too much .*in doubled"):
        Driver(rows.registry).run(views="at | page | ms\n12:00 | /a | 2000")
    table = views().to_table("page").with_columns(d="doubled(ms)")
    table.to("out")
    with pytest.raises(JobError, match=r"ValueError: 2000 is too much .*in doubled"):
        Driver(table.registry).run(views="at | page | ms\n12:00 | /a | 2000")


def test_a_wrong_type_is_a_dead_letter():
    @rr.function("bigint")
    def halved(x):
        return x / 2 if x > 1 else 0

    @rr.function("bigint", over="polars")
    def as_text(x):
        return x.cast(pl.String)

    @rr.function("bigint", over="arrow")
    def shorter(x):
        return x[:0]

    @rr.function("bigint", over="arrow")
    def rounded(x):
        return x.to_pylist()

    causes = []
    for call in ("halved(ms)", "as_text(n)", "shorter(n)", "rounded(n)"):
        driver = run(views().select(x=call), TWO)
        causes.append(values(driver, "dead")[-1]["cause"].partition(" (")[0])
    assert causes == [
        "TypeError: the result is 3.0, not BIGINT",
        "TypeError: the result is of type large_string, not BIGINT",
        "TypeError: the result has 0 rows, not 1",
        "TypeError: the result is list, not a pyarrow.Array",
    ]


def test_the_driver_runs_functions_twice_and_compares():
    @rr.function("double")
    def guess(x):
        return x + random.random()

    calls = []

    @rr.function("bigint")
    def counted(x):
        calls.append(x)
        return len(calls)

    @rr.function("double", over="polars")
    def from_mean(x):
        return x - x.mean()

    for call, name in (
        ("guess(ms)", "guess"),
        ("counted(n)", "counted"),
        ("from_mean(ms)", "from"),
    ):
        with pytest.raises(JobError, match=f"{name}.* gives another result") as caught:
            run(views().select(x=call), TWO)
        assert "test_functions.py" in str(caught.value.where)


@pytest.mark.parametrize(
    ("fact", "make"),
    {
        "a function needs the type": lambda: rr.function(lambda x: x),
        "a function cannot have the type 'doubel'": lambda: rr.function("doubel"),
        "a function cannot have the type 'blob'": lambda: rr.function("blob"),
        "over is one of": lambda: rr.function("double", over="numpy"),
        "expressions cannot call": lambda: rr.function("double")(lambda x: x),
        "the name 'abs' is taken": lambda: rr.function("double")(abs),
        "a function has at least one": lambda: rr.function("double")(star),
        "a function has at least": lambda: rr.function("double")(constant),
        "two takes 2 arguments": lambda: rr.function("double", arguments="double")(two),
        "a function returns one value": lambda: rr.function("double, x bigint"),
        "rr.function is for functions": lambda: rr.function("double")("abs"),
        "the name 'coalesce' is taken": lambda: rr.function("double")(coalesce),
        "the name 'host' is taken": lambda: rr.function("string")(host),
        "the name 'select' is taken": lambda: rr.function("string")(select),
        "the name 'avg' is taken": lambda: rr.function("string")(avg),
        "an expression calls a function that": lambda: views().where("star(ms) > 1"),
        "an expression cannot be evaluated": lambda: views().where("doubled(ms, ms) > 1"),
        "there is no column 'mss'": lambda: views().where("doubled(mss) > 1"),
        "sum() cannot be used": lambda: views().where("doubled(sum(ms)) > 1"),
    }.items(),
)
def test_what_cannot_be_a_function_is_refused_at_its_line(fact, make):
    with pytest.raises(rr.ProgramError) as caught:
        make()
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.file == __file__


def star(*values): ...
def constant(): ...
def two(a, b): ...
def coalesce(a): ...
def host(a): ...
def select(a): ...
def avg(a): ...


def test_two_functions_of_one_name_in_a_program_are_refused():
    def first(stream):
        @rr.function("double")
        def once(x):
            return x

        return stream.where("once(ms) > 1")

    def second(stream):
        @rr.function("double")
        def once(x):
            return -x

        return stream.where("once(ms) > 1")

    rows = second(first(views()))
    rows.to("out")
    with pytest.raises(rr.ProgramError, match="two functions are called 'once'"):
        rows.registry.program()


def test_only_what_is_called_travels_with_the_program():
    rows = views().select(d="doubled(ms)")
    rows.to("out")
    assert [each.name for each in rows.registry.program().functions] == ["doubled"]


def test_an_evaluator_ends_with_its_last_user_though_functions_see_it():
    """A connection holds what it calls: a function that can see the connection must not keep it."""
    holder = {}

    @rr.function("double")
    def seen(x):
        return x if holder else 0.0

    holder["evaluator"] = evaluator = Evaluator((seen,))
    rows = pa.table({"x": [1.0]})
    assert evaluator.run("SELECT seen(x) AS y FROM rows", rows=rows)["y"].to_pylist() == [1.0]
    before = sys.getrefcount(seen)
    holder.clear()
    del evaluator
    assert sys.getrefcount(seen) < before


def test_a_function_is_found_wherever_it_stands_in_an_expression():
    @rr.function("boolean")
    def big(n: int):
        return n > 1

    app = rr.App("shop")
    numbers = app.stream("numbers", schema="n int")
    for number, space in enumerate(("\n", "\t", " ", "\r\n")):
        numbers.where(f"n > 0 and{space}big{space}(n)").to(f"out{number}")
    driver = Driver(app)
    driver.send("numbers", {"n": 1}, {"n": 2})
    assert [line["value"] for line in driver.batch()] == [{"n": 2}] * 4


@pytest.mark.parametrize("name", ["lower", "concat", "Greatest", "date_trunc", "md5", "list_sort"])
def test_a_name_that_sql_has_is_refused(name):
    def call(x: str):
        return x

    call.__name__ = name
    with pytest.raises(rr.ProgramError, match="is taken"):
        rr.function("string")(call)


def test_ctrl_c_in_a_function_stops_and_sets_nothing_aside():
    @rr.function("int")
    def interrupted(n: int):
        raise KeyboardInterrupt

    app = rr.App("shop")
    app.stream("numbers", schema="n int").select(m="interrupted(n)").to("out")
    driver = Driver(app)
    driver.send("numbers", {"n": 1})
    with pytest.raises(KeyboardInterrupt):
        driver.batch()
