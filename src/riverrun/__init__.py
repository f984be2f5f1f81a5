"""riverrun: stream processing for Python on Apache Spark."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riverrun.aggregate import avg, collect, count, first, last, max, min, sum, tumbling
    from riverrun.app import App, screen, topic
    from riverrun.errors import ProgramError, RiverrunError
    from riverrun.stream import Grouped, Stream, Table
    from riverrun.times import append_time, device_time, processing_time

__all__ = [
    "App",
    "Grouped",
    "ProgramError",
    "RiverrunError",
    "Stream",
    "Table",
    "append_time",
    "avg",
    "collect",
    "count",
    "device_time",
    "first",
    "last",
    "max",
    "min",
    "processing_time",
    "screen",
    "sum",
    "topic",
    "tumbling",
]

_HOMES = {
    "riverrun.aggregate": (
        "avg",
        "collect",
        "count",
        "first",
        "last",
        "max",
        "min",
        "sum",
        "tumbling",
    ),
    "riverrun.app": ("App", "screen", "topic"),
    "riverrun.errors": ("ProgramError", "RiverrunError"),
    "riverrun.stream": ("Grouped", "Stream", "Table"),
    "riverrun.times": ("append_time", "device_time", "processing_time"),
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used: a command that needs no DuckDB starts without it."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'riverrun' has no attribute {name!r}")
