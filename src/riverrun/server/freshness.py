"""How fresh a view is: its clock, and how far it is behind the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from math import inf
from typing import Any

from riverrun.config import Settings
from riverrun.embedded import kafka
from riverrun.errors import RiverrunError
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition
from riverrun.views.reading import Known
from riverrun.views.tokens import Note, Verdict
from riverrun.views.values import clock_text, moment_text

REMEMBERED = 1.0
"""Seconds for which it is known where topics end."""


class LogEnds:
    """Where topics end, asked of Kafka once a second at most."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._cluster: KafkaTopics | None = None
        self._asking: set[tuple[str, ...]] = set()
        self.away = False
        """Whether Kafka could not be asked, the last time."""
        self._known: dict[str, tuple[float, dict[Partition, int]]] = {}

    def of(self, topics: Iterable[str]) -> dict[Partition, int] | None:
        """None if Kafka cannot be asked."""
        with self._lock:
            now = time.monotonic()
            old = [t for t in topics if now > self._known.get(t, (0.0, {}))[0] + REMEMBERED]
            try:
                if old:
                    self._ask(old)
                self.away = False
            except RiverrunError:
                self.away, self._cluster = True, None  # it may come back elsewhere
                self._known = {t: known for t, known in self._known.items() if t not in old}
                return None
            return {p: end for topic in topics for p, end in self._known[topic][1].items()}

    def refresh(self, topics: tuple[str, ...]) -> bool:
        """Asks beside the caller; False if somebody does already. Nobody waits for a thread that
        waits for Kafka."""
        if topics in self._asking:
            return False
        self._asking.add(topics)
        threading.Thread(target=self._refresh, args=(topics,), daemon=True).start()
        return True

    def _refresh(self, topics: tuple[str, ...]) -> None:
        try:
            self.of(topics)
        finally:
            self._asking.discard(topics)

    def known(self, topics: Iterable[str]) -> tuple[dict[Partition, int] | None, float]:
        """What was found last, None before, and how many seconds ago."""
        now, age = time.monotonic(), 0.0
        found: dict[Partition, int] = {}
        for topic in topics:
            if topic not in self._known:
                return None, inf
            at, ends = self._known[topic]
            found |= ends
            age = max(age, now - at)
        return found, age

    def _ask(self, topics: list[str]) -> None:
        if self._cluster is None:
            self._cluster = KafkaTopics(kafka.client(self.settings), patience=1.0)
        cluster = self._cluster
        facts = cluster.facts(topics)
        partitions = [Partition(t, n) for t in topics for n in range(facts[t].partitions)]
        ends = cluster.ends(partitions)
        for topic in topics:
            own = {each: end for each, end in ends.items() if each.topic == topic}
            self._known[topic] = time.monotonic(), own


def freshness(view: Known, note: Note | None, ends: dict[Partition, int] | None) -> dict[str, Any]:
    """For answers. What is not known is null."""
    if note is None:
        return {"revision": None, "at": None, "clock": None, "behind": None}
    clocks = [note.facts.clocks[step] for step in view.ways.steps if step in note.facts.clocks]
    return {
        "revision": str(note.revision),
        "at": moment_text(note.tick),
        "clock": clock_text(min(clocks, default=None)),
        "behind": None if ends is None else _behind(note, ends),
    }


def _behind(note: Note, ends: dict[Partition, int]) -> int:
    """Records of the view's topics that it does not hold yet. Kafka's own marks count, too."""
    return sum(max(end - note.facts.ends.get(str(each), 0), 0) for each, end in ends.items())


def told(verdict: Verdict) -> dict[str, Any]:
    """What has become of a token's records, for answers."""
    said: dict[str, Any] = {"state": verdict.state, "text": verdict.text}
    if verdict.step is not None:
        until, clock = verdict.until, verdict.clock
        said |= {
            "step": verdict.step,
            "until": None if until is None else moment_text(until),
            "clock": clock_text(clock),
        }
    return said
