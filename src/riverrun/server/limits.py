"""Limits: how large a request is, how long it takes or waits, how many there are."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import OrderedDict
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from riverrun import durations
from riverrun.errors import InputError, ProgramError
from riverrun.server.answers import Refused

WAIT, MOST_WAIT = 10.0, 60.0
"""Seconds for which a request waits for what it asks for, unless it says so; and at most."""
GZIP = 31
"""What zlib calls it."""
CLIENTS = 10_000
"""Whose rates are remembered."""


@dataclass(frozen=True)
class Limits:
    body: int = 10_000_000
    """Bytes of a request."""
    seconds: float = 30.0
    """For a request to arrive."""
    rate: float = 2000.0
    """Requests per second of one client."""
    burst: float = 4000.0
    streams: int = 5000
    """Followers at a time."""


async def body(request: Request, limits: Limits) -> bytes:
    """What a request holds; a Refused if it is too large, or does not arrive."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                size += len(part)
                if size > limits.body:
                    raise Refused(
                        413, "the request is too large", hint=f"at most {limits.body:,} bytes"
                    )
                parts.append(part)
    except TimeoutError as error:
        raise Refused(408, f"the request did not arrive in {limits.seconds:g} s") from error
    except ClientDisconnect as error:
        raise Refused(400, "the request was broken off") from error
    return b"".join(parts)


def encoding_of(request: Request) -> str:
    given = ", ".join(request.headers.getlist("content-encoding")).strip().lower() or "identity"
    if given not in ("identity", "gzip"):
        raise Refused(
            415, "the request is packed in a way that is not known here", got=given[:100],
            hint="Content-Encoding: gzip, or none",
        )  # fmt: skip
    return given


def unpacked(content: bytes, limits: Limits) -> bytes:
    """What gzip has packed; it is no larger than a request may be."""
    parts: list[bytes] = []
    left, size = content, 0
    while left:  # one after the other, if there are several
        reader = zlib.decompressobj(GZIP)
        try:
            parts.append(reader.decompress(left, limits.body + 1 - size))
        except zlib.error as error:
            raise Refused(400, "the request is not gzip", got=error) from error
        size += len(parts[-1])
        if size > limits.body:
            raise Refused(
                413, "the request is too large", hint=f"at most {limits.body:,} bytes, unpacked"
            )
        if not reader.eof:
            raise Refused(400, "the request is not gzip", got="it breaks off")
        left = reader.unused_data
    return b"".join(parts)


def patience(request: Request) -> float:
    """Seconds for which the request is ready to wait."""
    text = request.query_params.get("wait")
    if text is None:
        return WAIT
    try:
        found = durations.patience(text) / 1e6
    except ProgramError as error:
        raise InputError("how long to wait cannot be read", got=text[:100], hint="5s") from error
    return min(found, MOST_WAIT)


def is_number(value: object) -> bool:
    """True is a number to Python, but nobody means it as one."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def page_size(request: Request) -> int | None:
    """How much of a list is asked for; None if it is not said."""
    text = request.query_params.get("limit")
    try:
        return None if text is None else int(text)
    except ValueError as error:
        raise InputError("the limit is no number", got=str(text)[:100]) from error


class Rates:
    """A bucket of requests for each client, which fills again as time goes on."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> None:
        now = time.monotonic()
        left, at = self._left.pop(who, (self.limits.burst, now))
        left = min(left + (now - at) * self.limits.rate, self.limits.burst)
        if left < 1:
            self._left[who] = left, now
            raise Refused(
                429, "too many requests",
                hint=f"{self.limits.rate:g} per second", headers={"Retry-After": "1"},
            )  # fmt: skip
        self._left[who] = left - 1, now
        if len(self._left) > CLIENTS:
            self._left.popitem(last=False)
