"""How thorough the tests are: `make test EXAMPLES=10` tries ten times as many examples."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    return count * int(os.environ.get("EXAMPLES", "1"))
