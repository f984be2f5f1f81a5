"""The chaos of `chaos_capture.py` against Debezium on Kafka Connect, which is killed instead.

python tests/chaos_connect.py --changes 50000 --seed 7
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from capturing import Source
from chaos_capture import ChaosCapture, wild
from riverrun import config
from riverrun.capture.connect import ConnectCapturer
from riverrun.embedded import connect, process
from riverrun.errors import RiverrunError


class ChaosConnect(ChaosCapture):
    """Connect in place of riverrun's own process."""

    def start(self, rows: int) -> Source:
        source = super().start(rows)
        source.capture = ConnectCapturer(self.settings, "chaos")
        return source

    def capturer_killed(self) -> None:
        if (worker := connect.status(self.settings)) is not None:
            os.kill(worker.pid, signal.SIGKILL)
            while process.alive(worker.pid):
                time.sleep(0.01)
        self.mended()

    def mended(self) -> None:
        """What `riverrun run` would do; a server may be away at this very moment."""
        give_up_at = time.monotonic() + 120
        while True:
            try:
                return self.source.capture.ensure(["chaos.accounts"])
            except RiverrunError as error:
                if time.monotonic() > give_up_at:
                    raise
                self.tell(f"again: {error.fact}")
                time.sleep(1)

    def zombie(self) -> None:
        """A worker that stood still for a while, as a machine does that was suspended."""
        if (worker := connect.status(self.settings)) is not None:
            os.kill(worker.pid, signal.SIGSTOP)
            time.sleep(5)
            os.kill(worker.pid, signal.SIGCONT)

    def finish(self) -> dict[str, Any]:
        self.mended()
        return super().finish()

    def broken(self) -> int:
        """Its ids have a position behind the transaction, another in each record."""
        seen: Counter[tuple[str, str]] = Counter()
        told: Counter[tuple[str, str]] = Counter()
        for table in ("accounts", "notes"):
            for _, _, value in self.source.records(self.source.topic(table)):
                if value is not None and value["transaction"] is not None:
                    seen[value["transaction"]["id"].partition(":")[0], table] += 1
        for _, _, value in self.source.records("chaos.transaction"):
            for each in (value or {}).get("data_collections") or []:
                schema, _, table = each["data_collection"].partition(".")
                if schema == "chaos" and table in ("accounts", "notes"):
                    told[value["id"].partition(":")[0], table] += each["event_count"]
        return sum(seen[each] != told[each] for each in seen | told)

    def stop(self) -> None:
        connect.down(self.settings)
        with suppress(RiverrunError):
            super().stop()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--changes", type=int, default=50_000)
    options.add_argument("--writers", type=int, default=10)
    options.add_argument("--rows", type=int, default=50_000, help="of the first snapshot")
    options.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    given = options.parse_args()

    def tell(line: str) -> None:
        print(f"{time.strftime('%T')} {line}", file=sys.stderr, flush=True)

    tell(f"seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="riverrun-connect-") as folder:
        settings = config.load(start=Path(folder), environ={"RIVERRUN_HOME": f"{folder}/home"})
        chaos = ChaosConnect(settings, random.Random(given.seed), tell)
        try:
            chaos.start(given.rows)
            found = wild(chaos, given.changes, given.writers)
        finally:
            chaos.stop()
    print(json.dumps(found, indent=1))
    wrong = sum(found["rows that differ"].values()) + found["transactions that are not whole"]
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
