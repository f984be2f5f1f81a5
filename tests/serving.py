"""An ASGI application on a real server, on a free port of this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

PATIENCE = 20.0


@contextmanager
def served(routes: list[Route]) -> Iterator[str]:
    """The address under which the routes are served."""
    config = uvicorn.Config(
        Starlette(routes=routes), host="127.0.0.1", port=0, log_level="critical", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        give_up = time.monotonic() + PATIENCE
        while not server.started:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
