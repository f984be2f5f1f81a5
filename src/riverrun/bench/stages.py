"""CPU of one thread by what it was spent for."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar

T = TypeVar("T")


class Stages:
    """Seconds by stage. What one stage does inside of another is its own, and not the other's."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        self._until_now()
        self._open.append(stage)
        try:
            yield
        finally:
            self._until_now()
            self._open.pop()

    def _until_now(self) -> None:
        now = time.thread_time()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def each(self, stage: str, found: Iterable[T]) -> Iterator[T]:
        """What an iterator does to give the next one."""
        source = iter(found)
        while True:
            with self.of(stage):
                try:
                    one = next(source)
                except StopIteration:
                    return
            yield one

    def watch(self, owner: Any, name: str, stage: str) -> None:
        """All calls of a function of a class or module from now on, for the rest of the process."""
        setattr(owner, name, self._timed(getattr(owner, name), stage))

    def _timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            with self.of(stage):
                found = function(*given, **named)
                return list(found) if isgeneratorfunction(function) else found

        return timed
