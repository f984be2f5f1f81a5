"""A message as a worker sees it: its value, and what is to become of it."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

from riverrun.errors import ProgramError, caller, cause_of
from riverrun.kafka import admin
from riverrun.kafka.batches import Headers, Stored
from riverrun.kafka.dead import FOR_GROUP
from riverrun.kafka.requests import ACCEPT, REJECT, RELEASE
from riverrun.queues.counts import Counts
from riverrun.queues.deliveries import Delivery
from riverrun.queues.letters import Letters, moment
from riverrun.queues.member import Member
from riverrun.queues.sending import Sending

BY_HAND = "queue"
"""What a step is called in letters of messages that no worker's function was given."""
NAMES = {ACCEPT: "done", RELEASE: "released", REJECT: "rejected"}


class Holder(Protocol):
    """What a message needs of its queue."""

    counts: Counts
    tries: int
    again_after: float

    @property
    def member(self) -> Member: ...

    @property
    def letters(self) -> Letters: ...

    @property
    def sending(self) -> Sending: ...


class Received:
    """What both kinds of messages share."""

    def __init__(self, holder: Holder, delivery: Delivery, value: Any, step: str) -> None:
        """`step` is who is named in a dead letter."""
        self.value, self._step = value, step
        self._holder, self._delivery, self._member = holder, delivery, holder.member
        self._settled: str | None = None
        # one that is dropped without a word is given back, though its lock is being renewed
        self._forgotten = weakref.finalize(self, _forget, holder.counts, holder.member, delivery)
        self._forgotten.atexit = False

    def __repr__(self) -> str:
        return f"<message {self.place}, delivery {self.deliveries}, {self._settled or 'in hand'}>"

    @property
    def key(self) -> str | None:
        """As text; what is no UTF-8 is shown with backslashes, and whole in `record`."""
        content = self.record.key
        return None if content is None else content.decode(errors="backslashreplace")

    @property
    def headers(self) -> Mapping[str, str | None]:
        """As text, the last of each name."""
        return texts(self.record.headers)

    @property
    def timestamp(self) -> datetime:
        """Of the record, in UTC."""
        return moment(self.record)

    @property
    def deliveries(self) -> int:
        """How often the record was delivered, this time included."""
        return self._delivery.number

    @property
    def topic(self) -> str:
        return self._delivery.partition.topic

    @property
    def partition(self) -> int:
        return self._delivery.partition.number

    @property
    def offset(self) -> int:
        return self.record.offset

    @property
    def place(self) -> str:
        """TOPIC/PARTITION/OFFSET, as `riverrun dead` takes it."""
        return self._delivery.place

    @property
    def record(self) -> Stored:
        """Key, value and headers as they were written."""
        return self._delivery.record

    @property
    def lost(self) -> bool:
        """Whether the lock has run out: somebody else may be at it."""
        return self._delivery.lost or not self._delivery.left

    @property
    def settled(self) -> str | None:
        """`done`, `released` or `rejected`; None while it is in hand."""
        return self._settled

    @property
    def last_try(self) -> bool:
        return self.deliveries >= self._holder.tries

    def _settle(self, kind: int, *, after: float = 0.0) -> Future[bool]:
        self._claim(NAMES[kind])
        return self._member.settle(self._delivery, kind, after=after)

    def _claim(self, name: str) -> None:
        self._check(name)
        self._settled = name
        self._forgotten.detach()

    def _check(self, name: str) -> None:
        if self._settled is not None:
            raise ProgramError(
                f"the message is {self._settled} already",
                where=caller(),
                got=f"{self.place} was to be {name}",
            )

    def _reject(self, reason: str) -> Future[bool]:
        """The letter first: a crash in between writes it twice, and never loses the record."""
        self._claim(NAMES[REJECT])
        try:
            self._holder.letters.write(self._delivery, self._step, reason)
        except BaseException:
            self._member.settle(self._delivery, RELEASE)
            raise
        return self._member.settle(self._delivery, REJECT)

    def _send_on(self, topic: str) -> None:
        self._check("handed over")
        sending, record = self._holder.sending, self.record
        admin.describe(sending.client, topic)  # an error if there is none
        headers = [each for each in record.headers if each[0] != FOR_GROUP]
        now = time.time_ns() // 1_000_000
        sending.send(topic, record.value, record.key, timestamp=now, headers=headers)

    def _counted(self, taken: bool) -> bool:
        self._holder.counts.add(self._settled or "", *([] if taken else ["lost"]))
        return taken


def _forget(counts: Counts, member: Member, delivery: Delivery) -> None:
    counts.add("released")
    member.settle(delivery, RELEASE)


class Message(Received):
    """A message that is settled by plain calls. A `with` block settles it at its end: done, or
    released for another try if the block raises, or a dead letter if that was the last."""

    def done(self) -> bool:
        """The work is done. False if the lock had run out before: it may be done again."""
        return self._counted(self._settle(ACCEPT).result())

    def release(self) -> bool:
        """Give it back: it is delivered again, to any worker."""
        return self._counted(self._settle(RELEASE).result())

    def reject(self, reason: str) -> bool:
        """Write it to the dead letters; it is not delivered again."""
        return self._counted(self._reject(reason).result())

    def hand_over(self, topic: str) -> bool:
        """Write it to another topic as it is, and be done with it: for work that is not for this
        queue. A worker that dies in between may write it twice."""
        self._send_on(topic)
        return self.done()

    def failed(self, error: Exception) -> bool:
        """Another try after a while; after the last one a dead letter with the error's line."""
        if self.last_try:
            return self.reject(cause_of(error))
        self._settle(RELEASE, after=self._holder.again_after)
        return self._counted(True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._settled is not None:
            return
        if error is None:
            self.done()
        elif isinstance(error, Exception):
            self.failed(error)
        else:
            self.release()


class AsyncMessage(Received):
    """The same for `async` code: settling is awaited."""

    async def done(self) -> bool:
        return self._counted(await asyncio.wrap_future(self._settle(ACCEPT)))

    async def release(self) -> bool:
        return self._counted(await asyncio.wrap_future(self._settle(RELEASE)))

    async def reject(self, reason: str) -> bool:
        return self._counted(
            await asyncio.wrap_future(await asyncio.to_thread(self._reject, reason))
        )

    async def hand_over(self, topic: str) -> bool:
        await asyncio.to_thread(self._send_on, topic)
        return await self.done()

    async def failed(self, error: Exception) -> bool:
        if self.last_try:
            return await self.reject(cause_of(error))
        self._settle(RELEASE, after=self._holder.again_after)
        return self._counted(True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._settled is not None:
            return
        if error is None:
            await self.done()
        elif isinstance(error, Exception):
            await self.failed(error)
        else:
            self.let_go()

    def let_go(self) -> None:
        """Released without waiting for the answer: whoever is cancelled has no time."""
        self._settle(RELEASE)
        self._counted(True)


def texts(headers: Headers) -> dict[str, str | None]:
    return {
        name: None if value is None else value.decode(errors="replace") for name, value in headers
    }
