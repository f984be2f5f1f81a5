"""riverrun: stream processing for Python on Apache Spark."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riverrun.aggregate import (
        approx_counts,
        approx_distinct,
        approx_percentile,
        approx_top,
        avg,
        collect,
        count,
        distinct,
        first,
        last,
        max,
        median,
        min,
        percentile,
        rate,
        stddev,
        sum,
        top,
        tumbling,
        variance,
    )
    from riverrun.app import App, screen, topic
    from riverrun.errors import ProgramError, RiverrunError
    from riverrun.stream import Grouped, Stream, Table

__all__ = [
    "App",
    "Grouped",
    "ProgramError",
    "RiverrunError",
    "Stream",
    "Table",
    "approx_counts",
    "approx_distinct",
    "approx_percentile",
    "approx_top",
    "avg",
    "collect",
    "count",
    "distinct",
    "first",
    "last",
    "max",
    "median",
    "min",
    "percentile",
    "rate",
    "screen",
    "stddev",
    "sum",
    "top",
    "topic",
    "tumbling",
    "variance",
]

_HOMES = {
    "riverrun.aggregate": (
        "approx_counts",
        "approx_distinct",
        "approx_percentile",
        "approx_top",
        "avg",
        "collect",
        "count",
        "distinct",
        "first",
        "last",
        "max",
        "median",
        "min",
        "percentile",
        "rate",
        "stddev",
        "sum",
        "top",
        "tumbling",
        "variance",
    ),
    "riverrun.app": ("App", "screen", "topic"),
    "riverrun.errors": ("ProgramError", "RiverrunError"),
    "riverrun.stream": ("Grouped", "Stream", "Table"),
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used: a command that needs no DuckDB starts without it."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'riverrun' has no attribute {name!r}")
