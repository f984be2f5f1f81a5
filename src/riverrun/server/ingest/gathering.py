"""Work that is cheaper together: what comes while it goes on is done at once the next time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Gathered(Generic[A, B]):
    """One thread, which is given all that waits. An error that is returned is for its own item."""

    def __init__(
        self,
        work: Callable[[list[A]], list[B | Exception]],
        name: str,
        *,
        weight: Callable[[A], int],
        most: int,
    ) -> None:
        """`most` is what items that are done together may weigh, unless it is one."""
        self.work, self.weight, self.most = work, weight, most
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.waiting: list[tuple[A, asyncio.Future[B]]] = []
        self.task: asyncio.Task[None] | None = None

    async def __call__(self, item: A) -> B:
        future: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self.waiting.append((item, future))
        if self.task is None:
            self.task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self.waiting:
                taken = self._next()
                items = [item for item, _ in taken]
                try:
                    found = await loop.run_in_executor(self.thread, self.work, items)
                except Exception as error:  # whatever it is, those who wait are told
                    found = [error] * len(items)
                for (_, future), each in zip(taken, found, strict=True):
                    _tell(future, each)
        finally:
            self.task = None

    def _next(self) -> list[tuple[A, asyncio.Future[B]]]:
        weight = count = 0
        for count, (item, _) in enumerate(self.waiting):
            weight += self.weight(item)
            if weight > self.most and count > 0:
                break
        else:
            count = len(self.waiting)
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken


def _tell(future: asyncio.Future[B], found: B | Exception) -> None:
    if future.done():  # nobody waits any more
        return
    if isinstance(found, Exception):
        future.set_exception(found)
    else:
        future.set_result(found)
