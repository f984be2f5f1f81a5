"""riverrun: stream processing for Python on Apache Spark."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riverrun import alerts, sinks
    from riverrun.aggregate import (
        approx_counts,
        approx_distinct,
        approx_percentile,
        approx_top,
        avg,
        collect,
        compared_to,
        correlation,
        count,
        distinct,
        distinct_values,
        earliest,
        first,
        histogram,
        largest,
        last,
        latest,
        max,
        max_by,
        median,
        min,
        min_by,
        percentile,
        rate,
        smallest,
        stddev,
        sum,
        top,
        variance,
    )
    from riverrun.app import App
    from riverrun.errors import ProgramError, RiverrunError
    from riverrun.forgetting.declared import personal
    from riverrun.functions import function
    from riverrun.grouped import Grouped
    from riverrun.operators.match.fluent import pattern
    from riverrun.operators.windows.all_time import all_time
    from riverrun.operators.windows.hopping import hopping
    from riverrun.operators.windows.session import session
    from riverrun.operators.windows.sliding import sliding
    from riverrun.operators.windows.tumbling import tumbling
    from riverrun.own_aggregates import Aggregate
    from riverrun.processor import FrameProcessor, Processor
    from riverrun.queues.queue import queue
    from riverrun.sourcing import Rejected, upcast
    from riverrun.stream import Stream, Table
    from riverrun.times import append_time, device_time, processing_time

__all__ = [
    "Aggregate",
    "App",
    "FrameProcessor",
    "Grouped",
    "Processor",
    "ProgramError",
    "Rejected",
    "RiverrunError",
    "Stream",
    "Table",
    "alerts",
    "all_time",
    "append_time",
    "approx_counts",
    "approx_distinct",
    "approx_percentile",
    "approx_top",
    "avg",
    "collect",
    "compared_to",
    "correlation",
    "count",
    "device_time",
    "distinct",
    "distinct_values",
    "earliest",
    "first",
    "function",
    "histogram",
    "hopping",
    "largest",
    "last",
    "latest",
    "max",
    "max_by",
    "median",
    "min",
    "min_by",
    "pattern",
    "percentile",
    "personal",
    "processing_time",
    "queue",
    "rate",
    "session",
    "sinks",
    "sliding",
    "smallest",
    "stddev",
    "sum",
    "top",
    "tumbling",
    "upcast",
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
        "compared_to",
        "correlation",
        "count",
        "distinct",
        "distinct_values",
        "earliest",
        "first",
        "histogram",
        "largest",
        "last",
        "latest",
        "max",
        "max_by",
        "median",
        "min",
        "min_by",
        "percentile",
        "rate",
        "smallest",
        "stddev",
        "sum",
        "top",
        "variance",
    ),
    "riverrun.app": ("App",),
    "riverrun.errors": ("ProgramError", "RiverrunError"),
    "riverrun.forgetting.declared": ("personal",),
    "riverrun.functions": ("function",),
    "riverrun.own_aggregates": ("Aggregate",),
    "riverrun.processor": ("FrameProcessor", "Processor"),
    "riverrun.grouped": ("Grouped",),
    "riverrun.sourcing": ("Rejected", "upcast"),
    "riverrun.stream": ("Stream", "Table"),
    "riverrun.operators.match.fluent": ("pattern",),
    "riverrun.queues.queue": ("queue",),
    "riverrun.operators.windows.all_time": ("all_time",),
    "riverrun.operators.windows.hopping": ("hopping",),
    "riverrun.operators.windows.session": ("session",),
    "riverrun.operators.windows.sliding": ("sliding",),
    "riverrun.operators.windows.tumbling": ("tumbling",),
    "riverrun.times": ("append_time", "device_time", "processing_time"),
}

if not TYPE_CHECKING:  # to a type checker, every name would be there

    def __getattr__(name: str) -> Any:
        """Names are imported when they are used: what needs no DuckDB starts without it."""
        if name in ("alerts", "sinks"):
            return importlib.import_module(f"riverrun.{name}")
        for module, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(module), name)
        from riverrun.other_words import no_such_name  # noqa: PLC0415 - for mistakes only

        raise no_such_name("rr", name, __all__)
