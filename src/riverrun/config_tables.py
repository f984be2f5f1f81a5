"""The tables of the settings file that have parts of their own: `[serve]` and `[smtp]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from riverrun.durations import UNITS, microseconds
from riverrun.errors import ConfigError, ProgramError

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{,199}")
"""Of an application: it becomes a folder, a consumer group, and the first part of topics' names."""
WhenBehind = Literal["buffer", "push back", "drop"]


@dataclass(frozen=True)
class Intake:
    """How a topic takes what is sent to the server."""

    when_behind: WhenBehind = "buffer"
    """What becomes of records while the application that reads them is behind by the limit."""
    limit: int = 100_000
    """Records."""
    application: str | None = None
    """Whose schema holds; None for all that read the topic."""


@dataclass(frozen=True)
class Serving:
    """What the server is told by `[serve]`."""

    name: str = "riverrun"
    """Of the topic that keeps idempotency keys, NAME.posts: one server at a time writes it."""
    keep_keys: int = UNITS["day"]
    """Microseconds for which an idempotency key is known."""
    topics: Mapping[str, Intake] = field(default_factory=dict)


MailSecurity = Literal["starttls", "tls", "none"]


@dataclass(frozen=True)
class Smtp:
    """The server that takes messages for people, as `[smtp]` has it."""

    host: str
    port: int = 587
    security: MailSecurity = "starttls"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str | None = None
    """Who messages are from, unless the program says."""


def serving(table: Any, file: Path | None = None) -> Serving:
    """`[serve]`, with `[serve.topics.NAME]` for each topic that has something of its own."""
    given = _table(table, "serve", {"name", "keep_keys", "topics"}, file)
    topics = _table(given.get("topics", {}), "serve.topics", None, file)
    name = str(given.get("name", "riverrun"))
    if not NAME.fullmatch(name):
        raise ConfigError(
            "a server's name has letters, digits, _ . and -", where=file, got=repr(name)
        )
    return Serving(
        name,
        duration("keep_keys", given.get("keep_keys", "1 day"), file),
        {topic: _intake(topic, each, file) for topic, each in topics.items()},
    )


def _intake(topic: str, table: Any, file: Path | None) -> Intake:
    path = f"serve.topics.{topic}"
    given = _table(table, path, {"when_behind", "limit", "application"}, file)
    found = Intake(**given)
    if found.when_behind not in get_args(WhenBehind):
        hint = f"one of {', '.join(get_args(WhenBehind))}"
        got = f"[{path}] when_behind = {found.when_behind!r}"
        raise ConfigError("it is not known what to do", where=file, got=got, hint=hint)
    if not isinstance(found.limit, int) or isinstance(found.limit, bool) or found.limit < 1:
        got = f"[{path}] limit = {found.limit!r}"
        raise ConfigError("a limit is a number of records", where=file, got=got)
    return found


def smtp(table: Any, environ: Mapping[str, str], file: Path | None) -> Smtp | None:
    if table is None:
        return None
    given = _table(table, "smtp", {each.name for each in fields(Smtp)}, file)
    for name, value in given.items():
        fits = type(value) is int if name == "port" else isinstance(value, str) and value
        if not fits or (name == "security" and value not in get_args(MailSecurity)):
            hint = f"security is one of {', '.join(get_args(MailSecurity))}, port a number"
            got = f"[smtp] {name} = {'***' if name == 'password' else repr(value)}"
            raise ConfigError("a setting of mail cannot be read", where=file, got=got, hint=hint)
    if "host" not in given:
        raise ConfigError("mail needs a server", where=file, hint='[smtp] host = "…"')
    password = environ.get("RIVERRUN_SMTP_PASSWORD") or given.pop("password", None)
    return Smtp(**{**given, "password": password})


def _table(given: Any, path: str, known: set[str] | None, file: Path | None) -> dict[str, Any]:
    """A table of settings, all of which are known."""
    if not isinstance(given, dict):
        raise ConfigError(f"{path!r} is a table", where=file, got=repr(given), hint=f"[{path}]")
    unknown = sorted(set(given) - known) if known is not None else []
    if unknown:
        hint = f"known: {', '.join(sorted(known or ()))}"
        raise ConfigError(f"unknown setting {unknown[0]!r} in [{path}]", where=file, hint=hint)
    return given


def duration(name: str, text: Any, file: Path | None) -> int:
    try:
        found = microseconds(text, file)
    except ProgramError as error:
        raise ConfigError(
            "a duration cannot be read",
            where=file,
            got=f"{name} = {text!r}",
            hint='write it as "1 day" or "12 hours"',
        ) from error
    return found
