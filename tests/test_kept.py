"""What a batch was told from outside: the first answer holds, whatever is killed."""

from __future__ import annotations

import threading

import pytest

from killing import killed_at
from riverrun.kernels.kept import KeptInFolder, KeptInMemory, Logged, Outside, awaited, nobody_waits

FIRST = Logged(1, 1000)


def never():
    raise AssertionError("it was asked for again")


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_a_question_is_asked_once_per_batch(kind, tmp_path):
    kept = KeptInMemory() if kind == "memory" else KeptInFolder(tmp_path / "found")
    outside = Outside(kept, FIRST, "customers", 3)
    assert outside.once("names", lambda: b"Ann") == b"Ann"
    assert outside.once("names", never) == b"Ann"
    assert outside.once("cities", lambda: b"Oslo") == b"Oslo"
    for other in (
        Outside(kept, FIRST, "customers", 4),
        Outside(kept, FIRST, "users", 3),
        Outside(kept, Logged(2, 1000), "customers", 3),
        Outside(kept, Logged(1, 1001), "customers", 3),  # another one of that number
    ):
        assert other.once("names", lambda: b"Bob") == b"Bob"


def test_of_two_attempts_at_a_time_the_first_to_write_is_right(tmp_path):
    kept = KeptInFolder(tmp_path)
    found, both = [], threading.Barrier(8)

    def attempt(number):
        def ask():
            both.wait()  # all have found that nothing is there
            return str(number).encode() * 1000

        found.append(kept.once(FIRST, "names", ask))

    attempts = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for each in attempts:
        each.start()
    for each in attempts:
        each.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert kept.once(FIRST, "names", never) == found[0]
    [folder] = tmp_path.iterdir()
    assert [file.name for file in folder.iterdir()] == ["names"], "drafts are gone"


def test_killed_at_any_touch_of_the_disk_there_is_the_whole_answer_or_none(tmp_path):
    call, killed = 0, True
    while killed:
        kept = KeptInFolder(tmp_path / str(call))
        killed = killed_at(call, lambda kept=kept: kept.once(FIRST, "names", lambda: b"old" * 9))
        assert kept.once(FIRST, "names", lambda: b"new" * 9) in (b"old" * 9, b"new" * 9)
        assert kept.once(FIRST, "names", never)
        call += 1
    assert call > 5


def test_answers_are_deleted_some_batches_later(tmp_path):
    kept = KeptInFolder(tmp_path)
    for batch in range(1, 9):
        kept.once(Logged(batch, batch), "names", lambda: b"Ann")
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        f"{batch:012d}-{batch}" for batch in (5, 6, 7, 8)
    ]
    [file] = (tmp_path / f"{8:012d}-8").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_who_waits_is_told_until_it_is_over(tmp_path):
    kept = KeptInFolder(tmp_path)
    assert awaited(tmp_path) == []
    pages = [Outside(kept, FIRST, "customers", page) for page in range(2)]
    for each in pages:
        each.wait("waiting for PostgreSQL")
    assert awaited(tmp_path) == ["waiting for PostgreSQL"]
    pages[0].wait(None)
    assert awaited(tmp_path) == ["waiting for PostgreSQL"]
    pages[1].wait(None)
    assert awaited(tmp_path) == []
    pages[0].wait("for ever")
    nobody_waits(tmp_path)  # it was killed
    assert awaited(tmp_path) == []
