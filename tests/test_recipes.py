"""The recipes of CONTRIBUTING.md, followed: one file and its export for each new kind of thing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import riverrun as rr
from page_views import at
from recipes import module, sources
from riverrun.compiler.shape import shape
from riverrun.compiler.upgrades import verdicts
from riverrun.testing import Driver
from riverrun.testing.contracts import OperatorContract
from test_operator_contracts import OverViews

ROOT = Path(__file__).parents[1]
RECIPE = re.compile(r"^\| (an? \w+) \| `(\S+)` \| `(\S+)`: (`.*`) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("recipes")


class TestOwnOperator(OverViews):
    arrival_matters = True  # the first rows to come pass

    @pytest.fixture(autouse=True)
    def written(self, folder):
        self.first_rows = module("first_rows", folder).first_rows

    def program(self, app):
        self.rows(app).apply(self.first_rows("page", "user", limit=2)).to("out")


def orders() -> list[dict]:
    days = [3, 20, 45, 33, 80, 61, 100, 95, 130, 118, 200]
    return [
        {"id": n, "page": "a", "user": "x", "ms": 1, "at": moment(d)} for n, d in enumerate(days)
    ]


def moment(day: int) -> str:
    month, first = day // 28 + 1, day % 28 + 1
    return f"2026-{month:02d}-{first:02d}T12:00:00Z"


class TestOwnWindow(OperatorContract):
    @pytest.fixture(autouse=True)
    def written(self, folder):
        self.monthly = module("monthly", folder).monthly

    def program(self, app):
        rows = app.stream("views", schema="page string, ms int, at timestamp", time="at",
                          lateness="60 days", max_ahead=None)  # fmt: skip
        rows.group_by("page").window(self.monthly()).agg(n=rr.count(), ms=rr.sum("ms")).to("out")

    def records(self):
        return {"views": orders()}


def months(window, *, updatable="7 days", emit="ready") -> rr.App:
    app = rr.App("shop", pages=2)
    rows = app.stream("views", schema="page string, at timestamp", time="at", max_ahead=None)
    per_month = rows.group_by("page", name="months").window(window, updatable=updatable, emit=emit)
    per_month.agg(n=rr.count()).to("out")
    return app


def test_an_own_window_corrects_is_late_and_goes_on_after_a_crash(folder):
    driver = Driver(months(module("monthly", folder).monthly()))
    out = driver.run(
        views="""
        at                   | page
        2026-01-30T00:00:00Z | a
        2026-02-02T00:00:00Z | a      # January is ready
    """
    )
    driver.crash()
    out += driver.run(
        views="""
        at                   | page
        2026-01-01T00:00:00Z | a      # a straggler
        -----
        2026-02-08T00:00:00Z | a      # seven days on: January is closed
        -----
        2026-01-15T00:00:00Z | a      # too late
    """
    )
    shown = [(line["output"], line["op"], line["value"].get("n")) for line in out]
    assert shown == [
        ("out", "+", 1), ("out", "-", 1), ("out", "+", 2), ("months.late", "+", None),
    ]  # fmt: skip


def test_an_own_window_is_upgraded_as_others_are(folder):
    monthly = module("monthly", folder).monthly
    before = shape(months(monthly()).program())

    def outcome(app: rr.App) -> str:
        found = verdicts(before, shape(app.program()))
        return next(verdict.outcome for verdict in found if verdict.name == "months")

    assert outcome(months(monthly())) == "resumes"
    assert outcome(months(monthly(), updatable="1 day", emit="final")) == "resumes"
    assert outcome(months(rr.tumbling("1 day"))) == "refused"


USES = """
import json, sys
import riverrun as rr
from riverrun.formats import FORMATS
from riverrun.operators.registry import OPERATORS
from riverrun.testing import Driver

app = rr.App("shop", pages=2)
views = app.stream("views", schema="page string, n int", format="pairs")
views.group_by("page").window(rr.monthly()).agg(n=rr.count()).to("months")
views.to(rr.sinks.json_lines("lines"))
driver = Driver(app)
driver.send("views", b"page=a;n=1")
driver.end()
found = {name: lines for name, lines in driver.outputs.items() if lines}
print(json.dumps([sorted(found), "first rows" in OPERATORS, sorted(FORMATS)]))
"""


def recipes() -> dict[str, tuple[str, str, list[str]]]:
    """What to add, its file, the file that exports it, and the lines: each after its anchor."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return {
        what: (file, export, re.findall(r"`([^`]+)`", lines))
        for what, file, export, lines in RECIPE.findall(text)
    }


def follow(package: Path, file: str, export: str, lines: list[str]) -> None:
    """Writes the one file, and adds the lines to the one that exports it: each under its anchor."""
    text = sources()[Path(file).name]
    if "formats" in file:  # below everything that `riverrun.extend` names
        text = text.replace("from riverrun.extend import", "from riverrun.formats.format import")
    (package / file).write_text(text)
    exporting = (package / export).read_text()
    for line, anchor in zip(lines[::2], lines[1::2], strict=True):
        assert anchor in exporting, f"{export} has no {anchor!r}"
        exporting = exporting.replace(anchor, f"{anchor}\n{line}", 1)
    (package / export).write_text(exporting)


def test_one_file_and_an_export_are_all_that_a_new_kind_of_thing_needs(tmp_path):
    package = tmp_path / "riverrun"
    shutil.copytree(
        ROOT / "src" / "riverrun", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    assert set(recipes()) == {"a window", "a sink", "a format", "an operator"}
    for file, export, lines in recipes().values():
        follow(package, file, export, lines)
    done = subprocess.run(
        [sys.executable, "-c", USES],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs, operator, formats = json.loads(done.stdout.splitlines()[0])
    assert outputs == ["lines:lines", "months"]
    assert operator
    assert formats == ["debezium", "json", "lenient json", "nested json", "pairs"]


def test_times_of_views_are_a_minute_apart():
    assert at(61) == "2026-01-01T12:01:01Z"
