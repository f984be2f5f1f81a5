"""Lines of StatsD: `name:value|type|@rate|#tag:value,tag`."""

from __future__ import annotations

import math
import re
from typing import Any

TYPES = ("c", "g", "ms", "h", "d", "s")
"""Counter, gauge, time, histogram, distribution, set."""
LINE = re.compile(r"([^:|@\n]+):([^|\n]*)\|([a-z]+)((?:\|[^|\n]*)*)")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def record_of(line: str) -> dict[str, Any] | None:
    """The record of a line; None for one that cannot be read."""
    found = LINE.fullmatch(line)
    if found is None or found[3] not in TYPES:
        return None
    name, text, type, rest = found.groups()
    more = _more(rest)
    if more is None:
        return None
    if type == "s":
        return {"name": name, "value": None, "member": text, "type": type, **more}
    number = float(text) if NUMBER.fullmatch(text) else math.inf
    if not math.isfinite(number):
        return None
    delta = {"delta": True} if type == "g" and text[0] in "+-" else {}
    return {"name": name, "value": number, "type": type, **delta, **more}


def _more(text: str) -> dict[str, Any] | None:
    """The rate at which it was sampled, and tags; what else there may be is left out."""
    found: dict[str, Any] = {"rate": 1.0}
    for part in text.split("|")[1:]:
        if part.startswith("@"):
            rate = float(part[1:]) if NUMBER.fullmatch(part[1:]) else 0.0
            if not 0 < rate <= 1:
                return None
            found["rate"] = rate
        elif part.startswith("#"):
            pairs = (each.partition(":") for each in part[1:].split(",") if each)
            found["tags"] = {tag: value for tag, _, value in pairs}
    return found
