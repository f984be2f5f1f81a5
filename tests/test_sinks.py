"""Files and webhooks as `describe`, the test driver and `try` show them."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from pkgutil import iter_modules

import pytest

import riverrun as rr
from riverrun.outputs import OutputSpec, Places, Sink, destinations
from riverrun.schema import parse
from riverrun.testing import Driver

PROGRAM = """
import riverrun as rr
app = rr.App("shop")
views = app.stream("views", schema="page string, day date, ms double")
views.to(rr.sinks.parquet("views", partition_by=["day"]))
views.where("ms > 9").to(rr.sinks.webhook("https://host/slow?token=secret", tries=1))
views.group_by("page").agg(n=rr.count()).to(rr.sinks.delta("pages"))
"""


def test_describe_tells_where_rows_go_and_no_secret(riverrun, tmp_path):
    Path("shop.py").write_text(PROGRAM)
    text = riverrun("describe", "shop.py").out
    assert (
        f"to        Parquet files in {tmp_path / 'views'}, a folder for each day, exactly once"
        in text
    )
    assert f"to        Delta table in {tmp_path / 'pages'}, exactly once" in text
    assert "to        POST to https://host/slow, 1 try, at least once" in text
    assert "output parquet:views (stream)" in text
    assert "output delta:pages (table)" in text
    assert "secret" not in text + riverrun("describe", "shop.py", "--json").out


def test_try_shows_what_would_be_written_and_writes_nothing(riverrun):
    Path("shop.py").write_text(PROGRAM)
    Path("views.jsonl").write_text('{"page": "/a", "day": "2026-01-01", "ms": 10}')
    outcome = riverrun("try", "shop.py", "--input", "views=views.jsonl")
    assert [line.split("  ")[:2] for line in outcome.out.splitlines()] == [
        ["delta:pages", "+"],
        ["parquet:views", "+"],
        ["webhook:https://host/slow", "+"],
    ], outcome
    assert not Path("views").exists()
    assert not Path("pages").exists()


def test_the_driver_gives_lines_by_the_name_of_the_sink():
    app = rr.App("shop")
    app.stream("views", schema="page string").to(
        rr.sinks.parquet("out"), rr.sinks.webhook("https://host/x")
    )
    driver = Driver(app)
    out = driver.run(views="page\n/a")
    out.of("parquet:out").assert_is("page\n/a")
    out.of("webhook:https://host/x").assert_is("page\n/a")


def test_programs_without_these_sinks_do_not_load_what_they_need():
    code = "import sys, riverrun as rr; rr.sinks.topic('a'), rr.App, rr.Stream; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"deltalake", "urllib3", "confluent_kafka", "psycopg"} & set(done.stdout.split())


def test_a_kind_is_found_by_its_name_however_much_is_loaded():
    made = [
        rr.sinks.topic("a"),
        rr.sinks.screen(),
        rr.sinks.postgres("a"),
        rr.sinks.sqlite("a.db", "a"),
        rr.sinks.parquet("a"),
        rr.sinks.delta("b"),
        rr.sinks.webhook("https://host/a"),
        rr.sinks.search_index("a", text="a"),
        rr.sinks.cache("a"),
        rr.sinks.view("a"),
    ]
    names = [re.sub(r"(?<=[a-z])([A-Z])", r"_\1", type(sink).__name__).lower() for sink in made]
    assert sorted(names) == rr.sinks.__all__
    assert rr.sinks.__all__ == sorted(rr.sinks.__all__)
    modules = {module.name for module in iter_modules(rr.sinks.__path__)}
    assert not modules & set(rr.sinks.__all__), "a module would stand in the function's place"
    assert not hasattr(rr.sinks, "kinesis")


class Loose(Sink):
    """A sink of one's own that is no dataclass."""

    name = text = "loose"

    def guarantee(self, delivery):
        return "shown"

    def check(self, columns, *, table, where): ...

    def destination(self, places):
        return None


@dataclass(frozen=True)
class Nameless(Loose):
    name: int = 5


@pytest.mark.parametrize(
    ("given", "fact", "hint"),
    [
        (5, "rows are written to a topic or a sink", "a topic's name, or rr.sinks"),
        (None, "rows are written to a topic or a sink", "a topic's name, or rr.sinks"),
        ("", "a topic's name has letters", None),
        (rr.sinks.screen, "rows are written to a topic or a sink", "call it: screen"),
        (rr.sinks.parquet, "rows are written to a topic or a sink", "call it: parquet"),
        (Loose, "rows are written to a topic or a sink", "call it: Loose"),
        (Loose(), "a sink is a frozen dataclass", "frozen=True"),
        (Nameless(), "a sink is a frozen dataclass with a name and a text", "docs/extend.md"),
    ],
)
def test_what_cannot_be_written_to_is_an_error_at_the_line_that_says_so(given, fact, hint):
    views = rr.App("shop").stream("views", schema="page string")
    with pytest.raises(rr.ProgramError, match=fact) as caught:
        views.to(given)
    assert str(caught.value.where) == f"{__file__}:{caught.tb.tb_lineno}"
    assert hint is None or re.search(hint, caught.value.hint)


def test_outputs_that_are_written_in_one_transaction_share_a_destination(tmp_path):
    sinks = rr.sinks
    made = [
        sinks.topic("a"),
        sinks.topic("b"),
        sinks.sqlite("a.db", "a"),
        sinks.sqlite("a.db", "b"),
    ]
    made += [sinks.sqlite("b.db", "a"), sinks.parquet("a"), sinks.parquet("b"), sinks.screen()]
    outputs = [OutputSpec(each.name, each, parse("n bigint"), (), False) for each in made]
    places = Places((("bootstrap.servers", "localhost:1"),), "exactly once")
    shared = destinations(outputs, places)
    assert [len(each) for each in shared.values()] == [2, 2, 1, 1, 1]
    assert list(destinations(outputs, places)) == list(shared), "as long as the process lives"
