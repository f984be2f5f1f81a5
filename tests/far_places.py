"""What every far file system does for checkpoints: the same cases for each, on a folder of it."""

from __future__ import annotations

import io
import json
import pickle

import pytest

from riverrun.kernels.kept import KeptInFolder, Logged, awaited, nobody_waits
from riverrun.runtime import checkpoint, runs
from riverrun.sources.folders.ledger import Ledger


class FarContract:
    @pytest.fixture
    def folder(self):
        """A folder that is not there yet."""
        raise NotImplementedError

    def test_files_are_written_whole_replaced_listed_and_removed(self, folder):
        assert not folder.exists()
        assert (folder.is_dir(), folder.files(), (folder / "a").size()) == (False, [], 0)
        with pytest.raises(FileNotFoundError):
            list(folder.iterdir())
        with pytest.raises(FileNotFoundError):
            (folder / "a").read_text()
        for text in ("one", "two and more", "3"):
            (folder / "query" / "a").write_text(text)
            assert (folder / "query" / "a").read_text() == text
        (folder / "b").copy(io.BytesIO(b"x" * 3_000_000))
        assert folder.files() == [("b", 3_000_000), ("query/a", 1)]
        assert sorted(each.name for each in folder.iterdir()) == ["b", "query"]
        assert (folder / "query").is_dir()
        assert not (folder / "b").is_dir()
        again = pickle.loads(pickle.dumps(folder / "query" / "a"))
        assert again.read_bytes() == b"3"
        (folder / "b").unlink()
        (folder / "b").unlink(missing_ok=True)
        (folder / "query").remove()
        (folder / "query").remove()
        assert folder.files() == []

    def test_a_checkpoint_is_held_by_one_and_says_who_ran_it(self, folder):
        with checkpoint.held(folder, "shop") as hold, runs.noted(folder, master="m", log=folder):
            hold()
            assert checkpoint.holder(folder) == runs.last(folder)["pid"]
            first = checkpoint.identity(folder)
            checkpoint.ask_to_stop(folder, "drain")
            assert checkpoint.wish_to_stop(folder) == "drain"
        assert runs.last(folder)["end"] == "stopped"
        assert checkpoint.holder(folder) is None
        assert checkpoint.known(folder)
        (folder / "query" / "offsets" / "7").write_text("")
        with checkpoint.held(folder, "shop"):
            assert checkpoint.wish_to_stop(folder) is None
            again = checkpoint.identity(folder)
            assert again.checkpoint == first.checkpoint
            assert again.run > first.run
            assert checkpoint.begun(folder)
            assert not checkpoint.committed(folder)
            checkpoint.forget(folder)
        assert not checkpoint.begun(folder)

    def test_what_a_batch_was_told_is_told_again_and_goes_three_batches_later(self, folder):
        kept = KeptInFolder(folder)
        assert kept.once(Logged(1, 10), "names", lambda: b"Ann") == b"Ann"
        assert kept.once(Logged(1, 10), "names", lambda: b"Bob") == b"Ann"
        assert kept.once(Logged(1, 11), "names", lambda: b"Bob") == b"Bob"
        kept.once(Logged(5, 12), "names", lambda: b"Cid")
        assert [name for name, _ in folder.files()] == ["000000000005-12/names"]
        kept.wait("names", "waiting for a database")
        assert awaited(folder) == ["waiting for a database"]
        nobody_waits(folder)
        assert awaited(folder) == []

    def test_files_that_a_stream_reads_are_noted_for_good(self, folder, tmp_path):
        ledger = Ledger(folder / "files" / "rows.jsonl")
        for number in range(3):
            (tmp_path / f"{number}.jsonl").write_text('{"a": 1}\n' * (number + 1))
            ledger.look(str(tmp_path / "*.jsonl"), settled=0)
        again = Ledger(ledger.file)
        again.load()
        assert [(each.first, each.rows) for each in again.entries] == [(0, 1), (1, 2), (3, 3)]
        cut = ledger.file.read_bytes() + b'{"path": "half'
        ledger.file.write_bytes(cut)
        again.load()
        assert again.entries == ledger.entries
        assert len(json.loads(cut.splitlines()[0])) == 6
