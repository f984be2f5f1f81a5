"""Clients read their own writes, whatever is killed: the short form of `make chaos-serve`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from chaos_serve import Chaos


@pytest.mark.spark
@pytest.mark.broker
def test_no_read_misses_its_own_write_whatever_is_killed(tmp_path: Path) -> None:
    with Chaos(tmp_path, clients=10, chosen=random.Random(1)) as chaos:
        chaos.advance(2)
        for what in ("server", "job", "broker"):
            chaos.kill(what)
            chaos.advance(1)
        written = chaos.finish()
    assert len(written) == 10
