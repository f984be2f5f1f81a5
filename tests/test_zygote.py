"""What the zygote imports before it forks is whole in its children."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

COMPUTING = """
import os, signal
from riverrun.spark import zygote

for module in zygote.PRELOAD:
    __import__(module)
zygote.settle()
for number in range(8):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that waits for a thread that was not forked with it
        import duckdb, polars as pl, pyarrow.compute as pc
        frame = pl.DataFrame({"key": [n % 7 for n in range(50_000)], "n": range(50_000)})
        sums = frame.lazy().group_by("key").agg(pl.col("n").sum()).sort("key").collect()
        rows = frame.join(sums, on="key").sort("n", descending=True).to_arrow()
        found = duckdb.sql("SELECT sum(n) FROM rows").fetchall()[0][0]
        os._exit(0 if found == pc.sum(rows["n"]).as_py() == sums["n"].sum() else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, os.waitstatus_to_exitcode(status)
"""


def test_children_compute_with_everything_that_was_imported_before_they_were_forked():
    environ = {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMPUTING], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


BEGINS = """
from riverrun.spark import early
early.begin()
early.begin()
print(*(begun.process.pid for begun in early._waiting))
"""


def test_one_that_nobody_wants_ends_with_who_began_it():
    done = subprocess.run(
        [sys.executable, "-c", BEGINS], capture_output=True, text=True, check=True
    )
    [pid] = map(int, done.stdout.split())
    give_up_at = time.monotonic() + 60
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < give_up_at
        time.sleep(0.1)


def test_whether_an_argument_is_of_numpy_is_not_asked_of_pysparks_tests():
    code = """
import sys
import time

import psutil
import numpy as np
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
from riverrun.spark.converters import ask_numpy
ask_numpy()
values = [np.int64(1), np.array([1, 2]), np.array([[1]]), 1, "a", None]
print([NumpyScalarConverter().can_convert(each) for each in values])
print([NumpyArrayConverter().can_convert(each) for each in values])
print("pyspark.testing" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[True, False, False, False, False, False]",
        "[False, True, False, False, False, False]",
        "False",
    ]
