"""The server as a process: where it listens, and who is told."""

from __future__ import annotations

import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from riverrun.config import Settings
from riverrun.embedded import ports
from riverrun.errors import ConfigError, PortError
from riverrun.server.app import build
from riverrun.server.http import Http
from riverrun.server.ingest.udp import UdpDoor
from riverrun.server.noted import noted
from riverrun.server.security import LOCAL, Tokens

PORT = 8650
BACKLOG = 4096
GRACE = 1
"""Seconds that open requests have when the server ends; followers have no end of their own."""


@dataclass(frozen=True)
class Listening:
    host: str = ports.LOOPBACK
    port: int | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def local(self) -> bool:
        return self.host in LOCAL


def serve(settings: Settings, listening: Listening, udp: UdpDoor | None = None) -> Iterator[str]:
    """Yields the address, at which requests can be sent, then serves until it is told to end."""
    url, server, door = _server(settings, listening, udp)
    with door, noted(settings, url), _ending():
        yield url
        server.run([door])


@contextmanager
def beside(settings: Settings, listening: Listening, udp: UdpDoor | None = None) -> Iterator[str]:
    """Serves beside what the process does, and ends with it. Gives the address."""
    url, server, door = _server(settings, listening, udp)
    thread = threading.Thread(target=server.run, args=([door],), daemon=True)
    with door, noted(settings, url):
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join(2 * GRACE)


def _server(
    settings: Settings, listening: Listening, udp: UdpDoor | None = None
) -> tuple[str, uvicorn.Server, socket.socket]:
    """The socket listens already: what is sent to it waits for the server."""
    _check(settings, listening)
    door = _opened(listening)
    scheme = "https" if listening.certificate else "http"
    shown = f"[{listening.host}]" if ":" in listening.host else listening.host
    config = uvicorn.Config(
        build(settings, local=listening.local, udp=udp),
        http=Http, loop="uvloop", ws="none", lifespan="off", log_config=None,
        access_log=False, server_header=False, timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=60, backlog=BACKLOG, ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )  # fmt: skip
    return f"{scheme}://{shown}:{door.getsockname()[1]}", uvicorn.Server(config), door


def _check(settings: Settings, listening: Listening) -> None:
    if not listening.local and not listening.certificate:
        raise ConfigError(
            "beyond this machine the server speaks TLS only", got=f"--host {listening.host}",
            hint="give --certificate and --key, or let a proxy in front of 127.0.0.1 speak it",
        )  # fmt: skip
    if not listening.local and not Tokens(settings).holders:
        raise ConfigError(
            "beyond this machine the server needs tokens", got=f"--host {listening.host}",
            hint="riverrun tokens add NAME --scope read:VIEW",
        )  # fmt: skip
    if listening.certificate:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                listening.certificate, listening.key
            )
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                "the certificate cannot be used", where=listening.certificate, got=error,
                hint="PEM files of the certificate and its key: --certificate FILE --key FILE",
            ) from error  # fmt: skip


def _opened(listening: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    port = listening.port or (PORT if ports.free(PORT) else ports.any_free())
    try:
        return socket.create_server(
            (listening.host.strip("[]"), port), family=family, backlog=BACKLOG
        )
    except OSError as error:
        raise PortError(
            f"the server cannot listen on port {port}", where=listening.host, got=error.strerror,
            hint="choose another one; without one a free port is taken",
        ) from error  # fmt: skip


@contextmanager
def _ending() -> Iterator[None]:
    """What ends the server is told to it, and then to the process: which goes on to its end."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)
