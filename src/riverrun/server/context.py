"""What all requests share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from riverrun.config import Settings
from riverrun.partitions import Partition
from riverrun.server.answers import Refused
from riverrun.server.freshness import REMEMBERED, LogEnds
from riverrun.server.limits import Limits, Rates
from riverrun.server.security import Act, Guard
from riverrun.views import Reader

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]
Slow = Literal["query", "question", "control log"]
AT_ONCE: dict[Slow, int] = {"query": 8, "question": 50, "control log": 16}
MOST_WAITING = 200
MOMENT = 0.5
LOOK = 0.02
"""Seconds between two looks whether a view has changed, while somebody waits for it."""


@dataclass
class Context:
    settings: Settings
    reader: Reader
    guard: Guard
    limits: Limits
    ends: LogEnds
    rates: Rates
    streams: int = 0
    """Followers that there are."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _watch_task: asyncio.Task[None] | None = None
    _slow: dict[Slow, CapacityLimiter] = field(
        default_factory=lambda: {what: CapacityLimiter(many) for what, many in AT_ONCE.items()}
    )

    def guarded(self, act: Act, named: str | None, handler: Handler) -> Handler:
        """A handler for those who may; `named` is the part of the path that says what."""

        @wraps(handler)
        async def handle(request: Request) -> Response:
            what = request.path_params[named] if named else ""
            self.guard.require(request, act, what)
            self.rates.take(self.guard.who(request))
            return await handler(request)

        return handle

    async def slowly(self, what: Slow, work: Callable[[], T]) -> T:
        """Work that may take long, in a thread: so many of a kind at a time, so that all others
        still find one."""
        limiter = self._slow[what]
        if limiter.statistics().tasks_waiting >= MOST_WAITING:
            raise Refused(503, "too many wait for an answer", headers={"Retry-After": "5"})
        return await to_thread.run_sync(work, limiter=limiter)

    async def reading(self, read: Callable[[], T], *, quick: bool = False) -> T:
        """A look into the database; one that is quick does not leave the loop."""
        if quick and self.reader.store.kind == "sqlite":
            return read()
        return await run_in_threadpool(read)

    async def log_ends(self, topics: tuple[str, ...]) -> dict[Partition, int] | None:
        """What is known. It is asked for anew beside the request, which waits a moment if nothing
        is known yet, or if it is the first one for a while: a broker that is away holds nobody
        up."""
        known, age = self.ends.known(topics)
        first = age > REMEMBERED and self.ends.refresh(topics)
        if known is None or (first and age > 2 * REMEMBERED):
            give_up_at = time.monotonic() + MOMENT
            while age > REMEMBERED and not self.ends.away and time.monotonic() < give_up_at:
                await asyncio.sleep(LOOK)
                known, age = self.ends.known(topics)
        return known

    async def changed(self, seconds: float) -> None:
        """Returns when something has been written to views, or time is over."""
        if self._watch_task is None:
            self._watch_task = asyncio.create_task(self._watch())
        event = self._changed
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return

    async def _watch(self) -> None:
        """One look for all who wait."""
        seen = await self.reading(self.reader.version, quick=True)
        while True:
            await asyncio.sleep(LOOK)
            try:
                now = await self.reading(self.reader.version, quick=True)
            except Exception:  # the database is away: those who wait time out, and say so
                continue
            if now != seen:
                seen = now
                event, self._changed = self._changed, asyncio.Event()
                event.set()
