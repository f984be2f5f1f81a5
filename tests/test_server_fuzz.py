"""Requests that are made up from what the server says of itself: none makes it fail.

`make fuzz-server` tries for ten minutes.
"""

from __future__ import annotations

import os
import time
from itertools import count, cycle

import schemathesis
from hypothesis import HealthCheck, given, seed, settings

from test_server import Serving, Stand, closed, home, serving, stand

__all__ = ["closed", "home", "serving", "stand"]

SECONDS = float(os.environ.get("FUZZ_SECONDS", "60"))
AT_ONCE = 25


def test_no_request_makes_the_server_fail(stand: Stand, serving: Serving) -> None:
    url = serving(rate=1e9, burst=1e9, seconds=2)
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    found = schema.exclude(path_regex="changes$").get_all_operations()  # a stream has no end
    operations = [each.ok() for each in found]
    assert len(operations) >= 4
    over_at, tried = time.monotonic() + SECONDS, count()
    for number, operation in enumerate(cycle(operations)):
        if time.monotonic() > over_at:
            break

        @seed(number)
        @settings(
            max_examples=AT_ONCE, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def is_answered(case: schemathesis.Case) -> None:
            next(tried)
            answer = case.call(timeout=30)
            assert answer.status_code < 500 or answer.status_code in {503, 504}, answer.text

        is_answered()
    assert next(tried) > 100
