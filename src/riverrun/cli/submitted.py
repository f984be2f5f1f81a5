"""Not a command: the driver that spark-submit starts, as `submitted.py MODULE OPTIONS`.

MODULE is among the files that came along. OPTIONS is JSON, for `runtime.launch.Options`.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from contextlib import suppress

import click

from riverrun.cli import say_json
from riverrun.cli.live import graceful
from riverrun.cli.program_file import app_of
from riverrun.config import load
from riverrun.runtime.launch import Options
from riverrun.runtime.run import started


def main() -> None:
    module, options = sys.argv[1:]
    app = app_of(importlib.import_module(module))
    settings = load()
    given = json.loads(options)
    chosen = Options(**{**given, "fresh": given["fresh"] and not _again()})
    with graceful() as stopping, started(app, settings, chosen, _tell) as running:
        stopping.lets_finish(running.drain)
        for status in running.watch():
            with suppress(OSError):  # it is told again with the next batch
                running.run.note(batch=status["batch"], events=status["events"])
            say_json({name: status[name] for name in ("batch", "events", "written", "clocks")})


def _again() -> bool:
    """Whether YARN starts it once more: what it was to forget is forgotten."""
    container = os.environ.get("CONTAINER_ID", "")
    attempt = re.match(r"container_(?:e\d+_)?\d+_\d+_(\d+)_", container)
    return attempt is not None and int(attempt[1]) > 1


def _tell(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
