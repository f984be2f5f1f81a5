"""A function that works on messages: several at once, until it is told to stop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import update_wrapper
from typing import Any

from riverrun.durations import Duration, microseconds
from riverrun.errors import ProgramError, caller, cause_of
from riverrun.queues.counts import Counts
from riverrun.queues.intake import Intake
from riverrun.queues.messages import AsyncMessage, Received

log = logging.getLogger("riverrun.queue")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK = 0.2
"""Seconds between two looks of the main thread, which hears signals."""


class Worker:
    """Calls it as the function it was made of; `run` works on the queue."""

    def __init__(self, intake: Intake, function: Callable[[Any], Any], concurrency: int) -> None:
        if not callable(function):
            raise ProgramError("a worker is a function", where=caller(), got=repr(function))
        self.function, self.concurrency = function, concurrency
        self.is_async = inspect.iscoroutinefunction(function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self._intake = intake
        update_wrapper(self, function)

    @property
    def counts(self) -> Counts:
        return self._intake.counts

    def __call__(self, message: Any) -> Any:
        return self.function(message)

    def run(self, *, idle: Duration | None = None) -> Counts:
        """Works until Ctrl-C or SIGTERM: what is in hand is finished then, and nothing more taken.
        The second time it is released at once. With `idle`, also until nothing has come for so
        long."""
        patience = None if idle is None else microseconds(idle, caller()) / 1e6
        if self.is_async:
            with suppress(asyncio.CancelledError):
                asyncio.run(self._tasks(patience))
        else:
            self._threads(patience)
        return self._intake.counts

    async def run_async(self, *, idle: Duration | None = None) -> Counts:
        """The same inside of a loop that runs: cancel it to stop."""
        if not self.is_async:
            raise ProgramError(
                "run_async is for async functions", where=caller(), got=self.name, hint="use run()"
            )
        patience = None if idle is None else microseconds(idle, caller()) / 1e6
        await self._tasks(patience, signals=False)
        return self._intake.counts

    def _threads(self, patience: float | None) -> None:
        stop, failures = threading.Event(), list[BaseException]()

        def lane() -> None:
            try:
                while self._one(patience, stop):
                    pass
            except BaseException as error:  # told by the main thread
                failures.append(error)
                stop.set()

        lanes = [threading.Thread(target=lane, daemon=True) for _ in range(self.concurrency)]
        with _heard(stop):
            try:
                for each in lanes:
                    each.start()
                for each in lanes:
                    while each.is_alive():
                        each.join(LOOK)
            finally:
                self._intake.close()
        if failures:
            raise failures[0]

    def _one(self, patience: float | None, stop: threading.Event) -> bool:
        """Whether there was a message, and may be another."""
        if stop.is_set():
            return False
        message = self._intake.next(patience, self.name, stop)
        if message is None:
            return False
        try:
            self.function(message)
        except Exception as error:  # whatever the user's code raises
            self._tell(message, error)
            if message.settled is None:
                message.failed(error)
        except BaseException:
            if message.settled is None:
                message.release()
            raise
        else:
            if message.settled is None:
                message.done()
        return True

    async def _tasks(self, patience: float | None, *, signals: bool = True) -> None:
        stop, taking = asyncio.Event(), set[asyncio.Task[AsyncMessage | None]]()

        async def lane() -> None:
            while not stop.is_set():
                task = asyncio.create_task(self._intake.next_async(patience, self.name))
                taking.add(task)
                await asyncio.wait([task])
                taking.discard(task)
                if task.cancelled() or (message := task.result()) is None:
                    return
                await self._handled(message)

        lanes = [asyncio.create_task(lane()) for _ in range(self.concurrency)]

        def asked() -> None:
            again = stop.is_set()
            stop.set()
            for task in lanes if again else [*taking]:
                task.cancel()

        with _heard_by_loop(asked) if signals else nullcontext():
            try:
                await asyncio.gather(*lanes)
            finally:
                for task in [*lanes, *taking]:
                    task.cancel()
                await asyncio.to_thread(self._intake.close)

    async def _handled(self, message: AsyncMessage) -> None:
        try:
            await self.function(message)
        except Exception as error:  # whatever the user's code raises
            self._tell(message, error)
            if message.settled is None:
                await message.failed(error)
        except BaseException:
            if message.settled is None:
                message.let_go()
            raise
        else:
            if message.settled is None:
                await message.done()

    def _tell(self, message: Received, error: Exception) -> None:
        what = "a dead letter" if message.last_try else "another try follows"
        log.warning("%s: %s: %s; %s", self.name, message.place, cause_of(error), what)


@contextmanager
def _heard(stop: threading.Event) -> Iterator[None]:
    """The first signal asks to stop, the second interrupts. Only a main thread hears them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def signalled(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {each: signal.signal(each, signalled) for each in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _heard_by_loop(asked: Callable[[], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for each in SIGNALS:
        loop.add_signal_handler(each, asked)
    try:
        yield
    finally:
        for each in SIGNALS:
            loop.remove_signal_handler(each)
