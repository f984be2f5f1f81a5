"""`riverrun.queue("jobs", group="workers")`: messages one by one, for any number of workers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal, Self, overload

from riverrun.arguments import checked
from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError, caller
from riverrun.formats import Format
from riverrun.queues.counts import Counts
from riverrun.queues.intake import Intake, Options
from riverrun.queues.messages import AsyncMessage, Message
from riverrun.queues.values import Values
from riverrun.queues.worker import Worker

NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
MOST_TRIES = 8
"""Kafka delivers ten times at most; two of them are kept for writing the dead letter."""
MOST_AHEAD = 1_000
MOST_AT_ONCE = 1_000


@checked
def queue(
    topic: str,
    *,
    group: str,
    schema: str | None = None,
    format: str | Format | None = "json",
    tries: int = 3,
    again_after: Duration = "1 second",
    lock: Duration | None = None,
    longest: Duration = "1 hour",
    ahead: int = 0,
    start: Literal["earliest", "latest"] = "earliest",
    brokers: str | None = None,
) -> Queue:
    """A topic as a queue. Workers of one group share its messages; each group gets all of them.

    Nothing is connected until the first message is taken. A message that fails is tried again after
    a while, `tries` times in all. A worker that is frozen or out of reach loses its messages after
    `lock` (15 to 60 seconds unless brokers say otherwise, 30 by default). While a worker lives the
    lock is renewed, up to the `longest` that a message may take. `ahead` messages are locked before
    they are asked for. `start` holds for a new group.
    """
    where = caller()
    _check_name(topic, "topic", where)
    _check_name(group, "group", where)
    _check_range(tries, "tries", range(1, MOST_TRIES + 1), where)
    _check_range(ahead, "ahead", range(MOST_AHEAD + 1), where)
    options = Options(
        topic=topic,
        group=group,
        values=Values(schema, format, where),
        tries=tries,
        again_after=_seconds(again_after, where),
        lock=None if lock is None else _seconds(lock, where),
        longest=_seconds(longest, where),
        ahead=ahead,
        start=start,
        brokers=brokers,
    )
    return Queue(Intake(options))


def _check_name(name: str, what: str, where: Location) -> None:
    if not NAME.fullmatch(name) or name in (".", ".."):
        raise ProgramError(
            f"the name of a {what} has letters, digits, _ . and -, at most 200",
            where=where,
            got=repr(name),
        )


def _check_range(number: int, name: str, known: range, where: Location) -> None:
    if number not in known:
        raise ProgramError(f"{name} is {known[0]} to {known[-1]:,}", where=where, got=number)


def _seconds(duration: Duration, where: Location) -> float:
    return microseconds(duration, where) / 1e6


@checked
class Queue:
    """Messages of a topic for one group. It can be used by any number of threads and tasks."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.topic, self.group = intake.options.topic, intake.options.group

    def __repr__(self) -> str:
        return f"<queue {self.topic} of {self.group}>"

    @property
    def counts(self) -> Counts:
        """What this process has taken, done, released, rejected and lost."""
        return self._intake.counts

    @overload
    def take(self) -> Message: ...

    @overload
    def take(self, timeout: Duration) -> Message | None: ...

    def take(self, timeout: Duration | None = None) -> Message | None:
        """The next message; None if none comes within the timeout."""
        return self._intake.next(_patience(timeout))

    async def take_async(self, timeout: Duration | None = None) -> AsyncMessage | None:
        return await self._intake.next_async(_patience(timeout))

    def messages(self, *, idle: Duration | None = None) -> Iterator[Message]:
        """One after the other; ends when none has come for as long as `idle`."""
        patience = _patience(idle)
        while (message := self._intake.next(patience)) is not None:
            yield message
            del message  # one that is forgotten is released before the next is waited for

    async def messages_async(self, *, idle: Duration | None = None) -> AsyncIterator[AsyncMessage]:
        patience = _patience(idle)
        while (message := await self._intake.next_async(patience)) is not None:
            yield message
            del message

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        return self.messages_async()

    def worker(self, *, concurrency: int = 1) -> Callable[[Callable[[Any], Any]], Worker]:
        """Decorates a function, or an async one, that is given each message. It returns: done. It
        raises: tried again, after the last try a dead letter. So many messages at once, in threads
        or in tasks. `FUNCTION.run()` works until it is told to stop."""
        _check_range(concurrency, "concurrency", range(1, MOST_AT_ONCE + 1), caller())

        def made(function: Callable[[Any], Any]) -> Worker:
            return Worker(self._intake, function, concurrency)

        return made

    def close(self) -> None:
        """What is settled is told to the broker, what is in hand is released. It can be used
        again."""
        self._intake.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _patience(timeout: Duration | None) -> float | None:
    return None if timeout is None else _seconds(timeout, caller())
