"""Delta tables: a stream appended, a table kept, one commit per batch, whatever is killed."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from folders import CHECKPOINT, EVALUATOR, SCHEMA, Writer, batch_rows, changes, cut, files, rows
from killing import killed_at
from riverrun.errors import AlreadyRunning, CheckpointError, ConfigError
from riverrun.outputs import OutputSpec
from riverrun.schema import parse
from riverrun.sinks.delta_folder import DeltaFolder
from thorough import examples


def writer(
    folder: str = "out", run: int = 1, *, table: bool = False, schema=SCHEMA, key=("page",)
) -> Writer:
    sink = rr.sinks.delta(folder)
    return Writer(DeltaFolder, OutputSpec(sink.name, sink, schema, key, table), run)


def seen(folder: str = "out") -> list[tuple[str, int]]:
    found = DeltaTable(folder).to_pyarrow_table()
    return sorted(zip(*found.select(["page", "n"]).to_pydict().values(), strict=True), key=repr)


def commits(folder: str = "out") -> int:
    return len(list(Path(folder, "_delta_log").glob("*.json")))


def test_a_stream_is_appended_with_one_commit_per_batch():
    one = writer().begin()
    assert DeltaTable("out").to_pyarrow_table().num_rows == 0
    one.write(0, rows(("/a", 1)), rows(("/b", 2)))
    one.write(1, rows(("/a", 1)))
    assert seen() == [("/a", 1), ("/a", 1), ("/b", 2)]
    assert commits() == 3
    found = DeltaTable("out")
    assert found.transaction_version(f"riverrun:{CHECKPOINT}") == 1
    assert found.to_pyarrow_table()["at"][0].as_py() == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_table_is_kept_by_key():
    one = writer(table=True).begin()
    one.write(0, changes(("+", "/a", 1, 0), ("+", "/b", 1, 0)), changes(("+", None, 1, 0)))
    assert seen() == [("/a", 1), ("/b", 1), (None, 1)]
    one.write(
        1,
        changes(("-", "/a", 1, 0), ("+", "/a", 2, 1)),
        changes(("-", "/b", 1, 0), ("-", None, 1, 0), ("+", None, 2, 1), ("-", "/never", 1, 0)),
    )
    assert seen() == [("/a", 2), (None, 2)]
    assert commits() == 3
    assert [file for file in files("out") if "staging" in file] == []


def test_columns_may_have_any_name():
    schema = parse('"Page Nr" string, "it\'s" bigint, "select" timestamp')
    one = writer(table=True, schema=schema, key=("Page Nr", "select")).begin()
    made = changes(("+", "/a", 1, 0), ("+", "/b", 2, 0))
    one.write(0, made.rename_columns([*schema.names, "__op", "__revision"]))
    made = changes(("-", "/a", 1, 0), ("+", "/a", 3, 1), ("-", "/b", 2, 0))
    one.write(1, made.rename_columns([*schema.names, "__op", "__revision"]))
    assert DeltaTable("out").to_pyarrow_table().to_pylist() == [
        {"Page Nr": "/a", "it's": 3, "select": datetime(2026, 1, 1, tzinfo=UTC)}
    ]


def test_types_that_delta_has_not_are_widened_or_refused():
    schema = parse("u uinteger, big ubigint, h hugeint, tags string[], s struct(t timestamp)")
    one = writer(schema=schema, key=()).begin()
    query = (
        "SELECT 4294967295::UINTEGER AS u, 18446744073709551615::UBIGINT AS big, 5::HUGEINT AS h, "
        "['x'] AS tags, {'t': TIMESTAMP '2026-01-01'} AS s"
    )
    one.write(0, EVALUATOR.run(query))
    one.begin()
    assert DeltaTable("out").to_pyarrow_table().to_pylist() == [
        {
            "u": 4294967295,
            "big": Decimal(18446744073709551615),
            "h": Decimal(5),
            "tags": ["x"],
            "s": {"t": datetime(2026, 1, 1, tzinfo=UTC)},
        }
    ]
    with pytest.raises(ConfigError, match="a Delta table cannot hold the column 'at'"):
        writer("other", schema=parse("at time"), key=()).begin()


def test_a_table_with_other_columns_is_an_error_before_anything_is_written():
    write_deltalake("out", pa.table({"page": ["/a"], "n": ["1"], "more": [1]}))
    with pytest.raises(ConfigError, match="other columns than the output") as failure:
        writer().begin()
    assert failure.value.got == (
        "n is string, not long; at is missing, not timestamp; more is long, not written"
    )
    assert commits() == 1
    Path("full").mkdir()
    Path("full/data.csv").write_text("")
    with pytest.raises(ConfigError, match="neither empty nor a Delta table"):
        writer("full").begin()


def test_a_table_that_fits_is_taken_as_it_is():
    one = writer().begin()
    one.write(0, rows(("/a", 1)))
    other = writer(run=2)
    other.checkpoint = "f" * 32
    other.begin().write(0, rows(("/a", 1)))
    assert seen() == [("/a", 1), ("/a", 1)]


@pytest.mark.parametrize("table", [False, True])
def test_a_batch_that_comes_again_is_skipped_and_one_with_other_rows_stops_the_job(table):
    def made(*found: tuple[str, int]) -> pa.Table:
        return changes(*(("+", page, n, 0) for page, n in found)) if table else rows(*found)

    one = writer(table=table).begin()
    one.write(0, made(("/a", 1)))
    one.write(1, made(("/b", 2), ("/c", 3)))
    writer(run=2, table=table).begin().write(1, made(("/c", 3)), made(("/b", 2)))
    assert commits() == 3
    last = writer(run=3, table=table).begin()
    with pytest.raises(CheckpointError, match="batch 1 has other rows"):
        last.write(1, made(("/b", 3), ("/c", 3)))
    with pytest.raises(CheckpointError, match="the checkpoint is behind"):
        last.write(0, made(("/a", 1)))
    assert seen() == [("/a", 1), ("/b", 2), ("/c", 3)]


def test_a_batch_is_skipped_also_when_our_own_notes_are_lost():
    one = writer().begin()
    one.write(0, rows(("/a", 1)))
    Path("out/_riverrun/shop", f"{CHECKPOINT}.json").unlink()
    one.write(0, rows(("/a", 1)))
    assert seen() == [("/a", 1)]


def test_an_earlier_run_commits_no_more():
    old = writer().begin()
    late = old.deliver(0, rows(("/a", 1)))
    writer(run=2).begin()
    with pytest.raises(AlreadyRunning):
        old.folder.finish(0, late)
    assert seen() == []


def test_files_that_a_killed_run_moved_in_are_removed_when_the_batch_is_cut_anew():
    one = writer().begin()
    told = one.deliver(0, rows(("/a", 1), ("/b", 2)))
    # flock, the note in three calls and the move in two, each before and after
    assert killed_at(2 * (1 + 3 + 2), lambda: one.folder.finish(0, told))
    moved = list(Path("out").glob("*.parquet"))
    assert len(moved) == 1
    assert seen() == []
    writer(run=2).begin().write(0, rows(("/a", 1)), rows(("/b", 2)))
    assert seen() == [("/a", 1), ("/b", 2)]
    assert not moved[0].exists()


def test_a_table_may_be_compacted_while_it_is_written():
    one, done = writer(table=True).begin(), threading.Event()

    def compact() -> None:
        while not done.is_set():
            DeltaTable("out").optimize.compact()

    other = threading.Thread(target=compact)
    other.start()
    try:
        for batch in range(12):
            found = (("+", f"/{batch * 5 + n}", batch, 0) for n in range(10))
            one.write(batch, changes(*found))
    finally:
        done.set()
        other.join()
    expected = {f"/{batch * 5 + n}": batch for batch in range(12) for n in range(10)}
    assert sorted(seen()) == sorted(expected.items())


ATTEMPT = st.tuples(st.integers(1, 3), st.integers(0, 60), st.booleans())


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.lists(ATTEMPT, max_size=3), min_size=1, max_size=3), st.booleans())
def test_whatever_is_killed_each_batch_is_in_the_table_once(batches, table):
    """Each batch is tried some times, cut anew, and killed at a call; then it is let through."""
    with tempfile.TemporaryDirectory() as folder:
        run, ledger, zombies = 0, Counter(), []
        for batch, attempts in enumerate(batches):
            after = _after(ledger, batch, table)
            for pieces, call, late in [*attempts, (1, None, False)]:
                run += 1
                one, told = writer(folder, run, table=table), []

                def work(one=one, told=told, batch=batch, pieces=pieces):
                    one.begin()
                    told.extend(one.deliver(batch, *_parts(batch, pieces, table)))
                    one.folder.finish(batch, told)

                killed = killed_at(call, work)
                if Path(folder, "_delta_log").exists():
                    assert Counter(seen(folder)) in (ledger, after)
                if killed and told and late:
                    zombies.append((one, batch, list(told)))
            for zombie, its_batch, receipts in zombies:
                with pytest.raises(AlreadyRunning):
                    zombie.folder.finish(its_batch, receipts)
            ledger = after
            assert Counter(seen(folder)) == ledger
        assert commits(folder) == len(batches) + 1
        assert [file for file in files(folder) if "staging" in file] == []


def _changes(batch: int) -> list[tuple[str, str, int, int]]:
    """A key's changes are in one part: /0 is there in even batches, others count up."""
    found = [("+", f"/{n}", batch, batch) for n in (1, 2)]
    found += [("-", f"/{n}", batch - 1, batch - 1) for n in (1, 2) if batch]
    return [*found, ("-" if batch % 2 else "+", "/0", batch, batch)]


def _parts(batch: int, pieces: int, table: bool) -> list[pa.Table]:
    if not table:
        return cut(batch_rows(batch), pieces)
    own = [[c for c in _changes(batch) if int(c[1][1:]) % pieces == p] for p in range(pieces)]
    return [changes(*each) for each in own]


def _after(ledger: Counter, batch: int, table: bool) -> Counter:
    if not table:
        return ledger + Counter(batch_rows(batch))
    return Counter([("/1", batch), ("/2", batch), *([("/0", batch)] if batch % 2 == 0 else [])])
