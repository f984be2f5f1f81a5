"""A server that webhooks are sent to, and that answers as a test wants it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest


class Answer(NamedTuple):
    status: int = 200
    text: str = ""
    headers: dict[str, str] = {}
    after: float = 0
    """Seconds until it answers."""


@dataclass
class Seen:
    """A request."""

    at: float
    key: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Hooks:
    """What came, in order. `answer` is asked with a request and how often its key came before."""

    answer: Callable[[Seen, int], Answer] = lambda seen, before: Answer()
    seen: list[Seen] = field(default_factory=list)
    url: str = ""

    def bodies(self) -> list[dict[str, Any]]:
        """Each message once, by its key, in the order in which they came first."""
        return list({each.key: each.body for each in reversed(self.seen)}.values())[::-1]

    def take(self, request: BaseHTTPRequestHandler) -> Answer:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        headers = dict(request.headers.items())
        one = Seen(time.monotonic(), headers["Idempotency-Key"], headers, body)
        before = sum(each.key == one.key for each in self.seen)
        self.seen.append(one)
        return self.answer(one, before)


@contextmanager
def serving(hooks: Hooks, port: int = 0) -> Iterator[Hooks]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer = hooks.take(self)
            time.sleep(answer.after)
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": len(answer.text)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(answer.text.encode())

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that does not wait for its answer is what some tests are about."""

    with Server(("127.0.0.1", port), Handler) as server:
        hooks.url = f"http://127.0.0.1:{server.server_port}/hook"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield hooks
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with serving(Hooks()) as found:
        yield found
