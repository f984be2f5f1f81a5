"""A run that ends by mistake is started again; one that cannot be mended is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from riverrun.cli.restarting import Supervisor

CHILD = """
import json, os, signal, sys, time
from pathlib import Path
folder, *ways = sys.argv[1:]
folder = Path(folder)
tried = folder / "tried"
number = len(tried.read_text().splitlines()) if tried.exists() else 0
with tried.open("a") as file:
    file.write(" ".join(each for each in sys.argv if each.startswith("--")) + "\\n")
way = [each for each in ways if not each.startswith("--")][number]
if "--search" in ways:
    told = {"batch": 7, "tried": {}, "trying": None, "ending": way, "text": "a/0/3: it dies"}
    if way in ("aside", "again", "stop"):
        (folder / "poison.json").write_text(json.dumps(told))
        sys.exit(2 if way == "stop" else 0)
if way == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if way == "sleeps":
    time.sleep(60)
if way.startswith("RR"):
    error = f"something is wrong [{way}]"
    (folder / "run.json").write_text(json.dumps({"pid": os.getpid(), "error": error}))
    sys.exit(2)
sys.exit(int(way))
"""


def supervisor(folder: Path, *ways: str) -> Supervisor:
    (folder / "child.py").write_text(CHILD)
    command = [sys.executable, str(folder / "child.py"), str(folder), *ways]
    return Supervisor(command, folder, wait=0.01)


def stuck(folder: Path) -> Path:
    """The batch that was begun is not done."""
    for kind, last in (("offsets", 8), ("commits", 7)):
        (folder / "query" / kind).mkdir(parents=True)
        for number in range(last):
            (folder / "query" / kind / str(number)).touch()
    return folder


def tried(folder: Path) -> list[str]:
    return (folder / "tried").read_text().splitlines()


@pytest.mark.parametrize(
    ("ways", "code", "times"),
    [
        (("killed", "RR500", "RR201", "0"), 0, 4),
        (("RR303", "RR101"), 2, 2),
        (("RR402",), 2, 1),
        (("2",), 2, 1),  # it has not come to running
        (("130",), 130, 1),
    ],
)
def test_what_a_new_start_may_mend_is_started_again(tmp_path, ways, code, times):
    assert supervisor(tmp_path, *ways).run() == code
    assert len(tried(tmp_path)) == times


def test_it_starts_over_once_and_waits_longer_each_time(tmp_path, capsys):
    found = supervisor(tmp_path, "--fresh", "--once", "killed", "killed", "0")
    assert found.run() == 0
    assert tried(tmp_path) == ["--fresh --once", "--once", "--once"]
    assert found.wait == pytest.approx(0.04)
    said = capsys.readouterr().err
    assert said.count("the run was killed by SIGKILL: started again in") == 2


@pytest.mark.parametrize(
    ("ways", "code", "searches"),
    [
        (("RR500", "killed", "aside", "0"), 0, [2]),
        (("RR500", "RR500", "again", "RR500", "RR500", "aside", "0"), 0, [2, 5]),
        (("killed", "killed", "stop"), 2, [2]),
        (("RR500", "killed", "killed", "aside", "0"), 0, [2, 3]),  # one dies of a trial
        (("RR500", "RR204", "RR500", "0"), 0, []),  # a database that is away
        (("RR500", "RR500", "RR402"), 2, [2]),
    ],
)
def test_what_ends_two_runs_in_the_same_batch_is_looked_for(tmp_path, ways, code, searches):
    assert supervisor(stuck(tmp_path), *ways).run() == code
    assert [n for n, each in enumerate(tried(tmp_path)) if "--search" in each] == searches
    assert len(tried(tmp_path)) == len(ways)


def test_a_wish_to_end_ends_the_child_and_starts_no_other(tmp_path):
    found = supervisor(tmp_path, "sleeps", "0")

    def ask() -> None:
        while not (tmp_path / "tried").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=ask).start()
    assert found.run() == 128 + signal.SIGTERM
    assert tried(tmp_path) == [""]


def test_a_mistake_in_the_program_is_told_at_once(tmp_path):
    file = tmp_path / "app.py"
    file.write_text("import riverrun as rr\napp = rr.App('a')\napp.stream('x', schema='y nothing')")
    command = [sys.executable, "-m", "riverrun.cli", "run", str(file), "--restart"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "started again" not in ended.stderr
    assert "nothing" in ended.stderr
