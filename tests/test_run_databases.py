"""`riverrun run` into databases: killed in the middle, every result is there exactly once."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest

import riverrun as rr
from riverrun.compiler.describe import as_text
from riverrun.compiler.mermaid import as_mermaid
from riverrun.compiler.passes import passed
from riverrun.kafka import admin
from riverrun.testing import Driver
from running import Run, produce
from test_run import ledger, views

PROGRAM = """
import riverrun as rr
app = rr.App({name!r})
views = app.stream({topic!r}, schema="page string, ms double, at timestamp_ms", time="at",
                   lateness="10 seconds")
minutes = views.group_by("page").window(rr.tumbling("1 minute"), emit="changes").agg(
    views=rr.count(), total=rr.sum("ms"))
minutes.to(rr.sinks.postgres("minutes"), rr.sinks.sqlite({file!r}, "minutes"))
views.select("page", "ms", "at").to(rr.sinks.postgres("views"), rr.sinks.sqlite({file!r}, "views"))
"""
EVENTS = 20_000


@pytest.mark.broker
@pytest.mark.spark
def test_a_job_killed_in_the_middle_leaves_every_row_exactly_once(
    broker, broker_settings, postgres, tmp_path, once
):
    admin.create_topic(broker, "stored-views", partitions=2)
    sent = views(EVENTS)
    produce(broker, "stored-views", sent, partitions=2)
    program, file = tmp_path / "stored.py", tmp_path / "stored.db"
    program.write_text(PROGRAM.format(name="stored", topic="stored-views", file=str(file)))
    home = broker_settings.home
    with Run(program, "--max-events", "1500", home=home) as run:
        run.until(6000)
    once(program)
    counted = "SELECT page, {}, views, total FROM minutes"
    listed = "SELECT page, ms, {} FROM views"
    expected = sorted((row["page"], row["ms"], row["at"]) for row in sent)
    with psycopg.connect(postgres) as server, closing(sqlite3.connect(file)) as own:
        for connection, time in (
            (server, "round(extract(epoch FROM {}) * 1000)::bigint"),
            (own, "CAST(round((julianday({}) - 2440587.5) * 86400000) AS INTEGER)"),
        ):
            found = connection.execute(counted.format(time.format("window_start")))
            assert {(page, at): (n, total) for page, at, n, total in found} == ledger(sent)
            found = connection.execute(listed.format(time.format('"at"')))
            assert sorted(tuple(row) for row in found) == expected


def stored():
    app = rr.App("shop")
    views = app.stream("views", schema="page string, ms bigint")
    views.where("ms > 500").to(rr.sinks.postgres("sales.slow"))
    views.group_by("page").agg(n=rr.count()).to(rr.sinks.sqlite("shop.db", "pages"))
    return app


def test_the_driver_shows_the_lines_that_a_database_would_get():
    out = Driver(stored()).run(views="page | ms\n/a | 900")
    out.of("postgres:sales.slow").assert_is("+- | page | ms\n+ | /a | 900")
    out.of("sqlite:shop.db:pages").assert_is("+- | page | n\n+ | /a | 1")


def test_describe_names_the_tables(tmp_path):
    app = stored()
    described = passed(app.plan())
    text = as_text(described, tmp_path)
    assert "PostgreSQL table sales.slow" in text
    assert f"SQLite table pages of {tmp_path / 'shop.db'}" in text
    assert "postgres:sales.slow" in as_mermaid(described)


@pytest.mark.parametrize(
    ("sink", "fact"),
    [
        (lambda: rr.sinks.postgres("a.b.c"), "a table's name has letters"),
        (lambda: rr.sinks.postgres("drop table"), "a table's name has letters"),
        (lambda: rr.sinks.postgres("x" * 64), "a table's name has letters"),
        (lambda: rr.sinks.postgres("riverrun_progress"), "is riverrun's own"),
        (lambda: rr.sinks.sqlite("shop.db", ""), "table is empty"),
    ],
)
def test_a_name_that_cannot_be_a_table_is_found_when_the_program_is_built(sink, fact):
    with pytest.raises(rr.ProgramError, match=fact) as caught:
        sink()
    assert caught.value.where.file == __file__


def test_sqlite_on_a_cluster_is_refused_before_anything_starts(riverrun, tmp_path):
    file = tmp_path / "app.py"
    file.write_text(PROGRAM.format(name="far", topic="views", file="far.db"))
    outcome = riverrun("run", str(file), "--master", "spark://host:7077")
    assert outcome.code == 2
    assert "a program with such an output runs on one machine [RR102]" in outcome.err


def test_a_wrong_address_is_an_error_before_spark_starts(broker, riverrun, monkeypatch, tmp_path):
    monkeypatch.setenv("RIVERRUN_POSTGRES", "postgresql://127.0.0.1:1/shop")
    admin.create_topic(broker, "unreached-views")
    file = tmp_path / "app.py"
    file.write_text(PROGRAM.format(name="unreached", topic="unreached-views", file="own.db"))
    outcome = riverrun("run", str(file))
    assert outcome.code == 2
    assert "error: PostgreSQL cannot be reached [RR204]" in outcome.err
    assert "Spark is there" not in outcome.err + outcome.out
