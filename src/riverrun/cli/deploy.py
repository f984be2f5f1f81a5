"""`riverrun deploy`: a new version of a program, beside the one that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from riverrun.cli import log
from riverrun.cli.foreground import Logged, in_foreground, refuse_close, run_options, view_of
from riverrun.cli.live import graceful
from riverrun.cli.program_file import load_app
from riverrun.cli.restarting import supervised
from riverrun.config import LogForm, Poison, load
from riverrun.versions import Version


@click.command("deploy", cls=Logged)
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--as", "version", required=True, metavar="VERSION", help="Its name, such as v2.")
@click.option(
    "--from", "start", metavar="TIME|beginning|state",
    help="Where a new version begins; where the program says if not given.",
)  # fmt: skip
@run_options
def command(
    program: Path,
    *,
    version: str,
    start: str | None,
    as_json: bool,
    every_clock: bool,
    form: LogForm | None,
    restart: bool,
    poison: Poison,
    **options: Any,
) -> None:
    """Run PROGRAM as a version of its application, beside the current one, until Ctrl-C.

    Topics that it reads are the same; everything that it writes is its own: topics NAME--VERSION,
    tables and views NAME__VERSION, the application NAME--VERSION. Nobody is sent anything.
    The same command goes on with what was begun. See docs/deploy.md.

    \b
    riverrun deploy app.py --as v2                          from where the program says
    riverrun deploy app.py --as v2 --from 2026-01-31        from the records of a time
    riverrun deploy app.py --as v2 --from beginning
    riverrun deploy app.py --as v2 --from state             with a copy of the current one's state
    """
    refuse_close(options)
    where = {name: options.pop(name) for name in ("brokers", "master", "environment")}
    settings = load().override(**where, log=form)
    log.begin(settings.log)
    app = load_app(program)
    named = Version.named(app.name, version)
    if restart:
        raise SystemExit(supervised(settings.checkpoint_of(named.application), poison))
    with graceful() as stopping:
        view = view_of(named.application, as_json=as_json, every_clock=every_clock)
        view.tell(f"{named.application} is read; loading what runs it")
        from riverrun.embedded import kafka  # noqa: PLC0415 - Spark only when it is needed
        from riverrun.runtime.deploy import Deploy  # noqa: PLC0415
        from riverrun.runtime.launch import Options  # noqa: PLC0415

        deploy = Deploy(app, program, named, settings, kafka.ensure(settings))
        span = deploy.ready(start, fresh=options.pop("fresh"), tell=view.tell)
        chosen = Options(**options, span=span, version=named)
        in_foreground(app, settings, chosen, view, stopping, as_json=as_json)
