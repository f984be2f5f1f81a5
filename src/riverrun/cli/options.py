"""Options and output that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from riverrun import config
from riverrun.config import Settings
from riverrun.durations import patience
from riverrun.errors import InputError, ProgramError
from riverrun.kafka.names import TOPIC_RULE, may_be_topic

F = TypeVar("F", bound=Callable[..., Any])

LONGEST = timedelta(days=366)
"""To wait: beyond that, what waits in databases and operating systems counts no further."""

brokers_option = click.option(
    "--brokers",
    metavar="HOST:PORT",
    help="Kafka brokers; without it, the settings' or the local one.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def settings(brokers: str | None = None) -> Settings:
    return config.load().override(brokers=brokers)


class Patience(click.ParamType[timedelta]):
    """How long to wait: a duration as everywhere, or a plain number of seconds."""

    name = "duration"

    def __init__(self, *, none: bool) -> None:
        self.none = none
        """Whether it may be no time at all: what there is now."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):  # click may ask again
            return value
        try:
            found = patience(value)
        except ProgramError:
            self.fail(f"{value!r} is neither seconds nor a duration: 30, '5 minutes'", param, ctx)
        if found > LONGEST / timedelta(microseconds=1):
            self.fail(f"{value!r} is longer than {LONGEST.days} days", param, ctx)
        if not found and not self.none:
            self.fail(f"{value!r} is no time at all", param, ctx)
        return timedelta(microseconds=found)


class TopicName(click.ParamType[str]):
    """Told before a broker is asked: what it says of other names is that they are not there."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not may_be_topic(value):
            raise InputError("Kafka has no topics of such a name", got=repr(value), hint=TOPIC_RULE)
        return str(value)


class Folder(click.Path):
    """An empty text, as of a variable that is not set, is not the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name of the folder is empty", param, ctx)
        return super().convert(value, param, ctx)


def timeout_option(
    default: str | None, help: str, *, name: str = "--timeout", none: bool = False
) -> Callable[[F], F]:
    return click.option(
        name, type=Patience(none=none), default=default, show_default=True,
        metavar="DURATION", help=f"{help} Seconds, or a duration such as '5 minutes'.",
    )  # fmt: skip
