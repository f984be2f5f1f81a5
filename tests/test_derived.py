"""Derived systems hold the table, row by row, whatever comes again, moves or is killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from derived import BATCHES, KEYS, Derived, change
from riverrun.errors import AlreadyRunning
from thorough import examples


@pytest.fixture(params=["search index", "cache of json", "cache of hash"])
def kind(request):
    return request.param


CHANGES = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3) | st.none(), max_size=5)
"""New rows by key; None deletes."""
STEP = st.tuples(CHANGES, st.integers(1, 2), st.sampled_from(["", "", "run", "checkpoint"]))
"""A batch, how often it is delivered, and what begins before it."""


@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEP, min_size=1, max_size=6), cores=st.lists(st.integers(1, 3), min_size=7))
def test_whatever_comes_again_and_wherever_keys_move_the_rows_are_those_of_the_table(
    kind, tmp_path, valkey, steps, cores
):
    derived, table = Derived(kind, tmp_path, valkey), {}
    run, checkpoint, batch, earlier = 1, 0, 0, []
    writer = derived.writer(run, "c0").begin()
    for changes, times, begun in steps:
        if begun:
            earlier.append(writer)
            run, checkpoint = run + 1, checkpoint + (begun == "checkpoint")
            batch = 0 if begun == "checkpoint" else batch
            writer = derived.writer(run, f"c{checkpoint}").begin()
        told = []
        for key, n in changes.items():
            if key in table:
                told.append(change(-1, key, table.pop(key)))
            if n is not None:
                told.append(change(1, key, n))
                table[key] = n
        tasks = cores[checkpoint]
        for _ in range(times):
            parts = [
                [each for each in told if KEYS.index(each[1]["id"]) % tasks == task]
                for task in range(tasks)
            ]
            receipts = [
                writer.deliver(batch, *part, task=task) for task, part in enumerate(parts) if part
            ]
            writer.destination.finish(batch, receipts)
        for zombie in earlier:
            with pytest.raises(AlreadyRunning):
                zombie.deliver(batch, change(1, "a", 9))
        batch += 1
        derived.holds(table)


CHILD = """
import sys
sys.path.insert(0, {tests!r})
from derived import BATCHES, Derived, batch_of
derived = Derived({kind!r}, {folder!r}, {url!r})
derived.name = {name!r}
writer = derived.writer(int(sys.argv[1])).begin()
for batch in range(int(sys.argv[2]), BATCHES):
    for task in range(2):
        writer.deliver(batch, *batch_of(batch, task), task=task)
    writer.destination.finish(batch, [])
    print(batch, flush=True)
"""


@pytest.mark.parametrize("kind", ["search index", "cache of json"])
def test_a_writer_that_is_killed_at_any_time_leaves_each_part_whole_or_not_at_all(
    kind, tmp_path, valkey
):
    """`kill -9` of the process some milliseconds after a batch; the next run begins there again."""
    derived, chance, done = Derived(kind, tmp_path, valkey), random.Random(7), -1
    script = CHILD.format(
        tests=str(Path(__file__).parent), kind=kind, folder=str(tmp_path), url=valkey,
        name=derived.name,
    )  # fmt: skip
    for run in range(1, 30):
        command = [sys.executable, "-c", script, str(run), str(done + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                done = int(line)
                if run < 3 and chance.random() < 0.5:
                    time.sleep(chance.random() * 0.1)
                    child.send_signal(signal.SIGKILL)
                    done += sum(1 for _ in child.stdout)
                    break
        assert child.returncode in (0, -signal.SIGKILL)
        _assert_whole(derived.rows(), done)
        if child.returncode == 0:
            break
    last = BATCHES - 1
    assert done == last
    derived.holds({f"{task}{n}": last for task in range(2) for n in range(50)})


def _assert_whole(rows, done):
    """Of each task all rows are of one batch: the last that was told, or the next."""
    for task in "01":
        found = {row["n"] for row in rows if row["id"][0] == task and row["id"][1:] != "x"}
        assert len(found) == 1
        assert found <= {done, done + 1}
