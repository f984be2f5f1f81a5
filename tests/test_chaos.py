"""The promise of the project in its short form: three kills; `make chaos` is the long one."""

from __future__ import annotations

import random

import pytest

from chaos import Chaos

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def test_every_input_is_counted_once_in_every_sink(tmp_path, capsys):
    with Chaos(tmp_path, random.Random(7), per_second=500) as chaos:
        for name in ("between_write_and_commit", "zombie", "postgres"):
            chaos.fault(name)
        found = chaos.finish()
    with capsys.disabled():
        print(f"\n{found}")
    assert found["records"] > 10_000
    assert sum(found["kills"].values()) >= 3
    assert (found["duplicates"], found["losses"], found["wrong rows"]) == (0, 0, 0), found
