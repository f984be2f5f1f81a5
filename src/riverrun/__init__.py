"""riverrun: stream processing for Python on Apache Spark."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riverrun.aggregate import (
        avg,
        collect,
        compared_to,
        count,
        first,
        last,
        max,
        min,
        sum,
    )
    from riverrun.app import App, screen, topic
    from riverrun.errors import ProgramError, RiverrunError
    from riverrun.stream import Grouped, Stream, Table
    from riverrun.window import all_time, hopping, session, sliding, tumbling

__all__ = [
    "App",
    "Grouped",
    "ProgramError",
    "RiverrunError",
    "Stream",
    "Table",
    "all_time",
    "avg",
    "collect",
    "compared_to",
    "count",
    "first",
    "hopping",
    "last",
    "max",
    "min",
    "screen",
    "session",
    "sliding",
    "sum",
    "topic",
    "tumbling",
]

_HOMES = {
    "riverrun.aggregate": (
        "avg",
        "collect",
        "compared_to",
        "count",
        "first",
        "last",
        "max",
        "min",
        "sum",
    ),
    "riverrun.app": ("App", "screen", "topic"),
    "riverrun.errors": ("ProgramError", "RiverrunError"),
    "riverrun.stream": ("Grouped", "Stream", "Table"),
    "riverrun.window": ("all_time", "hopping", "session", "sliding", "tumbling"),
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used: a command that needs no DuckDB starts without it."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'riverrun' has no attribute {name!r}")
