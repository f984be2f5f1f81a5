"""What benchmarks found, noted: a file of JSON for each, and one page made of them all."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from riverrun.bench.plot import bars
from riverrun.bench.report import Report

MEASURES = (
    "events/s", "CPU us/event", "first batch, s", "first row, s", "memory, MB", "lines",
    "p50, s", "p95, s", "p99, s", "ms",
)  # fmt: skip
"""What is measured of each run of an engine."""

HEAD = """# Benchmarks

Each section is what one command printed in one run, on one machine. `ours` is riverrun; `raw_spark`
is plain PySpark (Kafka source, from_json, built-in aggregate, Kafka sink), on the same events, from
and to the same broker. CPU is that of all processes but the broker. A benchmark that is run with
`--note docs/benchmarks` keeps what it found in [a file]({folder}), and makes this page of all files
anew; `riverrun bench report docs/benchmarks` only makes the page.
"""


def note(folder: Path, name: str, report: Report, *, about: str) -> None:
    """Keeps what a benchmark found, with where and when, and makes the page anew."""
    found = report.as_json()
    kept = {"command": f"riverrun bench {name}", "about": about, **_circumstances()}
    kept |= {each: found[each] for each in ("figures", "targets")}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name.replace(' --', '-')}.json"
    file.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    if name == "speed":
        file.with_suffix(".svg").write_text(bars(report.figures, "events/s"))
    write_page(folder)


def write_page(folder: Path) -> Path:
    page = folder.with_suffix(".md")
    page.write_text(page_of(folder))
    return page


def page_of(folder: Path) -> str:
    files = sorted(folder.glob("*.json"))
    parts = [line for file in files for line in _section(file)]
    return "\n".join([HEAD.format(folder=folder.name), *parts])


def _circumstances() -> dict[str, Any]:
    memory = round(psutil.virtual_memory().total / 1e9)
    versions = {each: version(each) for each in ("riverrun", "pyspark", "duckdb", "polars")}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {memory} GB, {platform.machine()}",
        "versions": {**versions, "python": platform.python_version()},
    }


def _section(file: Path) -> Iterator[str]:
    noted = json.loads(file.read_text())
    versions = ", ".join(f"{name} {number}" for name, number in noted["versions"].items())
    yield from (f"## {noted['command']}", "", noted["about"], "")
    when = f"{noted['date']}; {noted['machine']}; {versions}. {noted.get('origin', '')}"
    yield from (when.strip(), "")
    if (picture := file.with_suffix(".svg")).exists():
        yield from (f"![events a second]({picture.parent.name}/{picture.name})", "")
    yield from _runs(noted["figures"])
    yield from _others(noted["figures"])
    targets = ([t["name"], t["target"], _text(t["measured"])] for t in noted["targets"])
    yield from _table(["target", "bound", "measured"], list(targets))


def _runs(figures: dict[str, Any]) -> Iterator[str]:
    """What has several measures: a row for each run."""
    names = dict.fromkeys(name.rpartition(": ")[0] for name in figures if _measure(name))
    used = [each for each in MEASURES if any(_measure(name) == each for name in figures)]
    rows = [[n, *(_text(figures.get(f"{n}: {each}")) for each in used)] for n in names]
    yield from _table(["run", *used], rows)


def _others(figures: dict[str, Any]) -> Iterator[str]:
    rows = [[name, _text(value)] for name, value in figures.items() if not _measure(name)]
    yield from _table(["measured", ""], rows)


def _measure(name: str) -> str | None:
    measure = name.rpartition(": ")[2]
    return measure if measure in MEASURES else None


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    if rows:
        yield from (_line(head), _line(["---", *("---:" for _ in head[1:])]), *map(_line, rows), "")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
