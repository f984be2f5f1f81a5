"""What commands tell on standard error: text for people, or one JSON object per line."""

from __future__ import annotations

import io
import re
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, get_args

import click

from riverrun import exact
from riverrun.config import LogForm
from riverrun.errors import RiverrunError

Event = Literal["progress", "batch", "warning", "over", "stopped", "error", "output"]
LEVELS = {"warning": "warning", "error": "error"}
SECRET = re.compile(r"(?<=://)[^\s/]*@")
"""User and password of an address."""


class JsonLines(io.TextIOBase):
    """In place of standard error: events, and what anyone else writes, a line at a time."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.application: str | None = None
        self.begun = ""
        self.lock = threading.RLock()

    def put(self, event: Event, message: str, **facts: Any) -> None:
        told = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": LEVELS.get(event, "info"),  # any other: nothing is wrong
            "event": event,
            "application": self.application,
            "message": message,
            **facts,
        }
        known = {name: fact for name, fact in told.items() if fact is not None}
        line = exact.dumps(_without_secrets(known), other=str)
        with self.lock:
            self.out.write(f"{line}\n")
            self.out.flush()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("standard error takes text")  # click asks by writing no bytes
        with self.lock:
            *lines, self.begun = f"{self.begun}{text}".split("\n")
            for line in lines:
                if line.strip():
                    self.put("output", line)
        return len(text)

    def end(self) -> TextIO:
        """What was in its place before."""
        self.write("\n")
        return self.out


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return SECRET.sub("***@", value)
    if isinstance(value, dict):
        return {name: _without_secrets(each) for name, each in value.items()}
    return value


def begin(form: LogForm) -> None:
    if form == "json" and current() is None:
        sys.stderr = JsonLines(sys.stderr)


def end() -> None:
    if (log := current()) is not None:
        sys.stderr = log.end()


def current() -> JsonLines | None:
    """The log, if it is JSON."""
    return sys.stderr if isinstance(sys.stderr, JsonLines) else None


def asked(arguments: list[str]) -> LogForm | None:
    """What the command line says: also an error in the rest of it is told in that form."""
    words = " ".join(arguments).replace("--log ", "--log=").split()
    found = [form for form in get_args(LogForm) if f"--log={form}" in words]
    return found[0] if found else None


def say(event: Literal["warning", "over", "stopped"], message: str, **facts: Any) -> None:
    """The facts are for programs: to people the message says them."""
    if (log := current()) is not None:
        log.put(event, message, **facts)
    else:
        click.echo(message if event == "stopped" else f"{event}: {message}", err=True)


def said(text: str) -> bool:
    """Says what a running application warns of; False if it tells how it gets on."""
    match text.partition(": "):
        case ("warning" | "over") as event, ": ", message:
            say(event, message)
        case _:  # any other: no warning
            return False
    return True


def say_error(error: RiverrunError) -> None:
    if (log := current()) is not None:
        where, got = (None if each is None else str(each) for each in (error.where, error.got))
        log.put("error", error.fact, code=error.code, where=where, got=got, hint=error.hint)
    else:
        click.secho("error: ", fg="red", nl=False, err=True)
        click.echo(str(error), err=True)


def say_usage(error: click.ClickException) -> None:
    if (log := current()) is not None:
        log.put("error", error.format_message())
    else:
        error.show()


def say_crash(error: Exception) -> None:
    """What nobody has foreseen. As text, Python tells it."""
    if (log := current()) is None:
        raise error
    told = "".join(traceback.format_exception(error))
    log.put("error", f"{type(error).__name__}: {error}", traceback=told)
