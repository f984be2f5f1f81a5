"""`riverrun bench profile`: where each microsecond goes."""

from __future__ import annotations

import json
import time

import pytest

from conftest import Command
from riverrun.bench.stages import Stages


def work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_what_a_stage_does_inside_of_another_is_its_own():
    stages = Stages()
    with stages.of("outer"):
        work(0.02)
        with stages.of("inner"):
            work(0.05)
        work(0.02)
    assert stages.seconds["outer"] == pytest.approx(0.04, abs=0.01)
    assert stages.seconds["inner"] == pytest.approx(0.05, abs=0.01)


def test_an_iterator_is_timed_while_it_makes_the_next_one_alone():
    stages = Stages()

    def numbers():
        for number in range(3):
            work(0.01)
            yield number

    for _ in stages.each("made", numbers()):
        work(0.02)
    assert stages.seconds["made"] == pytest.approx(0.03, abs=0.01)


def test_functions_are_watched_and_generators_are_run_to_their_end():
    class Reader:
        def parts(self):
            for number in range(2):
                work(0.01)
                yield number

    stages = Stages()
    stages.watch(Reader, "parts", "read")
    assert list(Reader().parts()) == [0, 1]
    assert stages.seconds["read"] == pytest.approx(0.02, abs=0.01)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_a_profile_tells_the_stages_the_floor_and_what_spark_takes(
    riverrun: Command, broker: dict[str, str]
):
    found = json.loads(riverrun("bench", "profile", "--small", "--json").out)["figures"]
    for program in ("filter", "count", "join"):
        for part in ("read", "decode", "write", "floor of read", "all on Spark"):
            assert found[f"{program}, {part}: CPU us/event"] > 0
    assert found["count, kernel: CPU us/event"] > 0
    assert "filter, kernel: CPU us/event" not in found
