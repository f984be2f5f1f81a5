"""The short form of `make chaos-queue`: jobs for workers that are killed and frozen."""

from __future__ import annotations

import random

import pytest

from chaos_queue import Chaos, judge


@pytest.mark.broker
def test_each_job_is_done_and_what_is_done_twice_is_accounted_for(broker_settings, tmp_path):
    chaos = Chaos(broker_settings, tmp_path, random.Random(5), print)
    chaos.longest = 0.4
    found = chaos.run(500, workers=3, kills=2)
    judge(found)
    assert (found.kills, found.freezes) == (2, 1), found
    assert found.late, "the worker that was frozen came too late"
