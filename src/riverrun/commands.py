"""Commands to aggregates, and what became of them: `riverrun.commands.Commands("orders")`.

A command is a record; its reply comes by its id. Any number may be under way at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from riverrun import config, exact
from riverrun.arguments import checked
from riverrun.config import Settings
from riverrun.durations import Duration, duration_text, microseconds
from riverrun.errors import BrokerError, InputError, JobError, RiverrunError
from riverrun.operators.decide.kinds import Kind
from riverrun.operators.decide.parts import is_model
from riverrun.operators.decide.records import ACCEPTED
from riverrun.operators.decide.written import encoded

if TYPE_CHECKING:
    from riverrun.kafka.browse import Browser
    from riverrun.kafka.sender import Sender

TIMEOUT = "30 seconds"
LISTENS = 5.0
"""Seconds until whoever listens for replies has begun."""


@dataclass(frozen=True)
class Happened:
    """An event that a command led to."""

    type: str
    version: int
    event: Any
    """An object of its class where that is known, else its fields."""


@dataclass(frozen=True)
class Reply:
    command: str
    aggregate: str
    outcome: str
    """accepted, rejected, or failed: `decide` raised an error, or it could not be read."""
    version: int
    """Of the aggregate, after the command."""
    reason: str | None = None
    events: list[Happened] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        return self.outcome == ACCEPTED


class NoReply(JobError, TimeoutError):
    """A command was not answered in time. It may still take effect."""


class Waiting(Future[Reply]):
    """A reply that will come. One that does not come in time is a NoReply."""

    def __init__(self, no_reply: Callable[[int], NoReply]) -> None:
        super().__init__()
        self._no_reply = no_reply

    def result(self, timeout: float | None = None) -> Reply:
        try:
            return super().result(timeout)
        except TimeoutError:
            raise self._no_reply(round((timeout or 0) * 1e6)) from None


@checked
class Commands:
    """Sends commands of one topic. Threads may share it; use it in a `with` block, or close it.

    `events` are classes of events, for those who want objects in replies.
    """

    def __init__(
        self,
        topic: str,
        *,
        replies: str | None = None,
        events: tuple[type[Any], ...] = (),
        brokers: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.topic, self.reply_topic = topic, replies or f"{topic}.replies"
        self.settings = (settings or config.load()).override(brokers=brokers)
        self._kinds = {each.__name__: Kind(each) for each in events}
        self._waiting: dict[str, Waiting] = {}
        self._ended, self._lock = Event(), Lock()
        self._sender: Sender | None = None
        self._listener: Thread | None = None
        self._failed: RiverrunError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops to listen; commands that are under way take effect all the same."""
        self._ended.set()
        if self._listener is not None:
            self._listener.join()
        self._give_up(self._closed())

    def _closed(self) -> JobError:
        return JobError("commands are no longer sent here", where=f"topic {self.topic!r}")

    def send(
        self,
        command: Any,
        *,
        to: str,
        id: str | None = None,
        version: int | None = None,
        by: str | None = None,
        timeout: Duration = TIMEOUT,
    ) -> Reply:
        """Sends a command to the aggregate `to`, and waits for what becomes of it.

        With the `version` that the aggregate is taken to have, it is rejected if it has another
        one. A command that is sent again with its `id` takes effect once.
        """
        name = id or uuid4().hex
        until = time.monotonic() + microseconds(timeout) / 1e6
        reply = self.submit(command, to=to, id=name, version=version, by=by)
        self.flush()
        try:
            return reply.result(max(until - time.monotonic(), 0))
        except NoReply:
            self.forget(name)
            raise self.no_reply(name, microseconds(timeout)) from None

    def submit(
        self,
        command: Any,
        *,
        to: str,
        id: str | None = None,
        version: int | None = None,
        by: str | None = None,
    ) -> Waiting:
        """Sends a command as `send` does; `.result(timeout=SECONDS)` of what is returned waits for
        its reply. `flush()` waits for Kafka."""
        type_name, data = _type_and_data(command)
        _check(to, id, by)
        name = id or uuid4().hex
        value = {"id": name, "aggregate": to, "type": type_name, "version": version, "by": by}
        text = f'{json.dumps(value)[:-1]}, "data": {data}}}'
        found = Waiting(lambda waited: self.no_reply(name, waited, known="it was sent"))
        with self._lock:
            sender = self._connected()
            if name in self._waiting:  # it takes effect once
                return self._waiting[name]
            self._waiting[name] = found
            try:
                sender.send(_record(text, to))
            except RiverrunError:
                self.forget(name)
                raise
        return found

    def flush(self) -> None:
        """All that was sent is in the topic."""
        with self._lock:
            if self._sender is not None:
                self._sender.flush()

    def _connected(self) -> Sender:
        if self._failed is not None:
            raise self._failed
        if self._ended.is_set():
            raise self._closed()
        if self._sender is None:
            from riverrun.embedded import kafka  # noqa: PLC0415 - programs build without a client
            from riverrun.kafka.browse import Browser  # noqa: PLC0415
            from riverrun.kafka.sender import Sender  # noqa: PLC0415

            client = kafka.client(self.settings)
            sender = Sender(client, self.topic)
            browser, begun = Browser(client, self.reply_topic), Event()
            self._listener = Thread(target=self._listen, args=(browser, begun.set), daemon=True)
            self._listener.start()
            begun.wait(LISTENS)
            self._sender = sender
        return self._sender

    def _listen(self, browser: Browser, begun: Callable[[], None]) -> None:
        """Hears replies, from those on that come after it has begun."""
        try:
            with browser:
                starts = browser.latest
                begun()
                for message in browser.follow(starts, self._ended):
                    with suppress(ValueError, KeyError, TypeError):  # nobody's reply
                        self._heard(json.loads(message.value() or b""))
        except BrokerError as error:
            self._failed = error
            self._give_up(error)

    def _heard(self, told: Mapping[str, Any]) -> None:
        waiting = self._waiting.pop(told["command"], None)
        if waiting is not None and waiting.set_running_or_notify_cancel():
            try:
                events = [self._happened(each) for each in told["events"] or ()]
                waiting.set_result(Reply(**{**told, "events": events}))
            except (ValueError, KeyError, TypeError) as error:
                waiting.set_exception(_unreadable(told, error))

    def _happened(self, told: Mapping[str, Any]) -> Happened:
        kind = self._kinds.get(told["type"])
        event = told["data"] if kind is None else kind.made(json.dumps(told["data"]).encode())
        return Happened(told["type"], told["version"], event)

    def _give_up(self, error: RiverrunError) -> None:
        while self._waiting:
            waiting = self._waiting.popitem()[1]
            if waiting.set_running_or_notify_cancel():
                waiting.set_exception(error)

    def forget(self, name: str) -> None:
        """The reply to a command is no longer waited for."""
        self._waiting.pop(name, None)

    def no_reply(self, name: str, waited: int, *, known: str = "Kafka has it") -> NoReply:
        """What is known of a command that was not answered within so many microseconds."""
        return NoReply(
            f"no reply to the command within {duration_text(waited)}",
            where=f"topic {self.topic!r}",
            got=f"{known}, under the id {name}: it takes effect when the application reads it",
            hint="does the application run, and does it keep up (`riverrun ps`)? Sent again with "
            "the same id, it takes effect once, and the reply is the same",
        )


def _record(text: str, to: str) -> Any:
    from riverrun.kafka.records import Record  # noqa: PLC0415 - programs build without a client

    return Record(text.encode(), to.encode())


def _type_and_data(command: Any) -> tuple[str, str]:
    """Of an object, or of a name with its fields."""
    match command:
        case (str(name), dict(fields)):
            return name, exact.dumps(fields)
        case _ if is_model(type(command)) or (
            is_dataclass(command) and not isinstance(command, type)
        ):
            return type(command).__name__, encoded(command).decode()
    raise InputError(
        "this is no command", got=repr(command)[:100],
        hint='an object of its class, or its name and fields: ("Deposit", {"cents": 5})',
    )  # fmt: skip


def _check(*texts: str | None) -> None:
    """What an application could not read, and would not answer."""
    for each in texts:
        try:
            (each or "").encode()
        except UnicodeEncodeError as error:
            raise InputError("halves of signs are no text", got=ascii(each)) from error


def _unreadable(told: Mapping[str, Any], error: Exception) -> JobError:
    return JobError(
        f"the reply to the command {told['command']!r} cannot be read",
        got=f"it is {told.get('outcome')}; {error}",
        hint="do the classes here know the events that the application writes?",
    )
