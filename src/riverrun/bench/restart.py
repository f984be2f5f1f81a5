"""`riverrun bench restart`: from a start with much state to the first result; replay; promotion.

- Restart: a table of documents is loaded; then the program ends, and is started again with
  something to do. Measured from the start of its process until its results can be read.
- The same with hardly any state: what of it is the start itself.
- Replay: a window program over all of a topic, into topics of its own.
- Promotion: two versions under load, which become the public one in turns.
"""

from __future__ import annotations

import json
import random
import string
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from riverrun.bench import load
from riverrun.bench.harness import WAIT, Bench, Plan, batches_of
from riverrun.bench.promotion import Promotion
from riverrun.bench.report import Report
from riverrun.config import Settings
from riverrun.kafka.browse import Browser

BODY = 1_000
"""Characters of a document."""
FEW = 1_000
"""Documents where there is hardly any state, and those that are asked for."""
PER_SECOND = 10_000


@dataclass(frozen=True)
class Sizes:
    documents: int = 1_000_000
    """A gigabyte of them."""
    batch: int = 100_000
    events: int = 2_000_000
    """That are replayed."""
    replayed_batch: int = 250_000
    promotions: int = 3
    """There and back."""

    @property
    def smaller(self) -> Sizes:
        return Sizes(100_000, 25_000, 200_000, 50_000, 1)


class RestartBench(Bench):
    def __init__(self, settings: Settings, sizes: Sizes, folder: Path) -> None:
        super().__init__(settings, folder, batch=sizes.batch)
        self.sizes = sizes

    def restart(self) -> None:
        self._restarted("hardly any state", FEW)
        name = f"{self.sizes.documents * BODY // 1_000_000:,} MB"
        seconds = self._restarted(name, self.sizes.documents)
        self.report.at_most(
            f"restart with {name} of state: seconds to the first result", 30, seconds
        )

    def _restarted(self, name: str, count: int) -> float:
        """Seconds from the start of the process until all is answered that was asked."""
        documents, asked = self.topic(f"documents-{count}"), self.topic(f"asked-{count}")
        load.produce(self.client, documents, _documents(count), count)
        plan = self.plan(documents, f"restart-{count}", once=True, kind="passed", asked=asked)
        began_at = time.monotonic()
        self.finished("restart_ours", {**plan, "fresh": True})
        figures = self.report.figures
        figures[f"{name}: loaded in, s"] = round(time.monotonic() - began_at, 1)
        kept = self._state(plan)
        figures[f"{name}: rows"], figures[f"{name}: MB in memory"] = kept[0], kept[1] // 1_000_000
        figures[f"{name}: MB of the checkpoint"] = self._checkpoint_size(plan) // 1_000_000
        load.produce(self.client, asked, _asked(count), FEW)
        again = {**plan, "fresh": False, "once": False, "result": f"{plan['result']}.again"}
        seconds = self._first_result(again)
        [first] = batches_of(again)[:1]
        figures[f"{name}: first result, s"] = round(seconds, 1)
        figures[f"{name}: first batch of it, s"] = round(first["seconds"], 1)
        figures[f"{name}: CPU of it, s"] = round(first["cpu"], 1)
        return seconds

    def _first_result(self, plan: Plan) -> float:
        began_at = time.monotonic()
        with self.process("restart_ours", plan) as process:
            while len(self._results(plan)) < FEW:
                if process.poll() is not None or time.monotonic() - began_at > WAIT:
                    process.kill()
                    raise self.failed(plan)
                time.sleep(0.2)
            seconds = time.monotonic() - began_at
            self.wait_for(process, plan, FEW)
            self.stop(process, plan)
        return seconds

    def _results(self, plan: Plan) -> list[object]:
        with Browser(self.client, plan["output"]) as browser:
            return list(browser.read(browser.earliest))

    def _state(self, plan: Plan) -> list[int]:
        """Rows and bytes, as the last batch told."""
        file = self.settings.run_of(f"bench-{plan['output']}") / "status" / "status.json"
        told: dict[str, list[int]] = json.loads(file.read_text())["state"]
        return [sum(counts) for counts in zip(*told.values(), strict=True)]

    def _checkpoint_size(self, plan: Plan) -> int:
        folder = Path(str(self.settings.checkpoint_of(f"bench-{plan['output']}")))
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

    def replay(self) -> None:
        events, batch = self.sizes.events, self.sizes.replayed_batch
        topic = self.topic("history")
        load.produce(
            self.client, topic, load.events(events, 100_000, per_second=PER_SECOND), events
        )
        plan = self.plan(topic, "replay", once=True, kind="replay")
        began_at = time.monotonic()
        batches = self.finished("restart_ours", {**plan, "batch": batch})
        self.batch = batch
        self.steady("replay", batches)
        whole = events / (time.monotonic() - began_at)
        self.report.figures["replay: events/s with its start"] = round(whole)

    def promotion(self) -> None:
        Promotion(self, rounds=self.sizes.promotions).measure()


def _documents(count: int) -> Iterator[bytes]:
    """Text that does not get smaller: pieces of a long one at random."""
    chosen = random.Random(1)
    text = "".join(chosen.choices(string.ascii_letters + string.digits, k=4_000_000))
    for number in range(count):
        first = chosen.randrange(len(text) - BODY)
        yield f'{{"id":{number},"body":"{text[first : first + BODY]}"}}'.encode()


def _asked(count: int) -> Iterator[bytes]:
    for number in range(FEW):
        yield f'{{"id":{number * 7919 % count}}}'.encode()


def bench(settings: Settings, sizes: Sizes) -> Report:
    with tempfile.TemporaryDirectory(prefix="riverrun-bench-") as folder:
        run = RestartBench(settings, sizes, Path(folder))
        for part in (run.restart, run.replay, run.promotion):
            part()
        return run.report
