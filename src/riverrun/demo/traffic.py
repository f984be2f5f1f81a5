"""Page views of a small shop: a few pages get most, some come late, a few are broken."""

from __future__ import annotations

import json
import random
import threading
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer

from riverrun.kafka.admin import quiet

PAGES = ["/", "/search", "/basket", "/checkout", "/help", *(f"/product/{n}" for n in range(1, 40))]
PER_SECOND = 400
STEPS = 20


class Traffic(threading.Thread):
    """Produces views until it is stopped."""

    def __init__(self, client: dict[str, str], topic: str) -> None:
        super().__init__(name="traffic", daemon=True)
        self.producer, self.topic = Producer({**client}, logger=quiet), topic
        self.random = random.Random(7)
        self.done = threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self.done.wait(1 / STEPS):
            for _ in range(PER_SECOND // STEPS):
                key, value = self._view()
                self.producer.produce(self.topic, value, key)
                self.sent += 1
            self.producer.poll(0)

    def _view(self) -> tuple[str, bytes]:
        chosen = self.random
        user = "crawler" if chosen.random() < 0.05 else f"user-{chosen.randrange(5000)}"
        if chosen.random() < 0.001:
            return user, b'{"page": "/broken'
        behind = chosen.expovariate(1) if chosen.random() > 0.001 else 150 + chosen.random() * 30
        at = datetime.now(UTC) - timedelta(seconds=behind)
        page = PAGES[min(int(chosen.paretovariate(1)) - 1, len(PAGES) - 1)]
        view = {
            "page": page,
            "user": user,
            "ms": round(chosen.lognormvariate(4.5, 0.6), 1),
            "at": at.isoformat(timespec="milliseconds"),
        }
        return user, json.dumps(view).encode()

    def stop(self) -> None:
        self.done.set()
        self.join(5)
        self.producer.flush(5)
