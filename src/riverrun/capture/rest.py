"""Kafka Connect by its REST interface: connectors made, asked, paused, ended."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import urllib3
from urllib3.exceptions import HTTPError

from riverrun.errors import ConfigError, ConnectError

PATIENCE = timedelta(seconds=30)
"""For as long a worker may be busy with dealing out its tasks anew."""
ATTEMPT = timedelta(seconds=95)
"""A worker gives up on a request after 90 seconds, and says so."""
AGAIN = (409, 503)
NONE = 404
FAILED = 500
DEALING = b"a rebalance is expected"
"""In the message of a worker that is about to deal out its tasks."""


class Rest:
    """One Kafka Connect. What it refuses, and that it is away, are errors with its own words."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "the address of Kafka Connect cannot be read",
                where="connect in the settings",
                got=repr(_shown(url)),
                hint='connect = "http://host:8083"',
            )
        self.url = _shown(url).rstrip("/")
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers |= urllib3.make_headers(basic_auth=pair)
        timeout = urllib3.Timeout(connect=5, read=ATTEMPT.total_seconds())
        self.pool = urllib3.PoolManager(headers=headers, retries=False, timeout=timeout)

    def get(self, *path: str) -> Any:
        """The answer; None if there is no such thing."""
        return self.ask("GET", *path)

    def put(self, *path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self.ask("PUT", *path, body=body)

    def delete(self, *path: str) -> Any:
        return self.ask("DELETE", *path)

    def ask(
        self, method: str, *path: str, body: Mapping[str, Any] | None = None, query: str = ""
    ) -> Any:
        where = "/".join((self.url, *(quote(part, safe="") for part in path))) + query
        give_up_at = time.monotonic() + PATIENCE.total_seconds()
        while True:
            answer = self._request(method, where, body)
            if not _busy(answer) or time.monotonic() > give_up_at:
                break
            time.sleep(0.2)
        if answer.status == NONE:
            return None
        if not 200 <= answer.status < 300:
            raise ConnectError(
                "Kafka Connect refuses", where=f"{method} {where}", got=_words(answer)
            )
        return json.loads(answer.data) if answer.data else None

    def _request(
        self, method: str, where: str, body: Mapping[str, Any] | None
    ) -> urllib3.BaseHTTPResponse:
        sent = None if body is None else json.dumps(body).encode()
        try:
            return self.pool.request(method, where, body=sent)
        except HTTPError as error:
            raise ConnectError(
                "Kafka Connect does not answer",
                where=self.url,
                got=str(error).partition(": ")[2] or error,
                hint="is it running, and is `connect` right? `riverrun up --connect` starts one",
            ) from error


def _busy(answer: urllib3.BaseHTTPResponse) -> bool:
    """A worker says it with one code or another."""
    return answer.status in AGAIN or (answer.status == FAILED and DEALING in answer.data)


def _shown(url: str) -> str:
    """Without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _words(answer: urllib3.BaseHTTPResponse) -> str:
    """What went wrong, in Connect's own words; its errors have them in `message`."""
    text = answer.data.decode(errors="replace")
    try:
        said = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        said = text
    return f"HTTP {answer.status}: {' '.join(said.split())[:500]}"
