"""`riverrun bench batch`: the parts of a nearly empty batch."""

from __future__ import annotations

import json

import pytest

from conftest import Command
from riverrun.bench.batch import table


def batch(whole: int, running: int, *, jvm: float, python: float) -> dict[str, object]:
    took = {"latestOffset": 2, "walCommit": 5, "addBatch": running, "triggerExecution": whole}
    return {"parts": took, "cpu_of": {"JVM": jvm, "Python": python}}


def test_medians_of_parts_and_of_cpu_from_batch_to_batch():
    found = table([
        batch(100, 80, jvm=1.0, python=1.0),
        batch(110, 90, jvm=1.05, python=1.1),
        batch(300, 280, jvm=1.11, python=1.2),
    ])  # fmt: skip
    assert found["whole"] == 110
    assert found["running"] == 90
    assert (found["planning"], found["logging"], found["committing"]) == (2, 5, 0)
    assert found["between"] == 13
    assert found["CPU of Python"] == pytest.approx(100)
    assert found["CPU of JVM"] == pytest.approx(55)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_every_program_has_its_parts(riverrun: Command):
    found = json.loads(riverrun("bench", "batch", "--small", "--json").out)
    for program in ("no state", "one exchange", "two exchanges"):
        assert (
            found["figures"][f"{program}, whole: ms"] > found["figures"][f"{program}, running: ms"]
        )
