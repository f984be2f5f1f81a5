"""Whether the state that a run begins with is all there: what is copied, and what a start finds."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from riverrun.errors import CheckpointError, InputError
from riverrun.kernels import known, page_files
from riverrun.kernels.known import Known
from riverrun.kernels.state import Names
from riverrun.runtime import checkpoint, copying
from riverrun.sources.planning import Offset

LAST = 3
"""The number of the last batch that is done, by which its state is named: Spark's is one less."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkpoint with an exchange after three batches, and a fourth that was begun. Rows of the
    first one are still listed."""
    folder = tmp_path / "source"
    query = folder / "query"
    for name in ("offsets", "commits", "sources/0"):
        (query / name).mkdir(parents=True)
    (folder / "program.json").write_text(json.dumps({"exchanges": 1}))
    row = Names(1).of(b"rows")
    head = json.dumps({"segments": {"step": {"rows": [row]}}}).encode()
    for batch in range(1, LAST + 2):
        offset = json.dumps(Offset({}, batch=batch).logged())
        (query / "offsets" / str(batch - 1)).write_text(f"v1\n{{}}\n{offset}")
        with page_files.place(query, 0).writer(batch, 0) as out:
            if batch == 1:
                out.put(0, row, b"rows")
            out.finish({0: head})
        known.place(query, 0).keep(batch, Known(), 0)
        if batch <= LAST:
            (query / "commits" / str(batch - 1)).write_text("v1\n{}")
    return folder


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("disk", ["same", "another"])
def test_a_copy_holds_what_belongs_to_the_batches_that_are_done(
    source, tmp_path, monkeypatch, disk
):
    for name in ("lock", "run.json", "found/x", "query/state/0/.2-1.pages.77.tmp"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(name)
    (source / "files").mkdir()
    (source / "files" / "orders.jsonl").write_text("{}")
    if disk == "another":
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError("another disk")))
    target = tmp_path / "target"
    target.mkdir()
    with copying.copied(source, target) as batch:
        assert not (target / "query").exists()
    assert batch == LAST - 1
    assert files(target) == {
        "id", "program.json", "files/orders.jsonl",
        *(f"query/{name}/{n}" for name in ("offsets", "commits") for n in range(LAST)),
        *(f"query/state/0/{n}-0.pages" for n in range(1, LAST + 1)),
        *(f"query/times/0/{n}.json" for n in range(1, LAST + 2)),
    }  # fmt: skip
    before = (target / "query/state/0/1-0.pages").read_bytes()
    shutil.rmtree(source)
    assert (target / "query/state/0/1-0.pages").read_bytes() == before


@pytest.mark.parametrize(
    "gone", ["commits/2", "offsets/2", "state/0/1-0.pages", "state/0/3-0.pages", "times/0/3.json"]
)
def test_a_copy_of_what_went_meanwhile_is_refused(source, tmp_path, monkeypatch, gone):
    """As for a copy that takes longer than a hundred batches."""
    target, began = tmp_path / "target", copying._inside
    target.mkdir()

    def inside(folder: Path):
        (source / "query" / gone).unlink(missing_ok=True)
        return began(folder)

    monkeypatch.setattr(copying, "_inside", inside)
    with (
        pytest.raises(InputError, match="while its state was copied"),
        copying.copied(source, target),
    ):
        pass
    assert not (target / "query").exists()


def test_there_is_nothing_to_copy_before_the_first_batch(tmp_path):
    (tmp_path / "source").mkdir()
    with (
        pytest.raises(InputError, match="no state yet"),
        copying.copied(tmp_path / "source", tmp_path),
    ):
        pass


def test_a_start_drops_what_was_not_committed(source):
    checkpoint.drop_uncommitted(source)
    assert page_files.place(source / "query", 0).parts(LAST) == [0]
    assert page_files.place(source / "query", 0).parts(LAST + 1) == []


@pytest.mark.parametrize("gone", ["state/0/3-0.pages", "times/0/3.json", "both", "commits"])
def test_a_start_without_the_state_of_the_last_batch_is_refused(source, gone):
    query = source / "query"
    if gone == "commits":
        shutil.rmtree(query / gone)
    else:
        both = ["state/0/3-0.pages", "times/0/3.json"]
        for name in both if gone == "both" else [gone]:
            (query / name).unlink()
    with pytest.raises(CheckpointError, match="not whole"):
        checkpoint.drop_uncommitted(source)
    assert page_files.place(query, 0).parts(2) == [0], "nothing was removed"


def test_an_exchange_that_an_earlier_program_had_is_not_asked_for(source):
    query = source / "query"
    known.place(query, 1).keep(LAST - 1, Known(), 0)
    (query / "state" / "1").mkdir()
    checkpoint.drop_uncommitted(source)
    (source / "program.json").write_text(json.dumps({"exchanges": 2}))
    with pytest.raises(CheckpointError, match="not whole"):
        checkpoint.drop_uncommitted(source)
