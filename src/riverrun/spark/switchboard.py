"""The daemon of Spark's Python workers: a task goes to the process that had those of its number.

Spark gives a task to any worker that is idle, so in two of three batches the tasks of a query found
what they need in another process than the last time: pages, a consumer, a producer with its
transactions. Here a connection of Spark's belongs to no process. When a task comes on one, its
number, which is sent first, is looked at, and the connection is handed to the process that had the
tasks of that number before.

Connections are files that only their owner opens. Over TCP a task begins 40 ms late: Spark sends it
in several small pieces, of which the second waits for the first to be acknowledged, and the system
takes that long to do so where nothing is answered.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import daemon
from pyspark.serializers import read_int, write_int, write_with_length
from pyspark.util import enable_faulthandler

from riverrun import private
from riverrun.spark.memory import Freed

LISTENING = 1024
NUMBER = 4
"""Bytes of a task's number."""
DONE = b"\0"
"""What a process says after a task; one that is silent, and gone, has failed."""


@dataclass(eq=False)
class Line:
    """A connection of Spark's, on which tasks come one after the other."""

    socket: socket.socket
    pid: int
    """What Spark was told for the process at its end."""


@dataclass(eq=False)
class Worker:
    """A process."""

    pid: int
    channel: socket.socket
    numbers: set[int] = field(default_factory=set)
    """Of the tasks that it had."""
    line: Line | None = None
    """Where its task comes from; None: it is idle."""


class Switchboard:
    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.workers: list[Worker] = []
        self.lines: list[Line] = []
        self.waiting = selectors.DefaultSelector()
        self._await(listener, self._connect)
        self.asked = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
        self._await(self.asked, self._kill)

    def serve(self) -> None:
        while True:
            for key, _ in self.waiting.select():
                # what was done before may have ended it, and begun another with its number
                if self.waiting.get_map().get(key.fd) is key:
                    key.data()

    def _await(self, what: object, then: Callable[[], None]) -> None:
        self.waiting.register(what, selectors.EVENT_READ, then)  # type: ignore[arg-type]

    def _connect(self) -> None:
        try:
            worker = self._fork()  # before there is a connection, which it would keep open
        except OSError:  # the system has no room: Spark is told by the end of its connection
            self.listener.accept()[0].close()
            return
        connection, _ = self.listener.accept()
        with connection.makefile("wb", buffering=0) as stream:
            write_int(worker.pid, stream)
        line = Line(connection, worker.pid)
        self.lines.append(line)
        self._listen(line)

    def _listen(self, line: Line) -> None:
        self._await(line.socket, lambda: self._task(line))

    def _task(self, line: Line) -> None:
        try:
            number = line.socket.recv(NUMBER, socket.MSG_PEEK | socket.MSG_WAITALL)
        except OSError:
            number = b""
        if len(number) < NUMBER:
            self._hang_up(line)
            return
        self.waiting.unregister(line.socket)
        while True:
            try:
                worker = self._worker(int.from_bytes(number, "big"))
            except OSError:  # the system has no room: the task fails, and is tried again
                self._close(line)
                return
            try:
                socket.send_fds(worker.channel, [DONE], [line.socket.fileno()])
            except OSError:  # somebody has killed it
                self._end(worker)
            else:
                worker.line = line
                return

    def _worker(self, number: int) -> Worker:
        """The one that had tasks of this number; else the one that had the fewest others."""
        idle = [each for each in self.workers if each.line is None] or [self._fork()]
        known = [each for each in idle if number in each.numbers]
        chosen = known[0] if known else min(idle, key=lambda each: len(each.numbers))
        chosen.numbers.add(number)
        return chosen

    def _hang_up(self, line: Line) -> None:
        """Spark needs one process less."""
        self.waiting.unregister(line.socket)
        self._close(line)
        idle = [each for each in self.workers if each.line is None]
        if idle:
            self._end(min(idle, key=lambda each: (each.pid != line.pid, len(each.numbers))))

    def _close(self, line: Line) -> None:
        line.socket.close()
        self.lines.remove(line)

    def _told(self, worker: Worker) -> None:
        """A process has done its task, or has ended."""
        line, worker.line = worker.line, None
        try:
            done = worker.channel.recv(len(DONE))
        except OSError:
            done = b""
        if done and line is not None:
            self._listen(line)
            return
        self._end(worker)
        if line is not None:
            self._close(line)

    def _end(self, worker: Worker) -> None:
        """It ends by itself once nobody speaks to it."""
        self.waiting.unregister(worker.channel)
        worker.channel.close()
        self.workers.remove(worker)

    def _kill(self) -> None:
        """Spark ends tasks by the number of their process, and everything by closing the input."""
        try:
            pid = read_int(self.asked)
        except EOFError:
            end_all()
        for each in self.workers:
            if each.line is not None and each.line.pid == pid:
                with suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)

    def _fork(self) -> Worker:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self._become(theirs, ours)
        theirs.close()
        worker = Worker(pid, ours)
        self.workers.append(worker)
        self._await(ours, lambda: self._told(worker))
        return worker

    def _become(self, channel: socket.socket, *others: socket.socket) -> None:
        """In the child: it keeps nothing of what others speak by."""
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.waiting.close()
            self.asked.close()
            spoken = [*others, self.listener, *(each.channel for each in self.workers)]
            for each in [*spoken, *(line.socket for line in self.lines)]:
                each.close()
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), 0)
            with enable_faulthandler():
                work(channel)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)


def work(channel: socket.socket) -> None:
    """Tasks one after the other; one that fails is the last."""
    freed = Freed()
    while True:
        try:
            _, lines, _, _ = socket.recv_fds(channel, 1, 1)
        except ConnectionError:
            return
        if not lines:
            return
        os.set_inheritable(lines[0], False)  # what a task starts would keep it open
        with socket.socket(fileno=lines[0]) as line:
            if daemon.worker(line, True):
                with suppress(OSError):  # until Spark has taken note
                    while line.recv(NUMBER):
                        pass
                return
        with suppress(OSError):
            channel.send(DONE)
        gc.collect()
        freed.give_back()


def wanted(sockets: Path) -> dict[str, str]:
    """What Spark is to be told; without it, it has a daemon of its own, over TCP."""
    return {
        "spark.python.daemon.module": __name__,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(sockets),
    }


def end_all(*_: object) -> None:
    """This process, and all that it has started."""
    os.killpg(0, signal.SIGKILL)


def _on(setting: str) -> bool:
    return os.environ.get(setting, "false").lower() == "true"


def main() -> None:
    if not _on("PYTHON_UNIX_DOMAIN_ENABLED") or "SPARK_REUSE_WORKER" not in os.environ:
        daemon.manager()  # somebody has asked for something else
        return
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end_all)
    folder = os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"]
    address = str(Path(folder) / f"workers-{os.getpid()}.sock")
    listener = socket.socket(socket.AF_UNIX)
    with private.by_default():
        listener.bind(address)
    listener.listen(LISTENING)
    write_with_length(address.encode(), sys.stdout.buffer)
    sys.stdout.buffer.flush()
    Switchboard(listener).serve()


if __name__ == "__main__":
    main()
