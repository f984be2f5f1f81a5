"""The embedded PostgreSQL: one real server on loopback, which outlives the command."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import psutil

from riverrun import private
from riverrun.config import Settings
from riverrun.embedded import ports, postgres_files, process
from riverrun.embedded.lock import exclusive
from riverrun.embedded.postgres_files import Files, State
from riverrun.errors import ServerError

PORT = 5432
START = timedelta(minutes=1)
PASSING = (ports.TAKEN, "still in use")
"""What a start may fail of that has gone by the time it is tried again."""


@dataclass(frozen=True)
class Server:
    """A running server: where clients find it, and where its files are."""

    url: str
    pid: int
    folder: Path
    log: Path


def ensure(settings: Settings) -> str:
    """The address of the configured database; an embedded one that is not running is started."""
    return settings.postgres if settings.postgres is not None else up(settings).url


def status(settings: Settings) -> Server | None:
    """The embedded server, if it runs."""
    files = _files(settings)
    state = files.read_state()
    if state is None or _process(files, state) is None:
        return None
    return _server(files, state)


def running(settings: Settings) -> bool:
    return status(settings) is not None


def up(settings: Settings, *, port: int | None = None) -> Server:
    """Start the embedded server, or find it running; returns once it answers."""
    if status(settings) is None and port is not None and not ports.free(port):
        raise ports.busy(port)
    files = _files(settings)
    private.folder(files.folder)
    with exclusive(files.folder / "lock"):
        return _up(files, port)


def down(settings: Settings) -> bool:
    """Stop the embedded server; False when there was none. Its data stays."""
    files = _files(settings)
    if not files.folder.exists() and process.search(str(files.data)) is None:
        return False
    with exclusive(files.folder / "lock"):
        return _down(files)


def restart(settings: Settings) -> Server:
    """Down and up again on the same port."""
    before = status(settings)
    down(settings)
    return up(settings, port=int(before.url.rpartition(":")[2].split("/")[0]) if before else None)


def _up(files: Files, port: int | None) -> Server:
    state = files.read_state()
    if state is not None and _process(files, state) is not None:
        ports.refuse_other("PostgreSQL", state.port, port)
        _await(files, state)
        return _server(files, state)
    _down(files)
    postgres_files.prepare(files)
    files.forget_dead()
    give_up_at = time.monotonic() + START.total_seconds()
    while True:
        chosen = _choose_port(state, port)
        try:
            return _start(files, chosen)
        except ServerError:
            # Another program has taken the port since, or what a killed server has left is going.
            passing = any(each in files.last_lines() for each in PASSING)
            if ports.free(chosen.port) and not (passing and time.monotonic() < give_up_at):
                raise
        time.sleep(0.2)


def _start(files: Files, state: State) -> Server:
    state = replace(state, pid=process.spawn(files.command(state.port), output=files.log))
    try:
        files.write_state(state)
        _await(files, state)
    except BaseException:
        # Also when the user interrupts: a server that nobody has seen answer is not left behind.
        _down(files)
        raise
    return _server(files, state)


def _await(files: Files, state: State) -> None:
    assert state.pid is not None
    give_up_at = time.monotonic() + START.total_seconds()
    while not files.ready(state.pid):
        if not process.alive(state.pid):
            raise _no_start("PostgreSQL ended while it was starting", files)
        if time.monotonic() > give_up_at:
            raise _no_start(f"PostgreSQL does not answer after {START}", files)
        time.sleep(0.02)


def _down(files: Files) -> bool:
    state = files.read_state()
    found = (state and _process(files, state)) or process.search(str(files.data))
    if found:
        process.stop(found, by=signal.SIGINT)  # does not wait for clients to leave, as SIGTERM does
    if state is not None and state.pid is not None:
        files.write_state(State(state.port))
    return found is not None


def _choose_port(last: State | None, port: int | None) -> State:
    return State(ports.chosen(port, *([last.port] if last else []), PORT))


def _no_start(fact: str, files: Files) -> ServerError:
    return ServerError(fact, where=files.log, got=files.last_lines())


def _files(settings: Settings) -> Files:
    # Resolved, so that the mark of the process is the same however the folder is reached.
    return Files((settings.home / "postgres").resolve())


def _process(files: Files, state: State) -> psutil.Process | None:
    return process.marked(state.pid, str(files.data)) if state.pid is not None else None


def _server(files: Files, state: State) -> Server:
    assert state.pid is not None
    url = f"postgresql://{postgres_files.USER}@{ports.LOOPBACK}:{state.port}/postgres"
    return Server(url, state.pid, files.folder, files.log)
