"""The `riverrun` command. One file per subcommand; each is imported only when it is called."""

from __future__ import annotations

import atexit
import errno
import importlib
import os
import sys
from typing import Any

import click

from riverrun import exact
from riverrun.errors import JobError, RiverrunError

COMMANDS = (
    "backup", "bench", "capture", "check", "clocks", "control", "dead", "demo", "describe", "down",
    "lag", "package", "pause", "produce", "ps", "rebuild", "restore", "resume", "rules", "run",
    "search", "status", "stop", "submit", "tail", "topics", "try", "up", "verify",
)  # fmt: skip


ROOM = "make room; nothing is lost, and the next run goes on after the last batch"


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(
            f"riverrun.cli.{name}_" if name == "try" else f"riverrun.cli.{name}"
        )
        command: click.Command = module.command
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="riverrun")
def group() -> None:
    """Stream processing for Python on Apache Spark.

    \b
    riverrun demo                     see it run
    riverrun up                       start the local Kafka broker
    riverrun run app.py               run a program
    riverrun try app.py --input views=views.jsonl
    """


def say_json(value: Any) -> None:
    click.echo(exact.dumps(value, other=str))


def entry() -> None:
    """The command. Ends without Python's last clean-up, in which DuckDB lists its objects."""
    code: object = 0
    try:
        main()
    except SystemExit as ending:
        code = ending.code
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


def main() -> None:
    try:
        group(standalone_mode=False)
    except RiverrunError as error:
        click.secho("error: ", fg="red", nl=False, err=True)
        click.echo(str(error), err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        click.secho("error: ", fg="red", nl=False, err=True)
        click.echo(str(JobError("the disk is full", where=error.filename, hint=ROOM)), err=True)
        sys.exit(2)
