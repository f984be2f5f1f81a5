"""riverrun: stream processing for Python on Apache Spark."""

from riverrun.aggregate import avg, collect, count, first, last, max, min, sum, tumbling
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
    "avg",
    "collect",
    "count",
    "first",
    "last",
    "max",
    "min",
    "screen",
    "sum",
    "topic",
    "tumbling",
]
