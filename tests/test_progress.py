"""What is skipped, what is written, and what stops a job when a part comes again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import PART
from riverrun.errors import AlreadyRunning, CheckpointError
from riverrun.sinks.progress import Progress, checksum, done, refuse_if_fenced

NOW = Progress(batch=5, rows=10, checksum=77, run=1)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, False),
        (replace(NOW, batch=4), False),
        (NOW, True),
        (replace(NOW, run=2), True),
    ],
)
def test_a_part_is_done_when_its_batch_is(stored, expected):
    assert done(replace(PART, batch=5), stored, NOW) is expected


@pytest.mark.parametrize("other", [{"rows": 11}, {"checksum": 78}])
def test_the_same_batch_with_other_rows_tells_what_to_do(other):
    with pytest.raises(CheckpointError) as caught:
        done(replace(PART, batch=5), replace(NOW, **other), NOW)
    assert caught.value.where == "task 0 of 'shop'"
    assert "now: 10 rows, checksum 4d" in caught.value.got
    assert "--keep-written" in caught.value.hint
    assert done(replace(PART, batch=5, keep_written=True), replace(NOW, **other), NOW)


def test_a_checkpoint_that_is_behind_what_is_written_stops_the_job():
    with pytest.raises(CheckpointError, match="stands at batch 5, and batch 6 is written"):
        done(replace(PART, batch=5, keep_written=True), replace(NOW, batch=6), NOW)


def test_a_checksum_does_not_depend_on_pieces():
    assert checksum([b"ab", b"", b"c"]) == checksum([b"abc"]) == checksum([b"a", b"bc"])
    assert checksum([b"ab"]) != checksum([b"ba"])


def test_only_an_earlier_run_is_fenced():
    refuse_if_fenced(PART, None)
    refuse_if_fenced(PART, PART.run)
    with pytest.raises(AlreadyRunning, match="has taken over"):
        refuse_if_fenced(PART, PART.run + 1)
