"""The embedded broker: one real Kafka node on loopback, which outlives the command."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import psutil

from riverrun import private
from riverrun.config import Settings
from riverrun.embedded import class_archive, kafka_jvm, ports, process
from riverrun.embedded.kafka_files import Files, State
from riverrun.embedded.lock import exclusive
from riverrun.errors import BrokerError, ServerError
from riverrun.kafka import admin

PORT = 9092
START = timedelta(minutes=2)
ENDING = 3.0
"""Seconds in which a process that was killed is gone."""
ATTEMPT = timedelta(seconds=1)
NO_BROKER = "run `riverrun up`, or set --brokers"


@dataclass(frozen=True)
class Broker:
    """A running broker: where clients find it, and where its files are."""

    brokers: str
    pid: int
    folder: Path
    log: Path


def client(settings: Settings) -> dict[str, str]:
    """The librdkafka settings for the configured cluster, or for the running embedded broker.

    The user's TLS and SASL settings are for the cluster: the embedded broker has neither.
    """
    if settings.brokers is not None:
        return settings.client()
    broker = status(settings)
    if broker is None:
        raise BrokerError("no broker is running", hint=NO_BROKER)
    return {"bootstrap.servers": broker.brokers}


def ensure(settings: Settings) -> dict[str, str]:
    """Like `client`, but an embedded broker that is not running is started."""
    if settings.brokers is not None:
        return settings.client()
    return {"bootstrap.servers": up(settings).brokers}


def named(settings: Settings) -> Settings:
    """The settings with the brokers that they mean, which are started if need be. What is set for
    clients of a cluster does not hold for the embedded broker."""
    if settings.brokers is not None:
        return settings
    return settings.override(brokers=up(settings).brokers, kafka={})


def status(settings: Settings) -> Broker | None:
    """The embedded broker, if it runs."""
    files = _files(settings)
    state = files.read_state()
    if state is None or _process(files, state) is None:
        return None
    return _broker(files, state)


def running(settings: Settings) -> bool:
    return status(settings) is not None


def up(settings: Settings, *, port: int | None = None) -> Broker:
    """Start the embedded broker, or find it running; returns once it answers."""
    broker = status(settings)
    if broker is None and port is not None and not ports.free(port):
        raise ports.busy(port)
    files = _files(settings)
    private.folder(files.folder)
    with exclusive(files.folder / "lock"):
        return _up(files, settings, port)


def down(settings: Settings) -> bool:
    """Stop the embedded broker; False when there was none. Its data stays."""
    files = _files(settings)
    if not files.folder.exists() and process.search(str(files.properties)) is None:
        return False
    with exclusive(files.folder / "lock"):
        return _down(files)


def _up(files: Files, settings: Settings, port: int | None) -> Broker:
    state = files.read_state()
    if state is not None and _process(files, state) is not None:
        ports.refuse_other("the broker", state.port, port)
        try:
            _await(files, state)
            return _broker(files, state)
        except ServerError:
            if _process(files, state) is not None:
                raise
        # it was just ending, as one that somebody has killed
    _down(files)
    chosen, jvm = _choose_ports(state, port), kafka_jvm.find(settings)
    with private.by_default():
        files.write_settings(chosen)
        kafka_jvm.prepare(files, jvm)
        try:
            return _start(files, chosen, jvm)
        except ServerError:
            if ports.free(chosen.port) and ports.TAKEN not in files.last_lines(1000):
                raise
        # Another program has taken a port since it was found free, and may be gone already.
        chosen = _choose_ports(None, port)
        files.write_settings(chosen)
        return _start(files, chosen, jvm)


def _start(files: Files, state: State, jvm: kafka_jvm.Jvm) -> Broker:
    draft = class_archive.draft_of(jvm.archive)
    files.log.unlink(missing_ok=True)
    pid = process.spawn(jvm.server(files, draft), output=files.console)
    state = replace(state, pid=pid, archive_draft=str(draft) if draft else None)
    try:
        files.write_state(state)
        _await(files, state)
    except BaseException:
        # Also when the user interrupts: a broker that nobody has seen answer is not left behind.
        _down(files)
        raise
    return _broker(files, state)


def _await(files: Files, state: State) -> None:
    assert state.pid is not None
    give_up_at = time.monotonic() + START.total_seconds()
    while not _answers(files, state.port):
        if not process.alive(state.pid):
            raise _no_start("the broker ended while it was starting", files)
        if time.monotonic() > give_up_at:
            raise _no_start(f"the broker does not answer after {START}", files)
        time.sleep(0.05)


def _answers(files: Files, port: int) -> bool:
    if not ports.answers(port):
        return False
    with suppress(BrokerError):
        # By its id: another project's broker may have been quicker to take the port.
        found = admin.cluster_id({"bootstrap.servers": _address(port)}, patience=ATTEMPT)
        return found == files.cluster
    return False


def _down(files: Files) -> bool:
    state = files.read_state()
    found = (state and _process(files, state)) or process.search(str(files.properties))
    by_itself = process.stop(found) if found else False
    if state is not None and state.pid is not None:
        if state.archive_draft:
            class_archive.settle(Path(state.archive_draft), whole=by_itself)
        files.write_state(State(state.port, state.controller))
    return found is not None


def _choose_ports(last: State | None, port: int | None) -> State:
    """That of the last one, which others know. Who was killed may hold it for a moment more."""
    give_up_at = time.monotonic() + ENDING
    while last is not None and not ports.free(last.port) and time.monotonic() < give_up_at:
        time.sleep(0.05)
    chosen = ports.chosen(port, *([last.port] if last else []), PORT)
    return State(chosen, ports.any_free())


def _no_start(fact: str, files: Files) -> ServerError:
    return ServerError(fact, where=files.log, got=files.last_lines())


def _files(settings: Settings) -> Files:
    # Resolved, so that the mark of the process is the same however the folder is reached.
    return Files((settings.home / "kafka").resolve())


def _process(files: Files, state: State) -> psutil.Process | None:
    return process.marked(state.pid, str(files.properties)) if state.pid is not None else None


def _broker(files: Files, state: State) -> Broker:
    assert state.pid is not None
    return Broker(_address(state.port), state.pid, files.folder, files.log)


def _address(port: int) -> str:
    return f"{ports.LOOPBACK}:{port}"
