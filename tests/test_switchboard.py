"""Tasks of one number go to one process, whatever connection they come on."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from riverrun.spark import memory

ECHO = """
import os, sys
from pyspark import daemon, worker
from pyspark.serializers import read_int, write_int

def main(infile, outfile):
    number, what = read_int(infile), read_int(infile)
    if what == 3:
        os.system("sleep 20 &")
    if what in (1, 3):
        os._exit(9)
    write_int(os.getpid(), outfile)
    outfile.flush()
    read_int(infile)  # the task goes on until it is told
    if what == 2:
        sys.exit(-1)

worker.main = main
from riverrun.spark import switchboard
switchboard.main()
"""
ENDS, FAILS, LEAVES = 1, 2, 3


class Spark:
    """What Spark does with its daemon: connections, tasks on them, and who is to be killed."""

    def __init__(self, folder: Path) -> None:
        environment = {
            **os.environ, "SPARK_REUSE_WORKER": "1", "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        (length,) = struct.unpack("!i", self.process.stdout.read(4))
        self.address = Path(self.process.stdout.read(length).decode())

    def line(self) -> Line:
        return Line(self.address)

    def kill(self, pid: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack("!i", pid))
        self.process.stdin.flush()


class Line:
    def __init__(self, address: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(address))
        self.pid = self.number()

    def number(self) -> int:
        found: int = struct.unpack("!i", self.socket.recv(4, socket.MSG_WAITALL))[0]
        return found

    def task(self, number: int, what: int = 0) -> int:
        """Which process has it."""
        self.socket.sendall(struct.pack("!ii", number, what))
        return self.number()

    def end(self) -> None:
        self.socket.sendall(struct.pack("!i", 0))

    def whole(self, number: int) -> int:
        pid = self.task(number)
        self.end()
        time.sleep(0.05)  # Spark takes longer to give the next one
        return pid

    def closed(self) -> bool:
        with suppress(ConnectionResetError):
            return self.socket.recv(1) == b""
        return True


@pytest.fixture
def spark() -> Iterator[Spark]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own may be too long for a socket
        yield from _running(Spark(Path(folder)))


def _running(found: Spark) -> Iterator[Spark]:
    yield found
    if found.process.poll() is None:
        os.kill(found.process.pid, signal.SIGTERM)
    found.process.wait(20)
    for stream in (found.process.stdin, found.process.stdout):
        assert stream is not None
        stream.close()


def test_tasks_of_a_number_have_one_process_on_whatever_line_they_come(spark: Spark) -> None:
    one, other = spark.line(), spark.line()
    homes = [one.whole(0), other.whole(1)]
    assert homes[0] != homes[1]
    assert [other.whole(0), one.whole(1), one.whole(0), other.whole(1)] == [*homes, *homes]


def test_tasks_of_one_number_at_once_have_processes_of_their_own_each_time_the_same(
    spark: Spark,
) -> None:
    lines = [spark.line() for _ in range(4)]
    asked = (0, 0, 1, 1)

    def at_once(order: list[Line]) -> list[int]:
        pids = [line.task(number) for line, number in zip(order, asked, strict=True)]
        for line in order:
            line.end()
        time.sleep(0.05)
        return pids

    first = at_once(lines)
    assert len(set(first)) == 4
    assert at_once(lines[::-1]) == first


def test_a_process_that_ends_amid_a_task_ends_its_line_and_no_other(spark: Spark) -> None:
    one, other = spark.line(), spark.line()
    home = one.whole(0)
    other.whole(1)
    other.socket.sendall(struct.pack("!ii", 0, ENDS))
    assert other.closed()
    assert one.whole(0) != home
    assert spark.line().whole(2) > 0


def test_what_a_task_has_started_does_not_keep_its_line_open(spark: Spark) -> None:
    line = spark.line()
    line.socket.sendall(struct.pack("!ii", 0, LEAVES))
    line.socket.settimeout(10)  # it lives for 20 seconds
    assert line.closed()


def test_processes_that_die_while_a_task_comes_are_replaced(spark: Spark) -> None:
    lines = [spark.line(), spark.line()]
    homes = [line.whole(number) for number, line in enumerate(lines)]
    os.kill(spark.process.pid, signal.SIGSTOP)
    lines[0].socket.sendall(struct.pack("!ii", 0, 0))
    for pid in homes:
        os.kill(pid, signal.SIGKILL)
    while any(map(_lives, homes)):
        time.sleep(0.01)
    os.kill(spark.process.pid, signal.SIGCONT)
    assert lines[0].number() not in homes
    lines[0].end()
    assert lines[1].whole(1) not in homes


def test_a_task_that_fails_is_the_last_of_its_process_and_its_line(spark: Spark) -> None:
    line = spark.line()
    home = line.task(0, FAILS)
    line.end()
    line.socket.shutdown(socket.SHUT_WR)  # Spark has taken note
    assert line.closed()
    assert spark.line().whole(0) != home


def test_whom_spark_kills_is_who_has_the_task_of_the_line(spark: Spark) -> None:
    one, other = spark.line(), spark.line()
    homes = [one.whole(0), other.whole(1)]
    assert other.task(0) == homes[0]
    spark.kill(other.pid)
    assert other.closed()
    assert one.whole(1) == homes[1]


def test_a_line_that_spark_closes_needs_no_process_any_more(spark: Spark) -> None:
    one, other = spark.line(), spark.line()
    homes = {one.whole(0), other.whole(1)}
    other.socket.close()
    left = homes
    give_up = time.monotonic() + 20
    while len(left) > 1 and time.monotonic() < give_up:
        left = {pid for pid in homes if _lives(pid)}
    assert len(left) == 1
    assert one.whole(0) > 0


def test_nobody_else_may_connect(spark: Spark) -> None:
    assert spark.address.stat().st_mode & 0o077 == 0


def test_all_end_with_the_input_of_the_daemon(spark: Spark) -> None:
    line = spark.line()
    home = line.task(0)
    assert spark.process.stdin is not None
    spark.process.stdin.close()
    spark.process.wait(20)
    give_up = time.monotonic() + 20
    while _lives(home) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert not _lives(home)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_a_task_took_of_memory_goes_back_after_it(monkeypatch):
    monkeypatch.setattr(memory, "ENOUGH", 0)
    freed = memory.Freed()
    held = [os.urandom(100_000) for _ in range(2_000)]
    between = held[::20]  # holes are left, of which the C library gives nothing back by itself
    del held
    before = _anonymous()
    freed.give_back()
    assert before - _anonymous() > 100 << 20
    assert len(between) == 100


def _anonymous() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
