"""Stopping a running program: what runs is finished and committed, and read once only."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from riverrun.cli import options
from riverrun.config import Settings
from riverrun.kafka import admin
from riverrun.kafka.watching import BrokerWatch, watched
from riverrun.outputs import Places
from riverrun.runtime import checkpoint, runs
from riverrun.sources.kafka import KafkaSource
from riverrun.spark.failures import from_text
from running import Run, produce, table
from test_run import program, views

EVENTS = 30_000
SECRETS = """
[kafka]
sasl.password = "kafka-secret"
[spark]
spark.hadoop.fs.s3a.secret.key = "spark-secret # : = \\\\"
"""


def last(query: Path, log: str) -> int:
    return max(int(file.name) for file in (query / log).iterdir() if file.name.isdigit())


def known(riverrun, name: str) -> dict[str, object]:
    found = json.loads(riverrun("ps", "--json").out)
    return next(each for each in found if each["application"] == name)


def readable_by_others(home: Path, *apps: str) -> list[Path]:
    folders = [home / "kafka", *(home / kind / a for a in apps for kind in ("checkpoints", "runs"))]
    paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return [path for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077]


def texts(run: Run, home: Path) -> list[str]:
    """What others may get to see of a run: arguments of its processes, logs, what it printed."""
    arguments = []
    for each in (psutil.Process(run.process.pid), *psutil.Process(run.process.pid).children(True)):
        with suppress(psutil.Error):  # it has ended meanwhile
            arguments += each.cmdline()
    files = (Path(folder, each) for folder, _, found in os.walk(home) for each in found)
    logs = []
    for path in files:
        with suppress(FileNotFoundError):  # the broker deletes topics meanwhile
            logs += [path.read_text(errors="replace")] if path.suffix == ".log" else []
    return [*arguments, *logs, run.error(), run.out.read_text()]


@pytest.mark.broker
@pytest.mark.spark
def test_a_batch_is_finished_before_a_program_stops_and_nothing_is_read_twice(
    broker, broker_settings, tmp_path, riverrun, once
):
    admin.create_topic(broker, "drained-views", partitions=2)
    produce(broker, "drained-views", views(EVENTS), partitions=2)
    home = broker_settings.home
    file = program(tmp_path, "drained", "drained-views", "drained-out")
    query = home / "checkpoints" / "drained" / "query"
    read = 0
    (tmp_path / "riverrun.toml").write_text(SECRETS)
    for number, way in enumerate(("SIGTERM to all", "stop")):
        with Run(file, "--max-events", "500", home=home) as run:
            run.until(4000)
            shown = known(riverrun, "drained")
            assert (shown["state"], shown["pid"]) == ("running", run.process.pid)
            assert not [text for text in texts(run, home) if "-secret" in text]
            if way == "SIGTERM to all":
                os.killpg(run.process.pid, signal.SIGTERM)
            else:
                assert riverrun("stop", "drained").out == "drained is stopped\n"
            assert run.end() == 0, run.error()
            read += run.statuses()[-1]["events"]
        assert last(query, "offsets") == last(query, "commits"), number
        assert known(riverrun, "drained")["state"] == "stopped"
        assert read < EVENTS
    assert read + once(file).statuses()[-1]["events"] == EVENTS
    assert sum(row["views"] for row in table(broker, "drained-out").values()) == EVENTS
    assert riverrun("stop", "drained").out == "drained was not running\n"
    shown = known(riverrun, "drained")
    assert (shown["state"], shown["events"]) == ("finished", EVENTS - read)
    assert readable_by_others(home, "drained") == []


HOLDER = """
import sys, time
from pathlib import Path
from riverrun.runtime import checkpoint, runs
folder = Path(sys.argv[1])
with checkpoint.held(folder, "shop"), runs.noted(folder, master="local", log=folder) as run:
    run.note(started_at=time.time())
    print("runs", flush=True)
    time.sleep(60)
"""


def run_out_of_space(folder, noted) -> None:
    """No file can be made; those that are there can be written as far as they go."""
    patched = pytest.MonkeyPatch.context()
    with checkpoint.held(folder, "shop"), runs.noted(folder, **noted), patched as patch:
        patch.setattr(runs.private, "opened", None)
        raise OSError("the disk is full")


def test_a_full_disk_is_one_clear_error(riverrun, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere")

    monkeypatch.setattr(options, "settings", full)
    outcome = riverrun("ps")
    assert (outcome.code, outcome.err[:30]) == (2, "error: the disk is full [RR500")


def test_a_disk_that_is_full_under_spark_is_told_as_such():
    text = "[STREAM_FAILED] Query [id = 1] terminated with exception: java.io.IOException: "
    assert from_text(f"{text}No space left on device SQLSTATE: X").fact == "the disk is full"
    assert from_text(f"{text}odd").got == "java.io.IOException: odd"


def test_a_run_after_the_clock_was_set_back_is_a_later_one(tmp_path, monkeypatch):
    numbers = []
    for moment in (1_000, 9_000_000, 2_000, 10_000_000):
        monkeypatch.setattr(checkpoint.time, "time_ns", lambda moment=moment: moment * 1000)
        numbers.append(checkpoint.identity(tmp_path).run)
    assert numbers == [1_000, 9_000_000, 9_000_001, 10_000_000]


def test_no_secret_is_in_what_settings_and_places_look_like():
    secret = {"sasl.password": "secret"}
    settings = Settings(Path(), Path(), postgres="secret", kafka=secret, spark=secret)
    places = Places(tuple(secret.items()), "exactly once", "secret")
    assert "secret" not in f"{settings} {places} {KafkaSource(secret)}"


def test_stopped_finished_failed_and_died_are_told_apart(tmp_path, riverrun):
    folder = tmp_path / "home" / "checkpoints" / "shop"
    folder.mkdir(parents=True)
    noted = {"master": "local[2]", "log": tmp_path / "log"}

    def state() -> object:
        shown = riverrun("ps").out.splitlines()[1]
        assert shown.split()[:2] == ["shop", str(known(riverrun, "shop")["state"])] or ":" in shown
        return known(riverrun, "shop")["state"]

    with checkpoint.held(folder, "shop"):
        assert state() == "held"
        with runs.noted(folder, **noted) as run:
            assert state() == "starting"
            run.note(started_at=1.0)
            assert state() == "running"
            run.end = "finished"
        assert known(riverrun, "shop")["error"] is None
    assert state() == "finished"
    for error, end in ((KeyboardInterrupt(), "stopped"), (ValueError("no such topic"), "failed")):
        with (
            pytest.raises(type(error)),
            checkpoint.held(folder, "shop"),
            runs.noted(folder, **noted),
        ):
            raise error
        assert state() == end
    assert known(riverrun, "shop")["error"] == "no such topic"
    assert "failed: no such topic" in riverrun("ps").out
    before = (folder / "run.json").stat().st_size
    with pytest.raises(OSError, match="disk is full"):
        run_out_of_space(folder, noted)
    assert "failed: the disk is full" in riverrun("ps").out
    assert (folder / "run.json").stat().st_size == before
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "runs\n"
        assert state() == "running"
        process.kill()
    assert (state(), known(riverrun, "shop")["pid"]) == ("died", None)


@pytest.mark.broker
def test_an_application_that_nobody_knows_cannot_be_stopped(broker, riverrun):
    outcome = riverrun("stop", "unheard-of")
    assert outcome.code == 2
    assert outcome.err.startswith("error: nothing is known of the application 'unheard-of' [RR103]")


def test_a_broker_that_goes_away_is_told_and_so_is_its_return(broker):
    client = {**broker, "bootstrap.servers": "127.0.0.1:1"}
    with watched(client) as watch:
        assert heard_of(watch).startswith("warning: Kafka does not answer at 127.0.0.1:1")
        client["bootstrap.servers"] = broker["bootstrap.servers"]
        assert heard_of(watch).startswith("over: Kafka answers again, after ")


def heard_of(watch: BrokerWatch) -> str:
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        for text in watch.news():
            return text
        time.sleep(0.1)
    raise AssertionError("nothing was told")


@pytest.mark.spark
def test_ctrl_c_twice_while_spark_starts_prints_no_stack_and_leaves_no_jvm(
    tmp_path, broker, broker_settings, riverrun
):
    file = tmp_path / "app.py"
    file.write_text(
        "import riverrun as rr\n"
        "app = rr.App('twice-stopped')\n"
        "app.stream('twice-stopped-in', schema='a int').group_by('a').agg(n=rr.count()).to('o2')\n"
    )
    riverrun("topics", "create", "twice-stopped-in", "--partitions", "1")
    with Run(file, home=broker_settings.home) as run:
        give_up_at = time.monotonic() + 120
        while not (jvms := spark_of(run)) and time.monotonic() < give_up_at:
            time.sleep(0.05)
        run.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        run.process.send_signal(signal.SIGINT)
        assert run.end() in (0, 130)
        assert "Traceback" not in run.error() + run.out.read_text()
    gone, left = psutil.wait_procs(jvms, timeout=60)
    assert (len(gone), left) == (1, [])


def spark_of(run: Run) -> list[psutil.Process]:
    found = []
    for each in psutil.Process(run.process.pid).children():
        with suppress(psutil.Error):
            found += [each] if each.cmdline()[-1:] == ["pyspark-shell"] else []
    return found
