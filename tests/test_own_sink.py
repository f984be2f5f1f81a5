"""A sink of one's own (json_lines.py), in the driver and on Spark; test_cluster has it, too."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import json_lines
import riverrun as rr
from json_lines import JsonLines
from riverrun.kafka import admin
from riverrun.outputs import OutputSpec
from riverrun.spark.portable import portable
from riverrun.testing import Driver
from riverrun.testing.contracts import SinkContract, Stand
from running import PATIENCE, Run, last_commit, produce

PROGRAM = """
import riverrun as rr
from json_lines import JsonLines

app = rr.App({name!r}, pages=4)
views = app.stream({name!r} + "-views", schema="n bigint, page string")
views.where("n >= 0").to(JsonLines({folder!r} + "/views"))
views.group_by("page").agg(n=rr.count()).to(JsonLines({folder!r} + "/pages"))
"""
EVENTS = 12_000


def program(folder: Path, name: str) -> Path:
    """A program with its sink in a module beside it."""
    shutil.copy(json_lines.__file__, folder)
    file = folder / f"{name}.py"
    file.write_text(PROGRAM.format(name=name, folder=str(folder / "out")))
    return file


def read(folder: Path, *, table: bool = False) -> list[dict[str, Any]]:
    texts = [file.read_text() for file in sorted(folder.glob("*.jsonl"))]
    found = [json.loads(line) for text in texts for line in text.splitlines()]
    if not table:
        return [row for row in found if row.pop("change") == "+"]
    standing: Counter[str] = Counter()
    for row in found:
        standing.update({json.dumps(row): 0})
        sign = 1 if row.pop("change") == "+" else -1
        standing[json.dumps(row)] += sign
    return [json.loads(row) for row, count in standing.items() for _ in range(count)]


class TestJsonLines(SinkContract):
    @pytest.fixture
    def stand(self, tmp_path: Path) -> Stand:
        def seen(output: OutputSpec) -> list[dict[str, Any]]:
            return read(tmp_path / output.name, table=output.table)

        return Stand(lambda name: JsonLines(str(tmp_path / name)), seen)


def test_the_driver_gives_its_lines_and_writes_nothing(tmp_path):
    app = rr.App("shop")
    app.stream("views", schema="page string").to(JsonLines(str(tmp_path / "out")))
    Driver(app).run(views="page\n/a").of("lines:out").assert_is("page\n/a")
    assert not (tmp_path / "out").exists()


def test_its_text_and_its_guarantee_are_described(riverrun, tmp_path):
    file = program(tmp_path, "shop")
    text = riverrun("describe", str(file)).out
    assert f"  to        JSON lines in {tmp_path}/out/views, exactly once\n" in text
    found = json.loads(riverrun("describe", str(file), "--json").out)["outputs"]
    assert [each["guarantee"] for each in found[:2]] == ["exactly once"] * 2


def test_two_outputs_cannot_share_what_it_owns(tmp_path):
    app = rr.App("shop")
    views = app.stream("views", schema="page string")
    views.to(JsonLines(str(tmp_path)))
    views.group_by("page").agg(n=rr.count()).to(Renamed(str(tmp_path)))
    with pytest.raises(rr.ProgramError, match="two outputs are written to one folder"):
        app.program()


@dataclass(frozen=True)
class Renamed(JsonLines):
    @property
    def name(self) -> str:
        return "renamed"


@dataclass(frozen=True)
class Holding(JsonLines):
    lock: Any = field(default_factory=threading.Lock)


ELSEWHERE = """
import pickle, sys
sink = pickle.load(sys.stdin.buffer).outputs[0].sink
print(sink.text, type(sink.destination(None)).__name__, "json_lines" in sys.modules)
"""


def test_its_module_travels_with_the_job_to_workers_that_do_not_have_it():
    app = rr.App("shop")
    app.stream("views", schema="page string").to(JsonLines("out"))
    line, program = [sys.executable, "-c", ELSEWHERE], app.program()
    done = subprocess.run(line, input=portable(program, program), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "JSON lines in out LinesFolder False"


def test_a_sink_that_cannot_travel_is_an_error_before_spark_starts(tmp_path):
    app = rr.App("shop")
    app.stream("views", schema="page string").to(Holding(str(tmp_path / "out")))
    with pytest.raises(rr.ProgramError, match="the sink 'lines:out' cannot be sent") as caught:
        portable(None, app.program())
    assert "in a sink's destination" in caught.value.hint


def views(count: int) -> list[dict[str, Any]]:
    chosen = random.Random(7)
    return [{"n": n, "page": f"/{chosen.randrange(5)}"} for n in range(count)]


def check(folder: Path, sent: list[dict[str, Any]]) -> None:
    """Every row once, and the table as plain Python counts it."""
    found = Counter((row["n"], row["page"]) for row in read(folder / "views"))
    assert found == Counter((row["n"], row["page"]) for row in sent)
    pages = {row["page"]: row["n"] for row in read(folder / "pages", table=True)}
    assert pages == Counter(row["page"] for row in sent)
    assert not [file for file in folder.rglob("*.jsonl") if not file.read_text()]


def kill_between_write_and_commit(run: Run, folder: Path, app: str, home: Path) -> bool:
    """Ends a run when a file of a batch is there that Spark has not noted; False if it has."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up and run.process.poll() is None:
        batches = [int(file.stem.split("-")[-2]) for file in folder.rglob("*.jsonl")]
        if max(batches, default=-1) > max(last_commit(home, app), 0):
            run.kill()
            return max(batches) > last_commit(home, app)
        time.sleep(0.005)
    raise AssertionError(f"nothing is written: {run.error()}")


@pytest.mark.broker
@pytest.mark.spark
def test_a_job_that_is_killed_in_between_writes_each_row_once(
    broker, broker_settings, tmp_path, once
):
    home, file, sent = broker_settings.home, program(tmp_path, "lined"), views(EVENTS)
    admin.create_topic(broker, "lined-views", partitions=3)
    produce(broker, "lined-views", sent, partitions=3)
    while True:
        with Run(file, "--max-events", "1500", home=home) as run:
            if kill_between_write_and_commit(run, tmp_path / "out", "lined", home):
                break
    once(file)
    check(tmp_path / "out", sent)
