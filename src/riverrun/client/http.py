"""Requests to a server, and their answers in JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

import urllib3
from urllib3.exceptions import HTTPError

from riverrun import exact
from riverrun.client.results import Refusal
from riverrun.errors import InputError, ServerError
from riverrun.views.values import instant

Query = Mapping[str, str | Sequence[str]]
PATIENCE = timedelta(seconds=75)
"""More than the longest wait for a token."""


class Http:
    """Requests to the server at `url`."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = urllib3.Timeout(connect=5, read=PATIENCE.total_seconds())
        self._pool = urllib3.PoolManager(retries=False, timeout=timeout, maxsize=10)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """One request, and its answer in JSON; a Refusal for any but a good one."""
        answer = self.open(method, path, query=query, body=body, headers=headers)
        return read(answer.status, answer.data)

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        where = f"{self.url}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        sent = None if body is None else exact.dumps(body, other=sendable).encode()
        kind = {} if sent is None else {"Content-Type": "application/json"}
        given = {**self._headers, **kind, **(headers or {})}
        try:
            return self._pool.request(
                method, where, body=sent, headers=given, preload_content=not stream
            )
        except HTTPError as error:
            raise ServerError(
                "the server does not answer", where=self.url, got=error,
                hint="does it run? `riverrun serve` starts it",
            ) from error  # fmt: skip


def sendable(value: Any) -> str:
    """The text for a value that JSON has none of."""
    match value:
        case datetime():
            return instant(value)
        case date() | time():
            return value.isoformat()
        case UUID():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise InputError("the value cannot be sent", got=repr(value)[:200])


def path_of(*parts: str) -> str:
    """A path of parts, whatever is in them: dots would be taken for folders, and a key for the
    changes of a view."""
    return "".join(f"/{_escaped(part)}" for part in parts)


def _escaped(part: str) -> str:
    if part in (".", "..", "changes"):
        return f"%{ord(part[0]):X}{_escaped(part[1:])}"
    return quote(part, safe="")


def read(status: int, data: bytes) -> Any:
    try:
        found = exact.loads(data)
    except ValueError as error:
        raise ServerError(f"the server says {status}", got=data[:200]) from error
    if status >= 300:
        raise Refusal(status, found)
    return found


def events(answer: urllib3.BaseHTTPResponse) -> Iterator[dict[str, str]]:
    """Server-sent events, as they come."""
    left = b""
    for part in answer.stream(1 << 20):
        *whole, left = (left + part).split(b"\n\n")
        for text in whole:
            yield dict(line.partition(": ")[::2] for line in text.decode().split("\n"))
