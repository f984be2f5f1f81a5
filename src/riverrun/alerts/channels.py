"""The channels of alerts: what each says of where it leads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from riverrun.arguments import checked, names
from riverrun.durations import Duration, microseconds
from riverrun.errors import Location, ProgramError, caller
from riverrun.sinks.kafka.sink import Topic, check_topic
from riverrun.sinks.viewing.sink import View, view

ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")
"""Of a mailbox. What it may hold beyond that is left to the servers of mail."""
OWN = "idempotency-key"
"""The header that tells notifications apart."""


@dataclass(frozen=True)
class Channel:
    """Where alerts go."""

    name: str
    """Tells those of one step apart."""


@dataclass(frozen=True)
class Hook(Channel):
    """An address that is sent a POST request for each notification."""

    url: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    timeout: int
    """Of one try, in microseconds."""


@dataclass(frozen=True)
class Mail(Channel):
    """People who are sent a message for each notification, by the server of the settings."""

    to: tuple[str, ...]
    sender: str | None


@dataclass(frozen=True)
class Written(Channel):
    """A topic that holds each notification."""

    topic: Topic


@dataclass(frozen=True)
class Followed(Channel):
    """A view of the groups that were told of, which the server sends to those who follow it."""

    view: View


@checked
def webhook(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: Duration = "10 seconds",
    name: str | None = None,
) -> Hook:
    """An address that is sent a POST request for each notification, until it takes it.

    The name is the address without its query, unless one is given. See docs/alerts.md.
    """
    at = caller()
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        raise ProgramError("a webhook is an address", where=at, got=url, hint="https://host/path")
    if (patience := microseconds(timeout, at)) <= 0:
        raise ProgramError("a webhook has a time to answer", where=at, got=f"timeout={timeout!r}")
    if parts.username or parts.password:
        raise ProgramError(
            "the address of a webhook holds a password", where=at, hint="use headers={…}"
        )
    port = f":{parts.port}" if parts.port else ""
    shown = name or f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
    given = tuple(sorted((headers or {}).items()))
    for header, value in given:
        _refuse_header(header, value, at)
    return Hook(f"webhook {shown}", url, given, patience)


def _refuse_header(name: str, value: str, at: Location) -> None:
    if name.lower() == OWN:
        fact = f"the header {name!r} is the key of each notification"
        raise ProgramError(fact, where=at, hint="leave it out")
    named = re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name, re.ASCII)
    if not named or not value.isascii() or not value.isprintable():
        fact = "a header has a name, and a value of one line of ASCII"
        raise ProgramError(fact, where=at, got=repr(name))


@checked
def email(to: str | Sequence[str], *, sender: str | None = None, name: str | None = None) -> Mail:
    """People who are sent a message for each notification.

    The server, and the password for it, are in the settings: `[smtp]` of riverrun.toml. `sender`
    is who it is from, that of the settings if not given.
    """
    at = caller()
    people = names("to", to, 'to="ops@example.com"')
    if not people:
        raise ProgramError("email needs somebody to write to", where=at)
    for each in (*people, *([] if sender is None else [sender])):
        if not each.isascii() or not ADDRESS.fullmatch(each):
            raise ProgramError(
                "an address of mail is NAME@HOST", where=at, got=repr(each), hint="ops@example.com"
            )
    return Mail(f"email {name or ' '.join(people)}", people, sender)


@checked
def topic(name: str) -> Written:
    """A Kafka topic that holds each notification, exactly once."""
    check_topic(name, caller())
    return Written(f"topic {name}", Topic(name, partitions=1))


@checked
def sse(name: str) -> Followed:
    """A view of this name, whose changes `riverrun serve` sends as server-sent events: a row for
    each group that was told of, as it was told; it goes when the group is over."""
    return Followed(f"sse {name}", view(name))
