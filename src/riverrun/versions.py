"""Versions of an application that run at once: the version is part of every name that one has."""

from __future__ import annotations

import re
from dataclasses import dataclass

from riverrun.errors import InputError

CURRENT = "current"
"""What `riverrun run` runs: its own names have no version in them, and it is the public one until
another is promoted."""
NAME = re.compile(r"[a-z0-9][a-z0-9_]{,29}")
"""Of a version: it becomes part of names in Kafka and in databases, some without capitals."""


@dataclass(frozen=True)
class Version:
    """A version of an application, the current one or one beside it."""

    of: str
    """The application's name."""
    name: str

    @staticmethod
    def named(of: str, name: str) -> Version:
        """As given on a command line."""
        if name == CURRENT:
            raise InputError(
                f"{CURRENT!r} is what `riverrun run` runs, not a version that was deployed",
                hint=f"`riverrun deployments {of}` lists those",
            )
        if not NAME.fullmatch(name):
            raise InputError(
                "a version's name has small letters, digits and _, at most 30",
                got=repr(name),
                hint="such as v2",
            )
        return Version(of, name)

    @property
    def application(self) -> str:
        """Its own name: checkpoint, transactional ids, consumer group and own topics have it."""
        return self.of if self.name == CURRENT else self.with_dashes(self.of)

    def topic(self, name: str) -> str:
        """A topic `APP.…` is the application's own, and stays so."""
        if name.startswith(f"{self.of}."):
            return f"{self.application}{name.removeprefix(self.of)}"
        return self.with_dashes(name)

    def with_dashes(self, name: str) -> str:
        """For all but databases."""
        return f"{name}--{self.name}"

    def table(self, name: str) -> str:
        """For databases, and views: SQL takes it without quotes."""
        return f"{name}__{self.name}"
