"""Clients write over HTTP and read their own writes while the job, the server and the broker are
killed; each keeps a ledger of its own.

`make chaos-serve` runs it: `python tests/chaos_serve.py --clients 10 --kills 12 --seed 7`.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from urllib3.exceptions import HTTPError

from riverrun import config
from riverrun.client import Client, Refusal
from riverrun.embedded import kafka, ports
from riverrun.errors import ServerError
from riverrun.kafka import admin
from running import Run, last_commit, records

PROGRAM = """
import riverrun as rr
app = rr.App("serving", pages=4)
writes = app.stream("writes", schema="client string, n bigint", key="client")
writes.through("middle").group_by("client").agg(
    writes=rr.count(), last=rr.max("n"), total=rr.sum("n")).to(rr.sinks.view("seen"))
"""
COMMAND = "from riverrun.cli import entry; entry()"
PATIENCE = 240.0


class Writer(threading.Thread):
    """Writes one record after the other; after each it reads what it wrote."""

    def __init__(self, name: str, url: str, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.client, self.own, self.over = Client(url), name, over
        self.written = self.read = 0
        self.trouble: Counter[str] = Counter()
        self.failure: str | None = None

    def run(self) -> None:
        try:
            while not self.over.is_set():
                token = self._asked(self._write)
                self.written += 1
                row = self._asked(lambda token=token: self._seen(token))  # type: ignore[misc]
                wanted = (self.written, self.written, self.written * (self.written + 1) // 2)
                found = (row["writes"], row["last"], row["total"])
                assert found == wanted, f"{self.own} has written {wanted} and reads {found}"
                self.read += 1
        except BaseException as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _write(self) -> str:
        number = self.written + 1
        record = {"client": self.own, "n": number}
        return self.client.send("writes", record, once=f"{self.own}-{number}")

    def _seen(self, token: str) -> dict[str, Any]:
        row = self.client.view("seen").get(self.own, token=token, wait="20 seconds")
        assert row is not None
        assert row.state == "there", row.text
        return row

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """Tries again for as long as servers are away."""
        give_up_at = time.monotonic() + PATIENCE
        while True:
            try:
                return ask()
            except Refusal as error:
                if (error.status < 500 and error.status != 404) or time.monotonic() > give_up_at:
                    raise
                self.trouble[f"{error.status}"] += 1
            except (ServerError, HTTPError) as error:
                if time.monotonic() > give_up_at:
                    raise
                self.trouble[type(error).__name__] += 1
            time.sleep(0.2)


@dataclass
class Chaos:
    folder: Path
    clients: int
    chosen: random.Random
    tell: Callable[[str], None] = lambda _: None
    kills: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Chaos:
        environ = {"RIVERRUN_HOME": str(self.folder / "home")}
        self.settings = config.load(start=self.folder, environ=environ)
        self.broker = kafka.up(self.settings, port=ports.any_free())
        admin.create_topic(kafka.client(self.settings), "writes", partitions=3)
        self.program = self.folder / "serving.py"
        self.program.write_text(PROGRAM)
        self.port = ports.any_free()
        self._begin_job()
        self._until(lambda: last_commit(self.settings.home, "serving") >= 0, "the first batch")
        self._begin_server()
        url = f"http://127.0.0.1:{self.port}"
        self.writers = [Writer(f"c{n}", url, self.over) for n in range(self.clients)]
        for each in self.writers:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.job.kill()
        self.server.kill()
        self.server.wait()
        kafka.down(self.settings)

    def _begin_job(self) -> None:
        self.job = Run(self.program, "--master", "local[2]", home=self.settings.home)

    def _begin_server(self) -> None:
        environment = {**os.environ, "RIVERRUN_HOME": str(self.settings.home)}
        self.server = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "serve", "--port", str(self.port)],
            cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self, what: str) -> None:
        self.kills[what] += 1
        self.tell(f"{self.progress}: killing the {what}")
        match what:
            case "job":
                self.job.kill()
                self._begin_job()
            case "server":
                self.server.send_signal(signal.SIGKILL)
                self.server.wait()
                self._begin_server()
            case "broker":
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(self.broker.pid).kill()
                port = int(self.broker.brokers.rpartition(":")[2])
                # its end may be a moment away: until then nobody else can have the port
                self._until(lambda: ports.free(port), "the broker's end")
                self.broker = kafka.up(self.settings, port=port)
            case other:
                raise AssertionError(other)

    @property
    def progress(self) -> str:
        return f"{sum(each.read for each in self.writers):,} writes read"

    def advance(self, reads: int) -> None:
        """Waits until every client has read so many more of its writes."""
        goals = [each.read + reads for each in self.writers]

        def there() -> bool:
            failed = [each.failure for each in self.writers if each.failure]
            assert not failed, failed
            if self.job.process.poll() is not None:
                self._begin_job()
            return all(each.read >= goal for each, goal in zip(self.writers, goals, strict=True))

        self._until(there, "the clients' reads")

    def finish(self) -> Counter[str]:
        """Everything acknowledged is in the topic once. Returns how often each client wrote."""
        self.over.set()
        for each in self.writers:
            each.join(PATIENCE)
        assert not [each.failure for each in self.writers if each.failure]
        client = kafka.client(self.settings)
        found = Counter(key or "" for key, _ in records(client, "writes"))
        assert found == {each.own: each.written for each in self.writers}
        return found

    def _until(self, there: Callable[[], bool], what: str) -> None:
        give_up_at = time.monotonic() + PATIENCE
        while not there():
            assert time.monotonic() < give_up_at, f"{what}: {self.job.error()[-2000:]}"
            time.sleep(0.05)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--clients", type=int, default=10)
    asked.add_argument("--kills", type=int, default=12)
    asked.add_argument("--seed", type=int, default=7)
    given = asked.parse_args()
    chosen = random.Random(given.seed)
    with (
        tempfile.TemporaryDirectory(prefix="riverrun-chaos-") as folder,
        Chaos(Path(folder), given.clients, chosen, tell=print) as chaos,
    ):
        for _ in range(given.kills):
            chaos.advance(chosen.randrange(1, 6))
            time.sleep(chosen.random())
            chaos.kill(chosen.choice(["job", "server", "broker"]))
        chaos.advance(5)
        found = chaos.finish()
        trouble = sum((each.trouble for each in chaos.writers), Counter())
    done = f"{found.total():,} writes of {len(found)} clients, each read after it"
    print(f"{done}; kills: {dict(chaos.kills)}")
    print(f"asked again: {dict(trouble)}")


if __name__ == "__main__":
    main()
