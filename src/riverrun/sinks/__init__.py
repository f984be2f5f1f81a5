"""Where results go: `rr.sinks.topic(…)` and the others.

Each kind is a module or a folder here, with its description and its destination side by side. It
is loaded when it is first named: a program without Delta tables does not wait for their library.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riverrun.sinks.delta_folder import delta
    from riverrun.sinks.fulltext.sink import search_index
    from riverrun.sinks.kafka.sink import topic
    from riverrun.sinks.parquet_folder import parquet
    from riverrun.sinks.postgresql.sink import postgres
    from riverrun.sinks.sqlite_file import sqlite
    from riverrun.sinks.terminal import screen
    from riverrun.sinks.valkey.sink import cache
    from riverrun.sinks.viewing.sink import view
    from riverrun.sinks.webhooks import webhook

__all__ = [
    "cache",
    "delta",
    "parquet",
    "postgres",
    "screen",
    "search_index",
    "sqlite",
    "topic",
    "view",
    "webhook",
]

_HOMES = {
    "cache": "valkey.sink",
    "delta": "delta_folder",
    "parquet": "parquet_folder",
    "postgres": "postgresql.sink",
    "screen": "terminal",
    "search_index": "fulltext.sink",
    "sqlite": "sqlite_file",
    "topic": "kafka.sink",
    "view": "viewing.sink",
    "webhook": "webhooks",
}
"""No module has the name of a function: once loaded, it would stand in its place."""

if not TYPE_CHECKING:  # to a type checker, every name would be there

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'riverrun.sinks' has no attribute {name!r}")
        return getattr(importlib.import_module(f"riverrun.sinks.{_HOMES[name]}"), name)
