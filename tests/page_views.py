"""Page views out of order, for the contract of operators."""

from __future__ import annotations

import random
from typing import Any


def at(second: int) -> str:
    return f"2026-01-01T12:{second // 60:02d}:{second % 60:02d}Z"


def views(count: int = 40, *, apart: int = 5, late: int = 4, seed: int = 5) -> list[dict[str, Any]]:
    """Out of order by up to `late` places."""
    dice = random.Random(seed)
    rows = [
        {"id": n, "page": dice.choice("abc"), "user": dice.choice("xyz"), "ms": dice.randint(1, 9)}
        for n in range(count)
    ]
    rows = [{**row, "at": at(apart * n)} for n, row in enumerate(rows)]
    return sorted(rows, key=lambda row: row["id"] + dice.randint(0, late))
