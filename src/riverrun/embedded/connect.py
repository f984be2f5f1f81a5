"""The embedded Kafka Connect: one worker in distributed mode on loopback, which outlives the
command. Debezium's connectors are in it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path

import psutil
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from riverrun import private
from riverrun.config import Settings
from riverrun.embedded import class_archive, connect_jvm, kafka, ports, process
from riverrun.embedded.connect_files import Files, State
from riverrun.embedded.kafka_jvm import Jvm
from riverrun.embedded.lock import exclusive
from riverrun.errors import ConfigError, ServerError

PORT = 8083
START = timedelta(minutes=3)
STOP = timedelta(seconds=20)
"""It ends within a second or two, unless its broker is away."""
ATTEMPT = timedelta(seconds=2)

STAGES = {
    "finished startup": "joins its group",
    "Started o.e.j": "reads its topics",
    "Kafka Connect worker started": "reads its topics",
    "Kafka version": "makes its topics",
    "Loading plugin": "loads connectors",
    "": "starts Java",
}
"""What is found in the log, the latest first, and what it means."""


@dataclass(frozen=True)
class Worker:
    """A running worker: where it is asked, and where its files are."""

    url: str
    brokers: str
    pid: int
    folder: Path
    log: Path
    secrets: Path
    """What a connector's settings may name as `${file:PATH:KEY}` is in here."""


def status(settings: Settings) -> Worker | None:
    """The embedded worker, if it runs."""
    files = _files(settings)
    state = files.read_state()
    if state is None or _process(files, state) is None:
        return None
    return _worker(files, state)


def running(settings: Settings) -> bool:
    return status(settings) is not None


def died(settings: Settings) -> bool:
    """Whether it has ended though nobody stopped it."""
    files = _files(settings)
    state = files.read_state()
    return state is not None and state.pid is not None and _process(files, state) is None


def up(settings: Settings, *, port: int | None = None) -> Worker:
    """Start the embedded worker, or find it running; returns once it answers.

    The broker is started first, if it is the embedded one.
    """
    _refuse_secured(settings)
    if status(settings) is None and port is not None and not ports.free(port):
        raise ports.busy(port)
    brokers = kafka.ensure(settings)["bootstrap.servers"]
    files = _files(settings)
    private.folder(files.folder)
    with exclusive(files.folder / "lock"):
        return _up(files, settings, brokers, port)


def down(settings: Settings) -> bool:
    """Stop the embedded worker; False when there was none. Connectors stay, for the next start."""
    files = _files(settings)
    if not files.folder.exists() and process.search(str(files.properties)) is None:
        return False
    with exclusive(files.folder / "lock"):
        return _down(files)


def _refuse_secured(settings: Settings) -> None:
    if settings.brokers is not None and settings.kafka:
        raise ConfigError(
            "the embedded Kafka Connect cannot use brokers with settings of their own",
            where="[kafka] in the settings",
            got=", ".join(sorted(settings.kafka)),
            hint='name a Kafka Connect of yours: connect = "http://host:8083"',
        )


def _up(files: Files, settings: Settings, brokers: str, port: int | None) -> Worker:
    state = files.read_state()
    if state is not None and _process(files, state) is not None and state.brokers == brokers:
        ports.refuse_other("Kafka Connect", state.port, port)
        _await(files, state)
        return _worker(files, state)
    # One whose broker has gone elsewhere would not end by itself.
    _down(files, patience=STOP if state is None or state.brokers == brokers else ATTEMPT)
    jvm = connect_jvm.find(settings)
    usual = [state.port] if state else []
    with private.by_default():
        files.write_plugins(connect_jvm.plugins(settings))
        chosen = State(ports.chosen(port, *usual, PORT), brokers)
        try:
            return _start(files, chosen, jvm)
        except ServerError:
            if ports.free(chosen.port):
                raise
        # Another program has taken the port since it was found free.
        return _start(files, State(ports.chosen(port), brokers), jvm)


def _start(files: Files, state: State, jvm: Jvm) -> Worker:
    files.write_settings(state)
    draft = class_archive.draft_of(jvm.archive)
    files.log.unlink(missing_ok=True)
    pid = process.spawn(connect_jvm.worker(jvm, files, draft), output=files.console)
    state = replace(state, pid=pid, archive_draft=str(draft) if draft else None)
    try:
        files.write_state(state)
        _await(files, state)
    except BaseException:
        # Also when the user interrupts: a worker that nobody has seen answer is not left behind.
        _down(files)
        raise
    return _worker(files, state)


def _await(files: Files, state: State) -> None:
    assert state.pid is not None
    give_up_at = time.monotonic() + START.total_seconds()
    with _shown(files) as tell:
        while not _answers(state.port):
            if not process.alive(state.pid):
                raise _no_start("Kafka Connect ended while it was starting", files)
            if time.monotonic() > give_up_at:
                raise _no_start(f"Kafka Connect does not answer after {START}", files)
            tell()
            time.sleep(0.1)


@contextmanager
def _shown(files: Files) -> Iterator[Callable[[], None]]:
    """What Connect is at, on a terminal; gone when it answers."""
    columns = (SpinnerColumn(), TextColumn("Kafka Connect {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(STAGES[""])

        def tell() -> None:
            text = files.log.read_text(errors="replace") if files.log.exists() else ""
            stage = next(meaning for sign, meaning in STAGES.items() if sign in text)
            progress.update(task, description=stage)

        yield tell


def _answers(port: int) -> bool:
    """Whether it says of itself that it is up: it has read its topics, and joined its group."""
    if not ports.answers(port):
        return False
    with suppress(OSError, ValueError, HTTPException):
        url = f"{_url(port)}/health"
        with urllib.request.urlopen(url, timeout=ATTEMPT.total_seconds()) as answer:
            return bool(json.load(answer)["status"] == "healthy")
    return False


def _down(files: Files, *, patience: timedelta = STOP) -> bool:
    state = files.read_state()
    found = (state and _process(files, state)) or process.search(str(files.properties))
    by_itself = process.stop(found, patience=patience) if found else False
    if state is not None and state.pid is not None:
        if state.archive_draft:
            class_archive.settle(Path(state.archive_draft), whole=by_itself)
        files.write_state(State(state.port, state.brokers))
    return found is not None


def _no_start(fact: str, files: Files) -> ServerError:
    return ServerError(fact, where=files.log, got=files.last_lines())


def _files(settings: Settings) -> Files:
    # Resolved, so that the mark of the process is the same however the folder is reached.
    return Files((settings.home / "connect").resolve())


def _process(files: Files, state: State) -> psutil.Process | None:
    return process.marked(state.pid, str(files.properties)) if state.pid is not None else None


def _worker(files: Files, state: State) -> Worker:
    assert state.pid is not None
    return Worker(
        _url(state.port), state.brokers, state.pid, files.folder, files.log, files.secrets
    )


def _url(port: int) -> str:
    return f"http://{ports.LOOPBACK}:{port}"
