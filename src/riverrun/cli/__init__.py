"""The `riverrun` command. One file per subcommand; each is imported only when it is called."""

from __future__ import annotations

import atexit
import errno
import importlib
import os
import signal
import sys
from typing import Any

import click

from riverrun import exact
from riverrun.cli import log
from riverrun.errors import JobError, RiverrunError

COMMANDS = (
    "alerts", "archive", "ask",
    "backup", "bench",
    "capture", "check", "clocks", "compare", "control",
    "dead", "demo", "deploy", "deployments", "describe", "down",
    "export",
    "forget",
    "get",
    "history",
    "lag",
    "metrics",
    "new",
    "package", "pause", "produce", "promote", "ps",
    "queries", "query", "queue",
    "rebuild", "rebuild-state", "replay", "rescale", "restore", "resume", "retire",
    "rules", "run",
    "search", "send", "serve", "state", "status", "stop", "submit",
    "tail", "tokens", "topics", "try",
    "up",
    "verify", "views",
)  # fmt: skip


ROOM = "make room; nothing is lost, and the next run goes on after the last batch"


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        file = "try_" if name == "try" else name.replace("-", "_")
        module = importlib.import_module(f"riverrun.cli.{file}")
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


def main() -> None:
    try:
        _called()
    finally:
        log.end()


def _called() -> None:
    try:
        group(standalone_mode=False)
    except RiverrunError as error:
        log.say_error(error)
        sys.exit(2)
    except click.ClickException as error:
        log.say_usage(error)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        log.say("stopped", "stopped")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            log.say_crash(error)
            sys.exit(1)
        log.say_error(JobError("the disk is full", where=error.filename, hint=ROOM))
        sys.exit(2)
