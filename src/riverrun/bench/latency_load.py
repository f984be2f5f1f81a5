"""Views of now at a steady rate, in a process of its own; what was sent when is noted in a file."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer

from riverrun.bench import load

TICK = 0.01
"""Seconds between two sendings: what is due by then is sent together."""


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.argv[1])
    producer = Producer({**plan["client"], "linger.ms": "2", "compression.type": "lz4",
                         "queue.buffering.max.messages": "1000000"})  # fmt: skip
    users = np.random.default_rng(1).integers(plan["keys"], size=1 << 16).tolist()
    begun, due, sent, at = time.time(), 0, 0, 0
    times: list[int] = []
    while (passed := time.time() - begun) < plan["seconds"]:
        due, at = int(passed * plan["per_second"]), int(time.time() * 1000)
        for number in range(sent, due):
            user = users[number % len(users)]
            value = load.view(f"user-{user}", number, 1.0, at)
            producer.produce(plan["topic"], value, partition=user % plan["partitions"])
        times += [at] * (due - sent)
        sent = due
        producer.poll(0)
        time.sleep(TICK)
    producer.flush()
    chosen = np.resize(np.array(users), sent)
    np.savez(Path(plan["noted"]), at=np.array(times), user=chosen)


if __name__ == "__main__":
    main()
