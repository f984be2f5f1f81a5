"""The Bloom filter: no false negatives, false positives within the bound, the same as bytes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from riverrun.kernels.bloom import BloomFilter
from riverrun.kernels.chunks import with_hash


def hashes(start, end):
    """Those of keys, as a step's rows have them."""
    return with_hash(pl.DataFrame({"k": range(start, end)}), ("k",))["__hash"].to_numpy()


@pytest.mark.parametrize("error", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("capacity", [10, 1_000, 50_000])
def test_a_full_filter_is_wrong_as_rarely_as_it_says(capacity, error):
    made = BloomFilter(capacity, error)
    made.add(hashes(0, capacity))
    assert made.contains(hashes(0, capacity)).all()
    asked = 100_000
    wrong = made.contains(hashes(10**6, 10**6 + asked)).sum()
    # a filter of a few bytes has a rate of its own: more or fewer bits happen to be set
    spread = 1.5 if capacity < 100 else 1.1
    assert wrong <= asked * error * spread + 4 * np.sqrt(asked * error)


def test_an_empty_filter_knows_nothing():
    made = BloomFilter(100, 0.01)
    assert not made.contains(hashes(0, 1_000)).any()
    assert made.seen(hashes(0, 0)).tolist() == []


def test_seen_counts_earlier_rows_of_the_same_call():
    made = BloomFilter(100, 0.001)
    one, two, three = hashes(0, 3)
    assert made.seen(np.array([one, two, one, one])).tolist() == [False, False, True, True]
    assert made.seen(np.array([three, two, three])).tolist() == [False, True, True]
    assert made.contains(np.array([one, two, three])).all()


def test_seen_finds_what_a_set_finds_but_for_a_few():
    chance = np.random.default_rng(1)
    made, known, wrong = BloomFilter(20_000, 0.01), set(), 0
    for _ in range(20):
        batch = hashes(0, 20_000)[chance.integers(0, 20_000, 2_000)]
        for value, found in zip(batch.tolist(), made.seen(batch).tolist(), strict=True):
            assert found or value not in known
            wrong += found and value not in known
            known.add(value)
    assert wrong <= 0.01 * len(known)


def test_a_union_has_the_hashes_of_both():
    one, other = BloomFilter(1_000, 0.01), BloomFilter(1_000, 0.01)
    one.add(hashes(0, 500))
    other.add(hashes(500, 1_000))
    both = BloomFilter(1_000, 0.01)
    both.add(hashes(0, 1_000))
    assert one.union(other).to_bytes() == both.to_bytes()
    with pytest.raises(ValueError, match="cannot be united"):
        one.union(BloomFilter(1_000, 0.02))


def test_a_filter_survives_as_bytes():
    made = BloomFilter(1_000, 0.01)
    made.add(hashes(0, 1_000))
    again = BloomFilter.from_bytes(made.to_bytes())
    assert again.to_bytes() == made.to_bytes()
    assert again.contains(hashes(0, 1_000)).all()
    again.add(hashes(1_000, 1_001))
    assert len(made.to_bytes()) <= 1_000 * 10 / 8  # 9.6 bits a hash


@pytest.mark.parametrize(("capacity", "error"), [(0, 0.1), (10, 0), (10, 1)])
def test_a_filter_that_cannot_be_is_refused(capacity, error):
    with pytest.raises(ValueError, match="no Bloom filter"):
        BloomFilter(capacity, error)
