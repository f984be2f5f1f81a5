"""Page state: segments against a dictionary, whatever is appended, closed and looked up."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.kernels.state import FAN, Names, Segment, SegmentCache, SegmentList, save
from riverrun.testing.checkpoints import MemoryStore
from thorough import examples

SCHEMA = {"__slot": pl.Int64, "__hash": pl.UInt64, "key": pl.String, "value": pl.Int64}
NAMES = Names(0)
KEYS = [None, "a", "b", "c", "d", "e"]
COLLIDING = {None: 0, "a": 0, "b": 7, "c": 2**64 - 1, "d": 2**64 - 1, "e": 2**63}
"""Hashes: some keys share one, others differ in their lowest bits only."""


def frame(rows):
    """{(window, key): value} as rows."""
    return pl.DataFrame(
        [(window, COLLIDING.get(key, hash(key) % 2**64), key, value)
         for (window, key), value in rows.items()],
        schema=SCHEMA, orient="row",
    ).sort("__slot", "__hash")  # fmt: skip


def as_dict(rows):
    if rows is None:
        return {}
    found = {(r["__slot"], r["key"]): r["value"] for r in rows.iter_rows(named=True)}
    assert len(found) == rows.height, "a row came twice"
    return found


def empty():
    return SegmentList(("key",))


windows, keys = st.integers(-3, 12), st.sampled_from(KEYS)
changes = st.dictionaries(st.tuples(windows, keys), st.integers(0, 99), max_size=8)


@settings(deadline=None, max_examples=examples(60))
@given(batches=st.lists(st.tuples(changes, st.integers(0, 3)), max_size=12), data=st.data())
def test_segments_hold_what_a_dictionary_would(batches, data):
    state, store, cache, closed = empty(), MemoryStore(), SegmentCache(1 << 20), -5
    model = {}
    for rows, passed in batches:
        closed += passed
        live = {place: value for place, value in rows.items() if place[0] > closed}
        model = {p: v for p, v in (model | live).items() if p[0] > closed}
        state.append(frame(live), closed)
        ids = save(state, store, cache, "page", NAMES)
        assert sorted(ids) == sorted(store.data)
        state = SegmentList(("key",), [SegmentCache(0).get("page", each, store) for each in ids])

        wanted = data.draw(st.lists(st.tuples(windows, keys), unique=True, max_size=6))
        sought = {place: 0 for place in wanted if place[0] > closed}
        found = as_dict(state.lookup(frame(sought)))
        assert found == {place: model[place] for place in sought if place in model}

        low = closed + data.draw(st.integers(0, 4))
        high = low + data.draw(st.integers(0, 6))
        parts = state.between(low, high)
        assert as_dict(state.newest(parts) if parts else None) == {
            place: value for place, value in model.items() if low < place[0] <= high
        }


def test_keys_that_share_a_hash_are_told_apart():
    state = empty()
    state.append(frame({(0, None): 1, (0, "a"): 2, (0, "c"): 3, (0, "d"): 4}), -1)
    state.append(frame({(0, "a"): 5}), -1)
    assert as_dict(state.lookup(frame({(0, "a"): 0, (0, "d"): 0, (1, "a"): 0}))) == {
        (0, "a"): 5,
        (0, "d"): 4,
    }


@pytest.mark.parametrize("size", [1, 10])
def test_a_row_is_rewritten_a_logarithm_of_times(size):
    state, store, cache, written = empty(), MemoryStore(), SegmentCache(1 << 24), 0
    batches = 300
    for number in range(batches):
        rows = {(0, f"key {number} {each}"): number for each in range(size)}
        state.append(frame(rows), -1)
        written += sum(segment.rows.height for segment in state.added)
        ids = save(state, store, cache, "page", NAMES)
        state = SegmentList(("key",), [cache.get("page", each, store) for each in ids])
        assert len(ids) <= FAN * (math.log(number + 1, FAN) + 1)
    assert written <= batches * size * (math.log2(batches) + 1)


def test_segments_of_closed_windows_are_gone():
    state, store, cache = empty(), MemoryStore(), SegmentCache(1 << 20)
    for window in range(20):
        state.append(frame({(window, key): window for key in KEYS}), window - 3)
        ids = save(state, store, cache, "page", NAMES)
        state = SegmentList(("key",), [cache.get("page", each, store) for each in ids])
        held = sum(segment.rows.height for segment in state.segments)
        assert held <= 2 * 3 * len(KEYS)
    state.append(None, 19)
    assert save(state, store, cache, "page", NAMES) == []
    assert (store.data, cache.held, cache.size) == ({}, {}, 0)


def test_the_cache_keeps_to_its_limit_and_the_latest_segments():
    one = Segment("", frame({(0, "a"): 1})).size
    cache, store, ids = SegmentCache(3 * one), MemoryStore(), []
    for number in range(6):
        state = empty()
        state.append(frame({(number, "a"): number}), -1)
        ids += save(state, store, cache, "page", NAMES)
        assert cache.size <= cache.limit
    assert [segment for _, segment in cache.held] == ids[-3:]


def test_what_was_dropped_from_the_cache_is_read_again():
    cache, store, state = SegmentCache(0), MemoryStore(), empty()
    state.append(frame({(0, "a"): 1}), -1)
    ids = save(state, store, cache, "page", NAMES)
    other = SegmentCache(1 << 20)
    assert other.get("page", ids[0], store).rows.equals(state.segments[0].rows)
    assert other.get("page", ids[0], MemoryStore()).id == ids[0], "read only once"


def test_segments_that_another_worker_replaced_leave_the_cache():
    cache, store = SegmentCache(1 << 20), MemoryStore()
    state = SegmentList(("key",))
    state.append(frame({(0, "a"): 1}), -1)
    (mine,) = save(state, store, cache, "page", NAMES)
    cache.retain("page", {"other"})
    assert (list(cache.held), cache.size) == ([], 0)
    assert cache.get("page", mine, store).rows.height == 1


def test_a_batch_that_is_run_again_gives_the_same_names_to_the_same_rows():
    def written(batch, rows):
        state, store = empty(), MemoryStore()
        state.append(frame(rows), -1)
        save(state, store, SegmentCache(1 << 20), "page", Names(batch))
        return [*store.data]

    first = written(7, {(0, "a"): 1})
    assert written(7, {(0, "a"): 1}) == first
    assert written(7, {(0, "a"): 2}) != first
    assert written(8, {(0, "a"): 1}) != first
