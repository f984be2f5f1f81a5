"""HTTP as uvicorn speaks it, with our refusals, and with an end to waiting for a request."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from riverrun import exact
from riverrun.server.answers import refusal

WITHIN = 30.0
"""Seconds for the head of a request to arrive, once there is a connection or the first byte."""


class Http(HttpToolsProtocol):
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waited()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._waited()
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._waited()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(WITHIN, cast(Any, self.transport).close)

    def _waited(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def send_400_response(self, msg: str) -> None:
        """For what is no HTTP, or more of it than a head may have."""
        self._waited()
        body = exact.dumps(refusal("the request cannot be read", got=msg)).encode()
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
