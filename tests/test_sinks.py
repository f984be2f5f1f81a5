"""Files and webhooks as `describe`, the test driver and `try` show them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import riverrun as rr
from riverrun.testing import Driver

PROGRAM = """
import riverrun as rr
app = rr.App("shop")
views = app.stream("views", schema="page string, day date, ms double")
views.to(rr.parquet("views", partition_by=["day"]))
views.where("ms > 9").to(rr.webhook("https://host/slow?token=secret", tries=1))
views.group_by("page").agg(n=rr.count()).to(rr.delta("pages"))
"""


def test_describe_tells_where_rows_go_and_no_secret(riverrun, tmp_path):
    Path("shop.py").write_text(PROGRAM)
    text = riverrun("describe", "shop.py").out
    assert f"to        Parquet files in {tmp_path / 'views'}, a folder for each day" in text
    assert f"to        Delta table in {tmp_path / 'pages'}" in text
    assert "to        POST to https://host/slow, 1 try" in text
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
    app.stream("views", schema="page string").to(rr.parquet("out"), rr.webhook("https://host/x"))
    driver = Driver(app)
    out = driver.run(views="page\n/a")
    out.of("parquet:out").assert_is("page\n/a")
    out.of("webhook:https://host/x").assert_is("page\n/a")


def test_programs_without_these_sinks_do_not_load_what_they_need():
    code = "import sys, riverrun.delivery.destinations; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"deltalake", "urllib3"} & set(done.stdout.split())
