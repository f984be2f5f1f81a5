from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import click
import pytest
from click.testing import CliRunner

from riverrun.cli import group, options
from riverrun.cli.options import Patience
from riverrun.durations import patience

WAITS = ("--timeout", "--patience", "--within", "--idle")
HELD = {
    "ask", "get", "promote", "queries add", "queries cost", "queries remove", "query",
    "queue work", "rules add", "rules remove", "send", "stop",
}  # fmt: skip


def commands(within: click.Group, *before: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(within)
    for name in within.list_commands(context):
        found = within.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, *before, name)
        elif found is not None:
            yield " ".join((*before, name)), found


def test_whatever_waits_takes_seconds_and_durations() -> None:
    kinds = {
        name: option.type
        for name, command in commands(group)
        for option in command.params
        if set(option.opts) & set(WAITS)
    }
    assert kinds.keys() == HELD
    assert [name for name, kind in kinds.items() if not isinstance(kind, Patience)] == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30), ("0.5", 0.5), (".5", 0.5), ("5.", 5), (" 7 ", 7), ("30 seconds", 30),
        ("2min", 120), ("1 hour 30 minutes", 5400), ("250 ms", 0.25), ("0", 0), ("0 seconds", 0),
    ],
)  # fmt: skip
def test_a_plain_number_is_of_seconds(text: str, seconds: float) -> None:
    assert patience(text) == seconds * 1_000_000


@click.command()
@options.timeout_option("30 seconds", "How long.")
@options.timeout_option("2 minutes", "How long.", name="--patience", none=True)
def waiting(timeout: timedelta, patience: timedelta) -> None:
    click.echo(f"{timeout} {patience}")


def test_a_wait_that_is_not_said_is_the_default() -> None:
    assert CliRunner().invoke(waiting).output == "0:00:30 0:02:00\n"
    assert "[default: 30 seconds]" in CliRunner().invoke(waiting, ["--help"]).output


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("soon", "neither seconds nor a duration"), ("-1", "neither seconds"),
        ("inf", "neither seconds"), ("nan", "neither seconds"), ("1e3", "neither seconds"),
        ("", "neither seconds"), ("5 fortnights", "neither seconds"),
        ("9" * 400, "neither seconds"), ("367 days", "longer than 366 days"),
        ("0", "no time at all"),
    ],
)  # fmt: skip
def test_a_wait_that_cannot_be_meant_is_refused_by_its_option(text: str, fact: str) -> None:
    outcome = CliRunner().invoke(waiting, ["--timeout", text])
    assert outcome.exit_code == 2
    assert "Invalid value for '--timeout'" in outcome.output
    assert fact in outcome.output


def test_no_time_is_what_there_is_now() -> None:
    assert CliRunner().invoke(waiting, ["--patience", "0"]).output == "0:00:30 0:00:00\n"
