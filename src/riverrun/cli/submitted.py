"""Not a command: the driver that spark-submit starts, as `submitted.py MODULE OPTIONS`.

MODULE is among the files that came along. OPTIONS is JSON, for `runtime.launch.Options`.
"""

from __future__ import annotations

import importlib
import json
import sys

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
    chosen = Options(**json.loads(options))
    with graceful() as stopping, started(app, settings, chosen, _tell) as running:
        stopping.lets_finish(running.drain)
        for status in running.watch():
            say_json({name: status[name] for name in ("batch", "events", "written", "clocks")})


def _tell(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
