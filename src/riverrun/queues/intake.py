"""From the broker to whoever works: messages that can be read, the others to the dead letters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any, NamedTuple

from riverrun import config
from riverrun.embedded import kafka
from riverrun.kafka import admin
from riverrun.kafka.dead import FOR_GROUP
from riverrun.kafka.requests import ACCEPT, REJECT, RELEASE
from riverrun.queues import group as groups
from riverrun.queues.counts import Counts
from riverrun.queues.deliveries import Delivery
from riverrun.queues.letters import DECODE, Letters
from riverrun.queues.member import Member
from riverrun.queues.messages import BY_HAND, AsyncMessage, Message, texts
from riverrun.queues.sending import Sending
from riverrun.queues.values import Values

SLICE = 0.1
"""Seconds after which a waiting worker looks whether it is to stop."""
LONG_SLICE = 1.0
NEVER = 1e9


@dataclass(frozen=True)
class Options:
    """What a queue was asked for; durations in seconds."""

    topic: str
    group: str
    values: Values
    tries: int
    again_after: float
    lock: float | None
    longest: float
    ahead: int
    start: str
    brokers: str | None


class Judged(NamedTuple):
    """What a record is to a worker: a value, or one that somebody else has to see."""

    value: Any = None
    step: str | None = None
    """Of the dead letter that it becomes."""
    cause: str = ""
    others: bool = False
    """It is here again for another group."""


class _Patience:
    """How long to wait for a message: from when the group has let us in, which takes seconds."""

    def __init__(self, timeout: float | None) -> None:
        self.timeout = NEVER if timeout is None else timeout
        self.begun_at = time.monotonic()

    def left(self, member: Member) -> float:
        if member.joined_at is None:
            return LONG_SLICE
        begun_at = max(self.begun_at, member.joined_at)
        return max(begun_at + self.timeout - time.monotonic(), 0.0)


class Intake:
    """A queue's membership in its group, from the first message on."""

    def __init__(self, options: Options) -> None:
        self.options, self.counts = options, Counts()
        self.tries, self.again_after = options.tries, options.again_after
        self._lock = Lock()
        self._member: Member | None = None
        self._sending: Sending | None = None
        self._letters: Letters | None = None
        self._client: Mapping[str, str] | None = None

    @property
    def client(self) -> Mapping[str, str]:
        if self._client is None:
            self._client = kafka.client(config.load().override(brokers=self.options.brokers))
        return self._client

    @property
    def member(self) -> Member:
        with self._lock:
            if self._member is None:
                self._member = self._joined()
            return self._member

    @property
    def sending(self) -> Sending:
        with self._lock:
            if self._sending is None:
                self._sending = Sending(self.client)
            return self._sending

    @property
    def letters(self) -> Letters:
        sending = self.sending
        with self._lock:
            if self._letters is None:
                self._letters = Letters(sending, self.options.group)
            return self._letters

    def _joined(self) -> Member:
        own = self.options
        admin.describe(self.client, own.topic)  # an error if there is none
        groups.prepare(self.client, own.group, tries=own.tries, lock=own.lock, start=own.start)
        return Member(self.client, own.group, own.topic, longest=own.longest, ahead=own.ahead)

    def close(self) -> None:
        """What is settled is told to the broker, the rest is released."""
        with self._lock:
            member, self._member = self._member, None
            sending, self._sending, self._letters = self._sending, None, None
        if member is not None:
            member.close()
        if sending is not None:
            sending.close()

    def next(
        self, timeout: float | None, step: str = BY_HAND, stop: Event | None = None
    ) -> Message | None:
        """The next message; None after the timeout, or when it is time to stop."""
        patience = _Patience(timeout)
        while (delivery := self._delivered(patience, stop)) is not None:
            judged = self._judged(delivery, step)
            if self._for_us(delivery, judged):
                return Message(self, delivery, judged.value, step)
        return None

    async def next_async(self, timeout: float | None, step: str = BY_HAND) -> AsyncMessage | None:
        patience = _Patience(timeout)
        while (delivery := await self._awaited(patience)) is not None:
            judged = self._judged(delivery, step)
            if judged.step is None and not judged.others:
                return AsyncMessage(self, delivery, judged.value, step)
            await asyncio.to_thread(self._for_us, delivery, judged)
        return None

    def _delivered(self, patience: _Patience, stop: Event | None) -> Delivery | None:
        member = self.member
        future = member.request()
        try:
            while True:
                left = patience.left(member)
                try:
                    return future.result(min(left, SLICE))
                except TimeoutError:
                    if not left or (stop is not None and stop.is_set()):
                        return None if future.cancel() else future.result()
        except BaseException:
            self._dropped(future)
            raise

    async def _awaited(self, patience: _Patience) -> Delivery | None:
        if self._member is None:
            await asyncio.to_thread(lambda: self.member)  # takes a moment
        member = self.member
        future = member.request()
        coming: asyncio.Future[Delivery] = asyncio.wrap_future(future)
        try:
            while (left := patience.left(member)) and not coming.done():
                await asyncio.wait([coming], timeout=min(left, LONG_SLICE))
        except BaseException:
            self._dropped(future)
            raise
        if coming.done():
            return coming.result()
        return None if future.cancel() else future.result()

    def _dropped(self, future: Future[Delivery]) -> None:
        """Interrupted: what has come meanwhile is nobody's."""
        if not future.cancel() and future.exception() is None and self._member is not None:
            self._member.settle(future.result(), RELEASE)

    def _judged(self, delivery: Delivery, step: str) -> Judged:
        self.counts.add("taken", *(["again"] if delivery.number > 1 else []))
        if texts(delivery.record.headers).get(FOR_GROUP, self.options.group) != self.options.group:
            return Judged(others=True)
        if delivery.number > self.tries:
            cause = (
                f"it was delivered {delivery.number - 1} times and never settled: a worker died, "
                "was out of reach, or forgot it"
            )
            return Judged(step=step, cause=cause)
        read = self.options.values.read(delivery.record)
        return Judged(read.value, None if read.cause is None else DECODE, read.cause or "")

    def _for_us(self, delivery: Delivery, judged: Judged) -> bool:
        if judged.others:
            self._settled(delivery, ACCEPT, "skipped")
        elif judged.step is not None:
            try:
                self.letters.write(delivery, judged.step, judged.cause)
            except BaseException:
                self.member.settle(delivery, RELEASE)
                raise
            self._settled(delivery, REJECT, "rejected")
        else:
            return True
        return False

    def _settled(self, delivery: Delivery, kind: int, name: str) -> None:
        taken = self.member.settle(delivery, kind).result()
        self.counts.add(name, *([] if taken else ["lost"]))
