"""TCP ports of the loopback interface."""

from __future__ import annotations

import random
import socket

from riverrun.errors import PortError

LOOPBACK = "127.0.0.1"
SERVERS = range(20_000, 32_768)
"""Below those of clients: what the kernel gives a client next is gone before a server has it."""
TRIES = 100
TAKEN = "Address already in use"
"""What servers write of a port that another one was quicker to take."""


def free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As Java does: a port of a server that has just gone can be used at once.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def any_free() -> int:
    """A port for a server; not the same for two processes that ask at the same moment."""
    found = next(filter(free, random.SystemRandom().sample(SERVERS, TRIES)), None)
    return found or _given()


def _given() -> int:
    """The kernel's choice."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Whether a server listens on the port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def busy(port: int) -> PortError:
    return PortError(
        f"port {port} is taken by another program",
        where=f"{LOOPBACK}:{port}",
        hint="choose another with --port, or leave --port out to get a free one",
    )


def chosen(asked: int | None, *usual: int) -> int:
    """The port that was asked for; else the first of the usual ones that is free, or any."""
    if asked is not None and not free(asked):
        raise busy(asked)
    return asked or next(filter(free, usual), None) or any_free()


def refuse_other(server: str, running: int, asked: int | None) -> None:
    if asked is not None and asked != running:
        raise PortError(
            f"{server} is already running on another port",
            got=f"{running}, asked for {asked}",
            hint="run `riverrun down` first",
        )
