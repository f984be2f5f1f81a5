"""A query that stands for as long as somebody looks on, and what it finds meanwhile."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from typing import Any
from uuid import uuid4

from riverrun.embedded import kafka
from riverrun.errors import JobError
from riverrun.kafka.answers import AnswerTopic
from riverrun.queries import Queries


class Watched:
    """Hits of a query, one by one. In a `with` block: it is removed at its end."""

    def __init__(
        self, app: str, query: str, *, where: str | None, step: str | None, brokers: str | None
    ) -> None:
        self.queries = Queries(app, step, brokers=brokers)
        self.name = f"watch-{uuid4().hex[:8]}"
        self.asked: dict[str, Any] = {"name": self.name, "query": query, "watch": True}
        if where:
            self.asked["where"] = where

    def __enter__(self) -> Watched:
        for ends in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C does: a terminal may be closed
            signal.signal(ends, signal.default_int_handler)
        app = self.queries.application
        if not self.queries.running:
            raise JobError(
                f"the application {app!r} does not run",
                hint="start it with `riverrun run`; a query is watched while it does",
            )
        self.answers = AnswerTopic(kafka.client(self.queries.settings), app).opened()
        [known] = self.queries.add(self.asked)
        if known.error is not None:
            raise known.error
        if known.state != "in effect":
            self.queries.remove(self.name, timeout=None)
            raise JobError(f"the application {app!r} has not answered within 30 seconds")
        self.effective = known.effective
        return self

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for message in self.answers.follow(self.answers.latest, Event()):
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                found = json.loads(message.value() or b"")
                if found.get("watch") == self.name:
                    yield found

    def __exit__(self, *error: object) -> None:
        """The job need not answer: it will when it comes to it."""
        self.queries.remove(self.name, timeout=None)
        with self.answers:
            pass
