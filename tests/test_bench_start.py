"""`riverrun bench start`: from the start of a process to its first row, and its memory then."""

from __future__ import annotations

import json

import pytest

from conftest import Command


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_a_start_has_its_seconds_and_a_small_program_its_memory(riverrun: Command):
    found = json.loads(riverrun("bench", "start", "--small", "--json").out)
    for name in ("a filter", "a windowed count"):
        assert 0.5 < found["figures"][f"{name}, start 1: seconds to the first row"] < 120
    told = {each["name"]: each["measured"] for each in found["targets"]}
    assert 100 < told["a filter, at rest: MB"] < 10_000
