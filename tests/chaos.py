"""Kills a running program again and again, and compares every sink with a ledger of its own.

`make chaos` runs it with 50 kills: `python tests/chaos.py --kills 50 --seed 7`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
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
import psycopg
from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from riverrun import config
from riverrun.embedded import kafka, ports, postgres, spark_cluster
from riverrun.kafka import admin
from running import Run, kill_between_write_and_commit, last_commit, records, table

PROGRAM = """
import riverrun as rr
app = rr.App("chaos", pages=8)
orders = app.stream("orders", schema="id bigint, customer string, amount bigint, at timestamp_ms",
                    key="customer", time="at", lateness="5 seconds")
orders.to("passed", rr.sinks.postgres("passed"))
totals = orders.group_by("customer").agg(n=rr.count(), total=rr.sum("amount"))
totals.to("totals", rr.sinks.postgres("totals"))
totals.group_by("n", name="sizes").agg(customers=rr.count()).to("sizes")
"""
CUSTOMERS = 200
PATIENCE = 180.0


class Load(threading.Thread):
    """Sends orders at a steady pace, and keeps the ledger."""

    def __init__(self, client: dict[str, str], per_second: int) -> None:
        super().__init__(daemon=True)
        self.per_second = per_second
        patient = {"enable.idempotence": "true", "message.timeout.ms": "0"}
        self.producer = Producer({**client, **patient}, logger=admin.quiet)
        self.ledger: list[tuple[str, int]] = []
        """Customer and amount; the id is the place in the list."""
        self.ended = threading.Event()

    def run(self) -> None:
        chosen = random.Random(1)
        while not self.ended.wait(0.02):
            for _ in range(self.per_second // 50):
                customer, amount = f"c{chosen.randrange(CUSTOMERS)}", chosen.randrange(1000)
                order = {"id": len(self.ledger), "customer": customer, "amount": amount}
                self.ledger.append((customer, amount))
                order["at"] = int(time.time() * 1000)
                self.producer.produce("orders", json.dumps(order), customer)
            self.producer.poll(0)

    def end(self) -> None:
        self.ended.set()
        self.join()
        assert self.producer.flush(120) == 0, "orders could not be sent"


@dataclass
class Chaos:
    """One program under load, the servers around it, and what was done to them."""

    folder: Path
    chosen: random.Random
    tell: Callable[[str], None] = lambda _: None
    master: str = "local[2]"
    per_second: int = 1500
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    job: Run | None = None

    def __enter__(self) -> Chaos:
        self.settings = config.load(
            start=self.folder, environ={"RIVERRUN_HOME": str(self.folder / "home")}
        )
        broker = kafka.up(self.settings, port=ports.any_free())
        self.port = int(broker.brokers.rpartition(":")[2])
        postgres.up(self.settings, port=ports.any_free())
        self.client = kafka.client(self.settings)
        self.admin = AdminClient(self.client, logger=admin.quiet)
        admin.create_topic(self.client, "orders", partitions=3)
        self.program = self.folder / "chaos.py"
        self.program.write_text(PROGRAM)
        self.load = Load(self.client, self.per_second)
        self.load.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.load.ended.set()
        if self.job is not None:
            self.job.kill()
        spark_cluster.down(self.settings)
        postgres.down(self.settings)
        kafka.down(self.settings)

    # the job

    @property
    def commits(self) -> int:
        """The last batch that Spark has committed; -1 before the first."""
        return last_commit(self.settings.home, "chaos")

    def running(self) -> Run:
        """The job; one that has ended is started again."""
        if self.job is None or self.job.process.poll() is not None:
            self.restarts += self.job is not None
            options = ("--master", self.master, "--max-events", "20000")
            self.job = Run(self.program, *options, home=self.settings.home)
        return self.job

    def advance(self, batches: int = 2) -> None:
        """Waits until the job has committed some more batches."""
        goal, give_up = self.commits + batches, time.monotonic() + PATIENCE
        while self.commits < goal:
            job = self.running()
            assert time.monotonic() < give_up, f"no batch is committed: {job.error()}"
            time.sleep(0.05)

    def family(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.running().process.pid).children(recursive=True)
        return []

    def writers(self) -> list[psutil.Process]:
        """Processes of the job that talk to the broker."""
        return [process for process in self.family() if _connected(process, self.port)]

    # faults: each leaves the job in whatever state it leads to

    def driver(self) -> None:
        self.running().kill()

    def between_write_and_commit(self) -> None:
        """Killed as soon as a part has taken effect, and before Spark notes the batch."""
        for _ in range(20):
            if kill_between_write_and_commit(
                self.running(), self.client, "chaos", self.settings.home
            ):
                return
            self.kills["driver"] += 1  # it was too late
            self.advance(1)
        raise AssertionError("no batch was caught between its write and its commit")

    def zombie(self) -> None:
        """Writers stop in the middle of a transaction; the rest is killed, and the job runs again
        before they wake up."""
        stopped = self._stopped_in_a_transaction()
        asleep = {process.pid for process in stopped}
        job = self.running().process  # asked again once it is dead, another would be started
        everybody = [psutil.Process(job.pid), *self.family()]
        _signal(everybody, signal.SIGSTOP)  # so that nobody cleans up
        _signal([process for process in everybody if process.pid not in asleep], signal.SIGKILL)
        job.wait()
        try:
            self.advance(3)
        finally:
            awake = [process for process in stopped if process.is_running()]
            _signal(awake, signal.SIGCONT)
            _, left = psutil.wait_procs(awake, timeout=60)
            _signal(left, signal.SIGKILL)
        assert awake, "no zombie was left"
        assert not left, "a zombie does not end"

    def _stopped_in_a_transaction(self) -> list[psutil.Process]:
        give_up, looked = time.monotonic() + PATIENCE, 0.0
        writers: list[psutil.Process] = []
        while time.monotonic() < give_up:
            if time.monotonic() - looked > 1:
                self.running()
                writers, looked = self.writers(), time.monotonic()
            if not self._transaction_open():
                continue
            _signal(writers, signal.SIGSTOP)
            time.sleep(0.05)  # a commit that the broker works at comes to its end
            if self._transaction_open():
                return writers
            _signal(writers, signal.SIGCONT)
        raise AssertionError("no transaction was caught open")

    def python_worker(self) -> None:
        found = self.writers()
        if found:
            _signal([self.chosen.choice(found)], signal.SIGKILL)

    def broker(self) -> None:
        running = kafka.status(self.settings)
        assert running is not None
        process = psutil.Process(running.pid)
        process.kill()
        process.wait(30)
        kafka.up(self.settings, port=self.port)

    def postgres(self) -> None:
        postgres.restart(self.settings)

    def executor(self) -> None:
        """kill -9 of an executor of the standalone cluster."""
        cluster = spark_cluster.status(self.settings)
        assert cluster is not None
        found = [each for worker in cluster.workers for each in worker.executors()]
        if found:
            _signal([self.chosen.choice(found)], signal.SIGKILL)

    def cluster_worker(self) -> None:
        """kill -9 of a worker of the standalone cluster with its executors; another one comes."""
        cluster = spark_cluster.status(self.settings)
        assert cluster is not None
        worker = self.chosen.choice(cluster.workers)
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(worker.pid)
            _signal([process, *process.children(recursive=True)], signal.SIGKILL)
        spark_cluster.up(self.settings, workers=2)

    def move_to_cluster(self) -> None:
        """The same checkpoint goes on with executors in processes of their own."""
        cluster = spark_cluster.up(self.settings, workers=2)
        self.running().kill()
        self.master = cluster.master
        self.kills["driver"] += 1

    # what is there

    def _ends(self, level: IsolationLevel, topic: str, partitions: int) -> dict[int, int]:
        asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
        found = admin.list_offsets(self.admin, asked, isolation_level=level)
        return {place.partition: end for place, end in found.items()}

    def _transaction_open(self) -> bool:
        levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        try:
            committed, written = (self._ends(level, "passed", 4) for level in levels)
        except KafkaException:  # the topic is new, or the broker was away
            self.admin = AdminClient(self.client, logger=admin.quiet)
            return False
        return committed != written

    def fault(self, name: str) -> None:
        self.tell(f"{sum(self.kills.values()) + 1}. {name.replace('_', ' ')}")
        self.advance(self.chosen.randint(1, 4))
        time.sleep(self.chosen.random() * 2)
        getattr(self, name)()
        self.kills[name] += 1
        self.advance(1)

    def finish(self) -> dict[str, Any]:
        """The load ends, the job reads the rest, and what the sinks hold is counted."""
        self.load.end()
        give_up = time.monotonic() + PATIENCE
        while self._read() < len(self.load.ledger):
            assert time.monotonic() < give_up, f"not all is read: {self.running().error()}"
            time.sleep(0.1)
        job = self.running()
        assert job.stop() == 0, job.error()
        return self.counted()

    def _read(self) -> int:
        """How many orders the job has read with its last batch that is committed."""
        lags = [status["lag"] or {"partitions": {}} for status in self.running().statuses()[-1:]]
        return sum(each["read"] for lag in lags for each in lag["partitions"].values())

    def counted(self) -> dict[str, Any]:
        ledger = self.load.ledger
        passed = [json.loads(value or "")["id"] for _, value in records(self.client, "passed")]
        address = postgres.status(self.settings)
        assert address is not None
        with psycopg.connect(address.url) as database:
            stored = [row[0] for row in database.execute("SELECT id FROM passed")]
            found = database.execute("SELECT customer, n, total FROM totals")
            in_database = {customer: (n, total) for customer, n, total in found}
        in_topic = {
            row["customer"]: (row["n"], row["total"])
            for row in table(self.client, "totals").values()
        }
        expected: dict[str, tuple[int, int]] = {}
        for customer, amount in ledger:
            n, total = expected.get(customer, (0, 0))
            expected[customer] = (n + 1, total + amount)
        sizes = {row["n"]: row["customers"] for row in table(self.client, "sizes").values()}
        expected_sizes = Counter(n for n, _ in expected.values())
        sinks = {
            "topic, stream": _compared(passed, len(ledger)),
            "PostgreSQL, stream": _compared(stored, len(ledger)),
            "topic, table": _differences(in_topic, expected),
            "PostgreSQL, table": _differences(in_database, expected),
            "topic, table of the table": _differences(sizes, expected_sizes),
        }
        return {
            "kills": dict(self.kills),
            "restarts": self.restarts,
            "records": len(ledger),
            "sinks": sinks,
            "duplicates": sum(sink.get("duplicates", 0) for sink in sinks.values()),
            "losses": sum(sink.get("losses", 0) for sink in sinks.values()),
            "wrong rows": sum(sink.get("wrong rows", 0) for sink in sinks.values()),
        }


def _compared(ids: list[int], total: int) -> dict[str, int]:
    counts = Counter(ids)
    return {
        "duplicates": sum(count - 1 for count in counts.values()),
        "losses": total - len(counts),
    }


def _differences(found: dict[Any, Any], expected: dict[Any, Any]) -> dict[str, int]:
    return {
        "wrong rows": sum(found.get(k) != expected.get(k) for k in found.keys() | expected.keys())
    }


def _connected(process: psutil.Process, port: int) -> bool:
    with suppress(psutil.Error):
        return any(c.raddr and c.raddr.port == port for c in process.net_connections("tcp"))
    return False


def _signal(processes: list[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


LOCAL = ["driver", "between_write_and_commit", "python_worker", "zombie", "broker", "postgres"]
CLUSTER = ["executor", "cluster_worker", "between_write_and_commit", "driver", "zombie", "broker"]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=50)
    options.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    given = options.parse_args()
    print(f"seed {given.seed}", file=sys.stderr)

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="riverrun-chaos-") as folder,
        Chaos(Path(folder), random.Random(given.seed), tell) as chaos,
    ):
        while sum(chaos.kills.values()) < given.kills:
            local = sum(chaos.kills.values()) < given.kills * 2 // 3
            if not local and chaos.master.startswith("local"):
                chaos.move_to_cluster()
            chaos.fault(chaos.chosen.choice(LOCAL if local else CLUSTER))
        found = chaos.finish()
    print(json.dumps(found, indent=1))
    return int(bool(found["duplicates"] or found["losses"] or found["wrong rows"]))


if __name__ == "__main__":
    sys.exit(main())
