"""Derived systems are read back with their batch, and made anew while they stand."""

from __future__ import annotations

import threading
import time

import pytest

from derived import EVALUATOR, Derived, as_rows, change
from riverrun.errors import DatabaseError
from riverrun.outputs import Owner


@pytest.fixture(params=["search index", "cache of json", "cache of hash"])
def derived(request, tmp_path, valkey):
    return Derived(request.param, tmp_path, valkey)


def owner(writer):
    return Owner(writer.application, writer.checkpoint)


def renewal(writer):
    return writer.destination.renewal(writer.output, owner(writer))


def told(writer, *changes):
    return as_rows(writer.output, changes)


def test_what_stands_is_told_with_the_last_batch_that_wrote(derived):
    writer = derived.writer(1).begin()

    def standing():
        with writer.destination.standing(writer.output, owner(writer)) as found:
            rows = [row for table in found.rows for row in table.to_pylist()]
            return found.batch, sorted((row["id"], row["n"]) for row in rows)

    assert standing() == (-1, [])
    writer.write(0, change(1, "a", 1), task=0)
    writer.write(4, change(1, "b", 2), change(1, "c", 3), task=1)
    assert standing() == (4, [("a", 1), ("b", 2), ("c", 3)])


def test_a_table_is_made_anew_beside_the_old_one_and_takes_its_place_in_one_step(derived):
    """The job goes on meanwhile, and after it a part that comes again is still known."""
    writer = derived.writer(1).begin()
    writer.write(0, change(1, "a", 1), change(1, "b", 1), change(1, "c", 1), task=0)
    with renewal(writer) as new:
        new.change(told(writer, change(1, "a", 1), change(1, "d", 1)), EVALUATOR)
        writer.write(1, change(1, "e", 1), task=1)
        new.change(told(writer, change(1, "b", 2), change(1, "x", 1)), EVALUATOR)
        new.change(told(writer, change(1, "e", 1), change(-1, "x", 1)), EVALUATOR)
        derived.holds({"a": 1, "b": 1, "c": 1, "e": 1})
        with new.held() as batch:
            assert batch == 1
            done = new.swap(1)
    assert (done.added, done.changed, done.removed) == (1, 1, 1)
    derived.holds({"a": 1, "b": 2, "d": 1, "e": 1})
    writer.write(1, change(1, "e", 1), task=1)
    writer.write(2, change(-1, "d", 1), change(-1, "b", 2), change(1, "b", 3), task=0)
    derived.holds({"a": 1, "b": 3, "e": 1})


def _killed(writer):
    with renewal(writer) as new:
        new.change(told(writer, change(1, "a", 2)), EVALUATOR)
        raise ZeroDivisionError


def test_one_that_is_left_before_its_swap_leaves_nothing(derived):
    writer = derived.writer(1).begin()
    writer.write(0, change(1, "a", 1))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            _killed(writer)
    derived.holds({"a": 1})
    writer.write(1, change(-1, "a", 1), change(1, "a", 3))
    derived.holds({"a": 3})


def test_writers_wait_while_it_is_held(derived):
    writer, ended = derived.writer(1).begin(), []

    def write():
        writer.write(0, change(1, "a", 1))
        ended.append(time.monotonic())

    with renewal(writer) as new, new.held():
        waiting = threading.Thread(target=write)
        waiting.start()
        time.sleep(0.5)
        released = time.monotonic()
    waiting.join(30)
    assert ended[0] > released
    derived.holds({"a": 1})


def test_two_do_not_hold_a_cache_at_once(tmp_path, valkey):
    writer = Derived("cache of json", tmp_path, valkey).writer(1).begin()
    with renewal(writer) as one, one.held(), renewal(writer) as other:
        held = other.held()
        with pytest.raises(DatabaseError, match="another verification or rebuild"):
            held.__enter__()
