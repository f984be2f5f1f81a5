"""Benchmarks compare engines that do the same: that they notice when one does not."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from conftest import Command
from riverrun import config
from riverrun.bench import database, load, notes
from riverrun.bench.report import Report
from riverrun.bench.results import differing


def test_tables_with_the_same_rows_in_any_order_do_not_differ():
    rows = pl.DataFrame({"user": ["a", "b", "b"], "views": [1, 2, 2]})
    assert differing(rows, rows.reverse()) == 0


def test_a_row_that_is_missing_repeated_or_other_is_counted():
    rows = pl.DataFrame({"user": ["a", "b"], "views": [1, 2]})
    other = pl.DataFrame({"user": ["a", "b"], "views": [1, 3]})
    found = [differing(rows[:1], rows), differing(pl.concat([rows, rows]), rows)]
    assert [*found, differing(rows, other)] == [1, 2, 2]


def test_closing_events_come_after_all_others():
    last = max(json.loads(each)["at"] for each in load.events(1000, 10, per_second=1))
    assert all(json.loads(each)["at"] > last + 3_600_000 for each in load.closing(20))


@pytest.mark.broker
def test_what_a_benchmark_shows_of_its_progress_is_not_on_standard_output(broker, riverrun, capsys):
    riverrun("topics", "create", "bench-quiet", "--partitions", "1")
    capsys.readouterr()
    load.produce(broker, "bench-quiet", load.closing(20), 20)
    assert capsys.readouterr().out == ""


def test_a_report_says_which_targets_hold_and_keeps_samples_for_programs():
    report = Report(samples=[{"seconds": 5}])
    report.at_most("memory", 1.2, 1.3)
    assert report.as_json() == {
        "targets": [{"name": "memory", "target": "<= 1.2", "measured": 1.3, "holds": False}],
        "figures": {},
        "samples": [{"seconds": 5}],
    }


def test_the_page_of_benchmarks_is_what_the_noted_results_give():
    folder = Path(__file__).parents[1] / "docs" / "benchmarks"
    page = folder.with_suffix(".md").read_text()
    assert page == notes.page_of(folder), "run `riverrun bench report docs/benchmarks`"


def test_a_result_is_noted_with_where_and_when_and_shown(tmp_path):
    report = Report()
    report.figures |= {"ours: events/s": 1500, "ours: CPU us/event": 7.5, "results": 12}
    report.at_most("results that differ", 0, 0)
    notes.note(tmp_path / "found", "window", report, about="Counts.")
    kept = json.loads((tmp_path / "found" / "window.json").read_text())
    assert kept["command"] == "riverrun bench window"
    assert {"date", "machine", "versions"} < kept.keys()
    shown = (tmp_path / "found.md").read_text()
    for line in ("Counts.", "| ours | 1,500 | 7.50 |", "| results | 12 |"):
        assert f"\n{line}\n" in shown


def test_a_small_run_is_not_noted(riverrun: Command):
    outcome = riverrun("bench", "joins", "--small", "--note", "found")
    assert outcome.code == 2
    assert "not for --note" in outcome.err


def test_a_small_and_a_long_run_are_not_one_command(riverrun: Command):
    outcome = riverrun("bench", "windows", "--small", "--soak", "60")
    assert outcome.code == 2
    assert "two different benchmarks" in outcome.err


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_all_windows_give_the_results_of_plain_pyspark_and_leave_no_state(
    riverrun: Command, broker: dict[str, str]
):
    outcome = riverrun("bench", "windows", "--small", "--json")
    targets = {each["name"]: each for each in json.loads(outcome.out)["targets"]}
    for kind in ("hopping", "session", "sliding"):
        assert targets[f"{kind}: results that differ"]["holds"]
        assert targets[f"{kind}: rows of state at the end"]["holds"]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_a_long_run_samples_memory(riverrun: Command, broker: dict[str, str]):
    found = json.loads(riverrun("bench", "windows", "--soak", "90", "--json").out)
    assert len(found["samples"]) >= 15
    targets = {each["name"]: each for each in found["targets"]}
    assert targets["state at the end, seconds of input"]["holds"]


def test_upserts_are_measured_next_to_executemany_on_the_same_rows(postgres):
    found = database.upserts(config.load(), rows=2000, rounds=1)
    assert found["upserts per second"] > 0
    assert found["times executemany"] == pytest.approx(
        found["upserts per second"] / found["upserts per second, executemany"]
    )


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_a_restart_is_measured_with_the_state_that_was_asked_for(
    riverrun: Command, broker: dict[str, str]
):
    outcome = riverrun("bench", "restart", "--small", "--json")
    assert outcome.code == 0
    figures = json.loads(outcome.out)["figures"]
    assert figures["100 MB: rows"] == 100_000
    assert 100 <= figures["100 MB: MB in memory"] < 120
    assert figures["100 MB: CPU of it, s"] > figures["hardly any state: CPU of it, s"]
    assert figures["replay: events/s"] > 0
    assert figures["promotion: rows"] > 20_000
