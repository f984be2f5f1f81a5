"""Functions, map, filter and aggregates of one's own on Spark; test_cluster has them, too."""

from __future__ import annotations

import json
import sys

import pytest

from riverrun.runtime.trial import run_files
from test_oracle import alike
from test_spark_engine import on_driver

STREAM = """
import riverrun as rr
app = rr.App({name!r})
views = app.stream({topic!r}, schema="page string, ms double, at timestamp_ms", time="at")
"""
FUNCTIONS = """
import math
from own_pages import label


@rr.function("double", over="polars")
def seconds(ms):
    return ms / 1000


class Geometric(rr.Aggregate):
    state = "n bigint default 0, logs double default 0"
    returns = "double"

    def add(self, state, x):
        state.n += 1
        state.logs += math.log(x)

    def merge(self, state, other):
        state.n += other.n
        state.logs += other.logs

    def finish(self, state):
        return round(math.exp(state.logs / state.n), 6)


def shortened(row):
    return {{"label": row.label.upper(), "s": row.s}} if row.s else None


rows = views.select(label="label(page)", s="seconds(ms)").filter(lambda row: row.s < 9)
rows = rows.map(shortened, schema="label string, s double")
made = rows.group_by("label", name="made")
made = made.agg(n=rr.count(), g=Geometric("s"), m=rr.max("seconds(s)"))
made.where("label(label) <> 'none'").to({output!r})
"""
OWN_MODULE = """
import riverrun as rr

PREFIX = "page "


@rr.function("string")
def label(page):
    return PREFIX + page
"""


SENT = [{"page": f"/{n % 3}", "ms": float(n % 10 * 1000), "at": n} for n in range(300)]


@pytest.mark.spark
def test_spark_gives_the_drivers_lines(session, tmp_path):
    """Functions by row and by column, filter, map, an own aggregate, and one before the writer."""
    scope = {"__name__": "written"}
    (tmp_path / "own_pages.py").write_text(OWN_MODULE)
    file, names = tmp_path / "same.py", {"name": "same", "topic": "same-views"}
    file.write_text((STREAM + FUNCTIONS).format(**names, output="same-out"))
    sys.path.insert(0, str(tmp_path))
    try:
        exec(compile(file.read_text(), str(file), "exec"), scope)
    finally:
        sys.path.remove(str(tmp_path))
    wrong = [{"page": "/0", "ms": -1.0, "at": 7}]
    lots = [json.dumps({"value": row, "partition": n % 2}) for n, row in enumerate(SENT + wrong)]
    files = {"same-views": tmp_path / "views.jsonl"}
    files["same-views"].write_text("\n".join([*lots[:120], "", *lots[120:]]) + "\n")
    driver, lines = on_driver(scope["app"], files)
    (letter,) = (line["value"] for line in driver.outputs["dead"])
    assert letter["cause"].startswith("ValueError: math domain error (same.py:")
    assert [row["n"] for row in driver.table("same-out")] == [80, 80, 80]
    assert alike(run_files(session, scope["app"], files, tmp_path / "run", ended=True), lines)
