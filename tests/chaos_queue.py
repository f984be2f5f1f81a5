"""Jobs of a queue; workers are killed and frozen at random, and the broker is killed.

    python tests/chaos_queue.py --jobs 20000 --seed 7

Each worker writes a line before it tells the broker that a job is done, and one with the answer.
Lines outlive `kill -9`. At the end each job is done, or a dead letter; and one that is done twice
was done by a worker that was killed before it could tell, or whose lock had run out, which the
worker was told and has counted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from queueing import Process, fresh, letters, put
from riverrun import config
from riverrun.config import Settings
from riverrun.embedded import kafka, ports
from riverrun.errors import BrokerError
from riverrun.queues.standing import standing

Tell = Callable[[str], None]
LOCK = 2
"""Seconds, of each job."""
WORKER = f"""
import os, random, sys, time
import riverrun as rr

lines = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
topic, group, longest = sys.argv[2:]
jobs = rr.queue(topic, group=group, lock="{LOCK} seconds", tries=6, ahead=4)


def say(*words):
    os.write(lines, (" ".join(map(str, words)) + chr(10)).encode())


@jobs.worker(concurrency=4)
def work(message):
    time.sleep(random.random() * float(longest))
    say("did", message.value)
    say("told" if message.done() else "late", message.value, jobs.counts.lost)


counts = work.run()
say("counts", counts.done, counts.lost)
"""


@dataclass
class Outcome:
    """What came of the jobs."""

    jobs: int
    missing: list[int]
    dead: int
    twice: int
    """Jobs that were done more than once: by whom is in the next two."""
    killed_first: int
    """Done by a worker that was killed before it was told that the broker knows."""
    late: int
    """Done, when the lock had run out: the worker was told so."""
    counted: int
    """What workers have counted of that, as far as they came to say so."""
    unexplained: list[int]
    kills: int
    freezes: int
    seconds: float


class Chaos:
    longest = 0.05
    """Seconds that a job may take."""

    def __init__(self, settings: Settings, folder: Path, dice: random.Random, tell: Tell) -> None:
        self.settings, client = settings, kafka.client(settings)
        self.client, self.folder, self.dice, self.tell = client, folder, dice, tell
        self.topic = self.group = fresh(client, "jobs", partitions=4)
        self.program = folder / "worker.py"
        self.program.write_text(WORKER)
        self.workers: list[Process] = []
        self.ended: list[Process] = []
        self.kills = self.freezes = self.broker_kills = 0

    def run(self, jobs: int, workers: int, kills: int, broker_kills: int = 0) -> Outcome:
        put(self.client, self.topic, range(jobs))
        begun_at = time.monotonic()
        with ExitStack() as stack:
            self.workers = [self.worker(stack) for _ in range(workers)]
            while not self.is_over(jobs):
                time.sleep(self.dice.uniform(0.2, 1.0))
                if self.kills < kills and self.did() > jobs * self.kills / (kills + 1):
                    self.disturb(stack)
                turn = jobs * (self.broker_kills + 1) / (broker_kills + 1)
                if self.broker_kills < broker_kills and self.did() > turn:
                    self.lose_broker()
            for each in self.workers:
                each.process.send_signal(signal.SIGTERM)
            for each in self.workers:  # one that has just been started knows no signals yet
                code = each.end()
                assert code == 0 or not each.said(), each.errors.read_text()
        return self.outcome(jobs, time.monotonic() - begun_at)

    def lose_broker(self) -> None:
        """It is killed, and comes back; nobody is there for a moment."""
        found = kafka.status(self.settings)
        assert found is not None
        os.kill(found.pid, signal.SIGKILL)
        kafka.up(self.settings)
        self.broker_kills += 1
        self.tell(f"{self.did():,} done, the broker was killed")

    def worker(self, stack: ExitStack) -> Process:
        lines = self.folder / f"{len(self.workers) + len(self.ended)}-{time.time_ns()}.lines"
        brokers = self.client["bootstrap.servers"]
        made = Process(
            self.program, lines, self.topic, self.group, str(self.longest), brokers=brokers
        )
        return stack.enter_context(made)

    def disturb(self, stack: ExitStack) -> None:
        """Somebody is killed, and another begins; or is frozen for longer than a lock lasts."""
        victim = self.dice.randrange(len(self.workers))
        worker = self.workers[victim]
        if not worker.said():
            return  # it has not begun
        if self.freezes * 4 < self.kills:
            worker.process.send_signal(signal.SIGSTOP)
            time.sleep(LOCK * 1.5)
            worker.process.send_signal(signal.SIGCONT)
            self.freezes += 1
            return
        worker.process.kill()
        worker.process.wait()
        self.kills += 1
        self.ended.append(worker)
        self.workers[victim] = self.worker(stack)
        self.tell(f"{self.did():,} done, {self.kills} killed, {self.freezes} frozen")

    def lines(self, worker: Process) -> list[list[str]]:
        return [line.split() for line in worker.said()]

    def did(self) -> int:
        return sum(
            1
            for each in [*self.workers, *self.ended]
            for line in self.lines(each)
            if line[0] == "did"
        )

    def is_over(self, jobs: int) -> bool:
        if self.did() < jobs - 100:
            return False
        try:
            return standing(self.client, self.topic, self.group).behind == 0
        except BrokerError:
            return False  # it has just come back

    def outcome(self, jobs: int, seconds: float) -> Outcome:
        did, told, late, of_killed = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
        counted = 0
        for worker in [*self.workers, *self.ended]:
            own: dict[str, Counter[int]] = defaultdict(Counter)
            lost = 0
            for word, *numbers in self.lines(worker):
                lost = max(lost, *map(int, numbers[1:]), 0)
                if word != "counts":
                    own[word][int(numbers[0])] += 1
            counted += lost
            did.update(own["did"])
            told.update(own["told"])
            late.update(own["late"])
            if worker in self.ended:
                of_killed.update(own["did"] - own["told"] - own["late"])
        dead = {int(each["value"]) for each in letters(self.client, self.group)}
        twice = [job for job, count in did.items() if count > 1]
        return Outcome(
            jobs, [job for job in range(jobs) if not did[job] and job not in dead], len(dead),
            len(twice), sum(of_killed[job] for job in twice), late.total(), counted,
            [job for job in twice if did[job] - 1 > of_killed[job] + late[job] or told[job] > 1],
            self.kills, self.freezes, seconds,
        )  # fmt: skip


def judge(found: Outcome) -> None:
    assert not found.missing, f"lost: {found.missing[:10]}"
    assert not found.unexplained, f"done twice without a cause: {found.unexplained[:10]}"
    assert found.counted >= found.late, "a lock that ran out was not counted"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--broker-kills", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        own = config.load(start=Path(folder), environ={"RIVERRUN_HOME": f"{folder}/home"})
        kafka.up(own, port=ports.any_free())
        try:
            dice = random.Random(given.seed)
            chaos = Chaos(own, Path(folder), dice, lambda text: print(text, flush=True))
            found = chaos.run(given.jobs, given.workers, given.kills, given.broker_kills)
        finally:
            kafka.down(own)
    print(found)
    judge(found)
    print("each job was done; none was lost; what was done twice is accounted for")


if __name__ == "__main__":
    sys.exit(main())
