"""Spark's start in a thread of its own: brokers and topics are made ready meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from psutil import Process
from pyspark import SparkContext
from pyspark.sql import SparkSession

from riverrun.spark.session import Spark, jvms, kill, submitted

LOOK = 0.1


@contextmanager
def booting(start: Callable[[], Spark], *, at_once: bool) -> Iterator[Callable[[], Spark]]:
    """Gives what waits for Spark, and raises what its start raised. Left before, it is ended.

    A start that changes the folder of the process cannot be `at_once`, beside other work. Nor is
    one where Spark runs in this process already: that it is ended would be heard there, too.
    """
    if not at_once or submitted() or SparkContext._active_spark_context is not None:
        yield start
        return
    with ThreadPoolExecutor(1, thread_name_prefix="spark") as thread:
        others = jvms()
        starting = thread.submit(start)
        taken: list[Spark] = []

        def there() -> Spark:
            taken.append(starting.result())
            _use_here(taken[0].session)
            return taken[0]

        try:
            yield there
        finally:
            if not taken:
                _end(starting, others)


def _use_here(session: SparkSession) -> None:
    """Spark looks for data sources in the session of the thread that asks."""
    of_jvm: Any = SparkSession._get_j_spark_session_class(session._jvm)
    of_jvm.setActiveSession(session._jsparkSession)


def _end(starting: Future[Spark], others: set[Process]) -> None:
    while not starting.done():
        kill(jvms() - others)
        wait([starting], LOOK)
    if starting.exception() is None:
        starting.result().stop()
    else:
        SparkContext._gateway = SparkContext._jvm = None
