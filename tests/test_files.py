"""Parquet folders: each row once, whatever is killed, repeated or late."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from folders import CHECKPOINT, EVALUATOR, SCHEMA, Writer, batch_rows, changes, cut, files, rows
from killing import killed_at
from riverrun.errors import AlreadyRunning, CheckpointError, ConfigError, JobError, ProgramError
from riverrun.outputs import OutputSpec
from riverrun.schema import parse
from riverrun.sinks.parquet_folder import ParquetFolder


def writer(sink, run: int = 1, *, table: bool = False, checkpoint: str = CHECKPOINT) -> Writer:
    output = OutputSpec(sink.name, sink, SCHEMA, ("page",), table)
    return Writer(ParquetFolder, output, run, checkpoint)


def seen(folder: str | Path) -> list[tuple[str | None, int]]:
    """What a reader of the folder sees."""
    found = ds.dataset(str(folder), format="parquet", partitioning="hive").to_table()
    if not found.num_columns:
        return []
    return sorted(zip(*found.select(["page", "n"]).to_pydict().values(), strict=True), key=repr)


def test_rows_of_a_batch_are_seen_when_it_is_finished_with_types_and_in_utc(tmp_path):
    one = writer(rr.sinks.parquet("out")).begin()
    receipts = one.deliver(0, rows(("/a", 1)), rows(("/b", 2)))
    assert not list(tmp_path.glob("out/*.parquet"))
    assert not list(tmp_path.glob("out/**/*.parquet"))
    one.folder.finish(0, receipts)
    found = ds.dataset("out").to_table()
    assert found.schema.field("at").type == pa.timestamp("us", "UTC")
    assert found.sort_by("n").to_pylist() == [
        {"page": "/a", "n": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"page": "/b", "n": 2, "at": datetime(2026, 1, 1, tzinfo=UTC)},
    ]


def test_columns_within_columns_keep_their_types_with_times_in_utc():
    schema = parse("m map(varchar, timestamp), l timestamp[], s struct(t timestamp, n utinyint)")
    one = Writer(
        ParquetFolder, OutputSpec("out", rr.sinks.parquet("out"), schema, (), False)
    ).begin()
    made = EVALUATOR.run("""
        SELECT MAP {'a': TIMESTAMP '2026-01-01'} AS m, [TIMESTAMP '2026-01-01'] AS l,
               {'t': TIMESTAMP '2026-01-01', 'n': 7::UTINYINT} AS s
        UNION ALL SELECT NULL, NULL, NULL
    """)
    one.write(0, pl.DataFrame(pl.from_arrow(made)).to_arrow())
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert ds.dataset("out").to_table().to_pylist() == [
        {"m": [("a", at)], "l": [at], "s": {"t": at, "n": 7}},
        {"m": None, "l": None, "s": None},
    ]


def test_every_reader_sees_the_same_rows():
    writer(rr.sinks.parquet("out", partition_by="page")).begin().write(
        0, rows(("a/b", 1), ("ü =%", 2), (None, 3)), rows(("a/b", 4))
    )
    expected = [("a/b", 1), ("a/b", 4), ("ü =%", 2), (None, 3)]
    assert Counter(seen("out")) == Counter(expected)
    query = "SELECT page, n FROM read_parquet('out/**/*.parquet', hive_partitioning=true)"
    assert Counter(duckdb.sql(query).fetchall()) == Counter(expected)
    polars = pl.read_parquet("out/**/*.parquet", hive_partitioning=True)
    assert Counter(polars.select("page", "n").rows()) == Counter(expected)


def test_rows_of_a_union_that_come_by_two_ways_are_in_one_file():
    one = writer(rr.sinks.parquet("out")).begin()
    one.folder.finish(0, [one.deliver_one(0, 0, rows(("/a", 1)), rows(("/b", 2)))])
    assert seen("out") == [("/a", 1), ("/b", 2)]
    assert len(list(Path("out").glob("*.parquet"))) == 1


def test_changes_of_a_table_have_a_sign_and_a_revision():
    one = writer(rr.sinks.parquet("out"), table=True).begin()
    one.write(0, changes(("+", "/a", 1, 0)))
    one.write(1, changes(("-", "/a", 1, 0), ("+", "/a", 2, 1)))
    found = ds.dataset("out").to_table().select(["change", "page", "n", "revision"])
    assert sorted(found.to_pylist(), key=lambda row: (row["revision"], row["change"])) == [
        {"change": "+", "page": "/a", "n": 1, "revision": 0},
        {"change": "-", "page": "/a", "n": 1, "revision": 0},
        {"change": "+", "page": "/a", "n": 2, "revision": 1},
    ]


def test_a_batch_that_comes_again_is_skipped_however_tasks_cut_it():
    one = writer(rr.sinks.parquet("out")).begin()
    one.write(0, rows(("/a", 1), ("/b", 2)))
    one.write(1, rows(("/c", 3)))
    before = files("out")
    again = writer(rr.sinks.parquet("out"), run=2).begin()
    again.write(1, rows(("/c", 3)))
    assert files("out") == before
    again.write(2, rows(("/d", 4)), rows(("/e", 5)))
    writer(rr.sinks.parquet("out"), run=3).begin().write(2, rows(("/e", 5), ("/d", 4)))
    assert seen("out") == [("/a", 1), ("/b", 2), ("/c", 3), ("/d", 4), ("/e", 5)]


def test_a_committed_batch_with_other_rows_stops_the_job():
    one = writer(rr.sinks.parquet("out")).begin()
    one.write(0, rows(("/a", 1)))
    one.write(1, rows(("/b", 2)))
    with pytest.raises(CheckpointError, match="batch 1 has other rows") as failure:
        one.write(1, rows(("/b", 3)))
    assert failure.value.code == "RR402"
    assert "--fresh" in failure.value.hint
    with pytest.raises(CheckpointError, match="the checkpoint is behind the folder"):
        one.write(0, rows(("/a", 1)))
    assert seen("out") == [("/a", 1), ("/b", 2)]


def test_sums_of_another_version_are_not_compared():
    one = writer(rr.sinks.parquet("out")).begin()
    one.write(0, rows(("/a", 1)))
    note = Path("out/_riverrun/shop", f"{CHECKPOINT}.json")
    noted = json.loads(note.read_text())
    assert noted["checksum"].startswith(f"{duckdb.__version__}:")
    note.write_text(json.dumps({**noted, "checksum": "1.0.0:77"}))
    one.write(0, rows(("/a", 1)))
    assert seen("out") == [("/a", 1)]
    with pytest.raises(CheckpointError):
        one.write(0, rows(("/a", 1), ("/b", 2)))


def test_another_checkpoint_writes_its_own_batches():
    writer(rr.sinks.parquet("out")).begin().write(0, rows(("/a", 1)))
    writer(rr.sinks.parquet("out"), 2, checkpoint="f" * 32).begin().write(0, rows(("/a", 1)))
    assert seen("out") == [("/a", 1), ("/a", 1)]


def test_an_earlier_run_writes_no_more_when_a_later_one_has_taken_over():
    old = writer(rr.sinks.parquet("out")).begin()
    late = old.deliver(0, rows(("/a", 1)))
    writer(rr.sinks.parquet("out"), run=2).begin()
    with pytest.raises(AlreadyRunning, match="a later run of 'shop' has taken over"):
        old.folder.finish(0, late)
    with pytest.raises(AlreadyRunning):
        old.folder.take_over("shop", 1)
    assert files("out") == ["_riverrun/shop/lock", "_riverrun/shop/run"]


def test_what_killed_tasks_left_is_removed():
    one = writer(rr.sinks.parquet("out")).begin()
    one.deliver(0, rows(("/a", 1)))
    assert not killed_at(None, lambda: one.write(0, rows(("/b", 2))))
    assert [file for file in files("out") if "staging" in file] == []
    one.deliver(1, rows(("/c", 3)))
    writer(rr.sinks.parquet("out"), run=2).begin()
    assert [file for file in files("out") if "staging" in file] == []


def test_a_folder_that_workers_do_not_share_is_an_error():
    one = writer(rr.sinks.parquet("out")).begin()
    receipts = one.deliver(0, rows(("/a", 1)))
    writer(rr.sinks.parquet("out")).begin()  # clears what is staged
    with pytest.raises(JobError, match="a file that a task wrote is not there"):
        one.folder.finish(0, receipts)
    assert not list(Path("out").glob("*.parquet"))


def test_folders_are_named_by_values_and_keep_their_order():
    schema = parse("day date, ok boolean, n int")
    sink = rr.sinks.parquet("out", partition_by=["day", "ok"])
    one = Writer(ParquetFolder, OutputSpec("out", sink, schema, (), False)).begin()
    table = pa.table({"day": [date(2026, 1, 1)] * 3, "ok": [True, False, True], "n": [3, 2, 1]})
    one.write(0, table)
    by_folder = {
        str(file.parent.relative_to("out")): pa.parquet.read_table(file, partitioning=None)
        for file in Path("out").glob("*/*/*.parquet")
    }
    assert {folder: found.to_pydict() for folder, found in by_folder.items()} == {
        "day=2026-01-01/ok=true": {"n": [3, 1]},
        "day=2026-01-01/ok=false": {"n": [2]},
    }


ATTEMPT = st.tuples(st.integers(1, 3), st.integers(0, 90), st.booleans())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(ATTEMPT, max_size=3), min_size=1, max_size=3), st.booleans())
def test_whatever_is_killed_each_row_is_there_once(batches, by_page):
    """Each batch is tried some times, cut anew, and killed at a call; then it is let through."""
    with tempfile.TemporaryDirectory() as folder:
        sink = rr.sinks.parquet(folder, partition_by="page" if by_page else ())
        run, ledger, zombies = 0, Counter(), []
        for batch, attempts in enumerate(batches):
            for pieces, call, late in [*attempts, (1, None, False)]:
                run += 1
                one = writer(sink, run)
                told = []
                work = lambda one=one, told=told, batch=batch, pieces=pieces: (  # noqa: E731
                    one.begin(),
                    told.extend(one.deliver(batch, *cut(batch_rows(batch), pieces))),
                    one.folder.finish(batch, told),
                )
                killed = killed_at(call, work)
                assert not Counter(seen(folder)) - ledger - Counter(batch_rows(batch))
                if killed and told and late:
                    zombies.append((one, batch, list(told)))
            for zombie, its_batch, receipts in zombies:
                with pytest.raises(AlreadyRunning):
                    zombie.folder.finish(its_batch, receipts)
            ledger += Counter(batch_rows(batch))
            assert Counter(seen(folder)) == ledger
        assert [file for file in files(folder) if "staging" in file] == []


def test_a_sink_is_named_as_it_is_written_and_its_folder_is_absolute(tmp_path):
    sink = rr.sinks.parquet("./out/", partition_by="page")
    assert (sink.name, sink.folder) == ("parquet:out", str(tmp_path / "out"))
    assert rr.sinks.delta(Path("/data/x")).name == "delta:/data/x"
    with pytest.raises(ProgramError, match="a folder is a path"):
        rr.sinks.parquet("s3://bucket/x")


def test_columns_that_do_not_fit_are_errors_of_the_program():
    views = rr.App("shop").stream("views", schema="page string, change int, x double")
    for sink, fact in (
        (rr.sinks.parquet("out", partition_by="pgae"), "there is no column 'pgae'"),
        (
            rr.sinks.parquet("out", partition_by="x"),
            "folders cannot be named by 'x', which is DOUBLE",
        ),
        (rr.sinks.parquet("out", partition_by=["page", "change"]), None),
    ):
        if fact is None:
            views.to(sink)
            continue
        with pytest.raises(ProgramError, match=fact):
            views.to(sink)
    with pytest.raises(ProgramError, match="no column is left"):
        views.select("page").to(rr.sinks.parquet("out", partition_by="page"))
    with pytest.raises(ProgramError, match="the column 'change' is one that files of changes have"):
        views.group_by("page").agg(change=rr.count()).to(rr.sinks.parquet("out"))


def test_two_outputs_do_not_share_a_folder(tmp_path):
    app = rr.App("shop")
    views = app.stream("views", schema="page string")
    views.to(rr.sinks.parquet("out"), rr.sinks.delta(tmp_path / "out"))
    with pytest.raises(ProgramError, match="two outputs are written to one folder"):
        app.program()


def test_a_folder_that_cannot_be_used_is_an_error_before_anything_runs():
    Path("file").write_text("")
    with pytest.raises(ConfigError, match="the folder of an output cannot be made"):
        writer(rr.sinks.parquet("file")).begin()
    Path("table/_delta_log").mkdir(parents=True)
    with pytest.raises(ConfigError, match="the folder holds a Delta table"):
        writer(rr.sinks.parquet("table")).begin()
