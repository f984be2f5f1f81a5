"""What is known of time is kept once for all pages, and is the same when a batch is run again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.clock import PartitionTimes, ProducerTimes
from riverrun.compiler.shape import LAYOUT, shape
from riverrun.compiler.upgrades import require_fit, require_layout
from riverrun.errors import CheckpointError
from riverrun.kernels.known import RETAINED, Known, KnownInFolder, KnownInMemory, place, places
from riverrun.partitions import Partition
from riverrun.testing import Driver
from thorough import examples
from timed import counted

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def known(number: int) -> Known:
    producers = {"t": ProducerTimes({"a": number, "é:/": 2}, {"a": 3, "é:/": 4}, ahead=-7)}
    times = PartitionTimes({Partition("u", 12): (number, 5)}, producers)
    return Known(times, {"step": number}, {"step": 9})


def test_another_process_finds_what_the_batch_before_left(tmp_path):
    place(tmp_path, 0, "run").keep(7, known(7), page=0)
    assert place(tmp_path, 0, "another").before(8) == known(7)
    assert [each.before(8) for each in places(tmp_path)] == [known(7)]
    assert place(tmp_path, 0, "another").before(7) is None
    assert place(tmp_path, 1, "another").before(8) is None


def test_what_a_process_has_computed_itself_it_knows_and_the_first_page_writes_it(tmp_path):
    kept = KnownInFolder(tmp_path / "0", "a run")
    kept.keep(7, known(7), page=5)
    assert kept.before(8) == known(7)
    assert not (tmp_path / "0").exists()
    kept.keep(7, known(7), page=0)
    kept.keep(8, known(8), page=0)
    assert kept.before(8) == known(7)  # batch 8 is run again


def test_as_many_batches_are_kept_as_spark_keeps_state_of(tmp_path):
    kept = KnownInFolder(tmp_path / "0", "a long run")
    for number in range(1, RETAINED + 11):
        kept.keep(number, known(number), page=0)
    names = {int(file.stem) for file in (tmp_path / "0").iterdir()}
    assert names == set(range(11, RETAINED + 11))


def test_in_memory_a_batch_that_is_run_again_starts_from_the_one_before():
    kept = KnownInMemory()
    assert kept.before(0) is None
    for number in (0, 1, 2, 2):
        kept.keep(number, known(number), page=0)
    assert (kept.before(2), kept.before(3)) == (known(1), known(2))


def test_a_page_that_nothing_happens_to_is_not_written():
    driver = counted(pages=8, producer="device")
    rows = "\n".join(f"12:00:{n:02} | d{n}" for n in range(40))
    driver.run(t=f"at | device\n{rows}")
    before = dict(driver.checkpoint.heads)
    assert len(before) == 8
    driver.run(t="at | device\n12:00:50 | d1")
    changed = [each for each in before if driver.checkpoint.heads[each] != before[each]]
    assert len(changed) == 1


def test_pages_without_what_was_known_of_time_are_an_error_that_says_what_to_do():
    driver = counted()
    driver.run(t="at | device\n12:00 | a")
    driver.known.clear()
    driver.restart()
    with pytest.raises(CheckpointError, match="what was known of time is not in the checkpoint"):
        driver.batch()


def test_state_of_an_earlier_layout_is_refused_and_a_program_without_state_goes_on():
    now = shape(counted().program)
    before = {name: fact for name, fact in now.items() if name != LAYOUT}
    require_fit(now, now, "here")
    require_layout(now, "here")
    for refuse in (lambda: require_fit(before, now, "here"), lambda: require_layout(before, "")):
        with pytest.raises(CheckpointError, match="another version of riverrun made it"):
            refuse()
    stateless = rr.App("plain")
    stateless.stream("t", schema="a string").to("out")
    kept = shape(stateless.program())
    require_fit({name: fact for name, fact in kept.items() if name != LAYOUT}, kept, "here")


def test_a_step_that_is_renamed_keeps_its_clock_and_one_of_its_old_name_starts_anew():
    before = known(5)
    assert before.renamed({"step": "new"}).clocks == {"new": 5}
    assert before.renamed({"step": "new"}).releases == {"new": 9}
    both = Known(before.times, {"step": 1, "new": 2})
    assert both.renamed({"step": "new"}) == both


event = st.fixed_dictionaries(
    {
        "after": st.integers(0, 900),
        "device": st.sampled_from(["a", "b", "c", "d"]),
        "partition": st.integers(0, 1),
    }
)
batches = st.lists(
    st.tuples(
        st.lists(event, max_size=5),
        st.integers(0, 90),
        st.sampled_from(["", "", "crash", "restart"]),
    ),
    min_size=1,
    max_size=8,
)


def two_levels(by) -> Driver:
    app = rr.App("iot", pages=3)
    stream = app.stream(
        "t", schema="at timestamp, device string", time="at", lateness="30 seconds",
        idle="2 minutes", **by,
    )  # fmt: skip
    first = stream.group_by("device", name="devices").window(rr.tumbling("1 minute"))
    counts = first.agg(n=rr.count())
    counts.to("out")
    counts.group_by("window_start", name="all").agg(n=rr.sum("n")).to("sums")
    return Driver(app)


def told(driver: Driver, batches, *, mishaps: bool):
    lines = []
    for rows, passed, mishap in batches:
        driver.tick += passed * 1_000_000
        for row in rows:
            at = (NOON + timedelta(seconds=row["after"])).isoformat()
            value = {"at": at, "device": row["device"]}
            driver.send("t", value, partition=row["partition"])
        if mishap and mishaps:
            getattr(driver, mishap)()
        lines.append((driver.batch(), driver.last.clocks, driver.last.holders))
    return [*lines, driver.end()]


@settings(deadline=None, max_examples=examples(15))
@given(batches, st.sampled_from([{}, {"producer": "device"}]))
def test_crashes_and_restarts_in_between_change_neither_clocks_nor_results(batches, by):
    undisturbed = told(two_levels(by), batches, mishaps=False)
    assert told(two_levels(by), batches, mishaps=True) == undisturbed
