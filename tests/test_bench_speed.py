"""Other systems are measured by what they show, and compared with what all events together give."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from riverrun.bench import latency, speed
from riverrun.bench.peers.starting import PEERS
from riverrun.bench.plot import bars
from riverrun.bench.watching import Sample, Seen
from riverrun.errors import JobError

VIEWS = pl.DataFrame(
    {"user": ["user-7", "user-7", "user-207"], "page": [1, 2, 3], "ms": [499.75, 500.0, 900.0],
     "at": [20_000, 29_999, 30_000]}
)  # fmt: skip


def test_what_is_expected_of_each_work():
    filtered, counted, joined = (
        speed.expected(kind, VIEWS) for kind in ("filter", "count", "join")
    )
    assert filtered["page"].to_list() == ["/page/2", "/page/3"]
    assert sorted(counted.rows()) == [
        ("user-207", 30_000, 1, 900.0),
        ("user-7", 20_000, 2, 999.75),
    ]
    assert joined["country"].to_list() == ["c7", "c7", "c7"]


def test_speed_is_that_after_the_first_rows():
    seen = Seen(Sample(10, 1000, 5.0), Sample(20, 11_000, 6.0), megabytes=1)
    assert seen.steady == (1000, 0.0001)


def test_what_shows_all_at_once_is_judged_from_its_start():
    seen = Seen(Sample(10, 1000, 5.0), Sample(10, 1000, 5.0), megabytes=1)
    assert seen.steady == (100, 0.005)


def test_a_view_has_come_when_a_count_of_its_window_includes_it():
    window = 1_000_000
    sent = {"at": np.array([window - 20_000, window, window + 1, window + 2]),
            "user": np.array([0, 1, 1, 1])}  # fmt: skip
    rows = [(window + 100, 1), (window + 150, 1), (window + 200, 3)]
    seen = [(at, {"user": "user-1", "start": window, "views": views}) for at, views in rows]
    assert latency.counted(sent, seen).tolist() == [100, 199, 198]


def test_the_picture_has_a_bar_for_each_system_the_fastest_first():
    drawn = bars(
        {"W0, a: events/s": 5, "W0, riverrun: events/s": 1000, "W0, a: lines": 3}, "events/s"
    )
    assert drawn.index("riverrun") < drawn.index(">a<")
    assert "1,000" in drawn
    assert ">3<" not in drawn


def test_every_system_has_a_program_and_riverrun_is_always_among_them():
    assert all(peer.program.exists() and peer.lines > 10 for peer in PEERS.values())
    assert [each.name for each in speed.chosen("quix")] == ["riverrun", "quix"]


def test_a_system_that_nobody_knows_is_refused_with_those_that_are_known():
    with pytest.raises(JobError, match="no system is called 'storm'"):
        speed.chosen("storm")
