"""Errors that a user sees: a fact, where it is, what was found, what to do, and a stable code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = f"{Path(__file__).parent}{os.sep}"


class Visible:
    """What expressions find by its name, if their line sees it: see `rr.function`."""

    name: str


@dataclass(frozen=True)
class Location:
    """A line of the user's own program."""

    file: str
    line: int
    visible: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The functions that expressions on this line may call, by name in lower case."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def __reduce__(self) -> tuple[type[Location], tuple[str, int]]:
        # what a line sees stays where it is: a program takes along what it calls
        return Location, (self.file, self.line)


def caller() -> Location:
    """The innermost line outside riverrun: the one the user wrote."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno, _visible(frame))


def _visible(frame: FrameType) -> dict[str, Visible]:
    """What the line sees: names of its module, its function, and those that called it there."""
    scopes, file, outer = [frame.f_globals], frame.f_code.co_filename, frame.f_back
    scopes.append(frame.f_locals)
    while outer is not None and outer.f_code.co_filename == file:
        scopes.insert(1, outer.f_locals)
        outer = outer.f_back
    found = (value for scope in scopes for value in scope.values())
    return {value.name.lower(): value for value in found if issubclass(type(value), Visible)}


def cause_of(error: BaseException) -> str:
    """The error's type and message, and the user's line that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


class RiverrunError(Exception):
    """Base of all errors raised on purpose. `code` has a section in docs/errors.md."""

    code = "RR000"

    def __init__(
        self, fact: str, *, where: object = None, got: object = None, hint: str | None = None
    ) -> None:
        self.fact, self.where, self.got, self.hint = fact, where, got, hint
        super().__init__(self.text())

    def text(self) -> str:
        lines = [f"{self.fact} [{self.code}]"]
        details = (("where", self.where), ("got", self.got), ("hint", self.hint))
        lines += [f"  {name}: {value}" for name, value in details if value is not None]
        return "\n".join(lines)


class ProgramError(RiverrunError):
    """The program cannot be built: a wrong column, expression, duration or name."""

    code = "RR101"


class ConfigError(RiverrunError):
    """A setting is wrong, or its file cannot be read."""

    code = "RR102"


class InputError(RiverrunError):
    """A file or argument given to a command cannot be used."""

    code = "RR103"


class BrokerError(RiverrunError):
    """Kafka cannot be reached, or refuses."""

    code = "RR201"


class TopicError(RiverrunError):
    """A topic is missing, was recreated, or has lost records that were still to be read."""

    code = "RR202"


class NoTopic(TopicError):
    """A topic is not there."""


class RecordsGone(TopicError):
    """Records that were still to be read were deleted."""


class PortError(RiverrunError):
    """A port is taken by another program."""

    code = "RR203"


class DatabaseError(RiverrunError):
    """A database cannot be reached, refuses, or has a table that does not fit."""

    code = "RR204"


class ConnectError(RiverrunError):
    """Kafka Connect cannot be reached, refuses, or has no such connector."""

    code = "RR205"


class JavaError(RiverrunError):
    """No usable Java."""

    code = "RR301"


class JarError(RiverrunError):
    """A jar is missing or is not the locked one."""

    code = "RR302"


class ServerError(RiverrunError):
    """An embedded server does not start, or its folder is damaged."""

    code = "RR303"


class AlreadyRunning(RiverrunError):
    """Another process runs the same application."""

    code = "RR401"


class CheckpointError(RiverrunError):
    """The checkpoint does not fit the program, or would be replaced."""

    code = "RR402"


class CheckpointAway(CheckpointError, OSError):
    """A far file system cannot be reached, or refuses."""

    code = "RR403"


class JobError(RiverrunError):
    """The running job stopped with an error."""

    code = "RR500"
