"""What is said of an aggregate, to people and to programs."""

from __future__ import annotations

from typing import Any

from riverrun.durations import duration_text
from riverrun.kernels.parts import Aggregation
from riverrun.schema import plain

_VALUES = {"approx_counts": "of", "histogram": "edges"}
"""What the values of an aggregate are called."""


def call_text(each: Aggregation) -> str:
    fractions = [f"{fraction:g}" for fraction in each.fractions]
    listed = each.type.endswith("[]")
    arguments = [
        plain(each.expression or ""),
        plain(each.other or ""),
        f"[{', '.join(fractions)}]" if fractions and listed else "".join(fractions),
        f"k={each.k}" if each.k else "",
        f"weight={plain(each.weight)}" if each.weight else "",
        f"{_VALUES[each.kind]}={list(each.values)}" if each.values else "",
    ]
    text = f"{each.kind}({', '.join(argument for argument in arguments if argument)})"
    period = each.compared_to
    return f"{text} compared to {duration_text(period)} before" if period else text


def aggregate_data(aggregation: Aggregation) -> dict[str, Any]:
    """What it computes over what, and the options that it has."""
    found = vars(aggregation)
    shown = ("name", "kind", "expression", "type")
    options = ("fractions", "k", "weight", "other", "values", "compared_to")
    return {each: found[each] for each in (*shown, *(o for o in options if found[o]))}
