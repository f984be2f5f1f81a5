"""`riverrun submit`: start a program on a cluster, and return."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click

from riverrun import private
from riverrun.cli import options, say_json
from riverrun.cli.program_file import load_app
from riverrun.config import Settings, load
from riverrun.embedded import java
from riverrun.errors import JobError


@click.command("submit")
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--master", help="Spark's master: spark://host:7077, yarn, k8s://…")
@click.option("--brokers", metavar="HOST:PORT", help="Kafka's address.")
@click.option("--environment", metavar="same|FILE", help="The Python of executors.")
@click.option("--package", "packed", is_flag=True, help="Make the archive for them first.")
@click.option("--fresh", is_flag=True, help="Forget the checkpoint and start over.")
@click.option("--max-events", type=click.IntRange(min=1), default=500_000, show_default=True,
              help="Most events per batch.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the command instead of running it.")
@options.json_option
def command(
    program: Path,
    *,
    master: str | None,
    brokers: str | None,
    environment: str | None,
    packed: bool,
    fresh: bool,
    max_events: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start PROGRAM on a cluster, and return once it runs. `riverrun stop` stops it.

    On a standalone cluster (and in local mode) its driver runs in the background on this machine.
    On YARN and Kubernetes the driver runs in the cluster, started by spark-submit; the command
    returns once the cluster has accepted it.

    \b
    riverrun submit app.py --master spark://host:7077
    riverrun submit app.py --master yarn --package
    riverrun submit app.py --master yarn --environment env.tar.gz --dry-run
    """
    # Spark only when it is needed
    from riverrun.runtime import submit  # noqa: PLC0415

    before = set(sys.modules)
    app = load_app(program)
    settings = load().override(master=master, brokers=brokers, environment=environment)
    if packed:
        settings = _packed(settings, app.name, set(sys.modules) - before)
    chosen = {"fresh": fresh, "max_events": max_events}
    if settings.master == "yarn" or settings.master.startswith("k8s"):
        line = submit.spark_submit(app, settings, chosen)
        if dry_run:
            _say(line, as_json=as_json)
        else:
            _run(line, settings)
            _told(app.name, settings.master, as_json=as_json)
        return
    given = ["--master", settings.master, "--environment", settings.environment]
    given += ["--max-events", str(max_events), *(["--fresh"] if fresh else [])]
    given += ["--brokers", settings.brokers] if settings.brokers else []
    if dry_run:
        _say(["riverrun", "run", str(program), *given], as_json=as_json)
        return
    found = submit.background(app, program, settings, given)
    if as_json:
        say_json(vars(found))
    else:
        click.echo(f"{found.name} runs in process {found.pid}; its log is {found.log}")


def _packed(settings: Settings, name: str, modules: set[str]) -> Settings:
    from riverrun.runtime.package import package  # noqa: PLC0415 - needed here only

    archive = settings.run_of(name) / "env.tar.gz"
    private.folder(archive.parent)
    package(archive, modules=modules)
    return settings.override(environment=str(archive))


def _run(line: list[str], settings: Settings) -> None:
    """Without our PYTHONPATH: Spark would have the cluster look there before the archive."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ["JAVA_HOME"] = str(java.find(settings.cache).home)
    if subprocess.run(line, env=environ, check=False).returncode:
        raise JobError("spark-submit failed", where=line[0], hint="what it printed says why")


def _told(name: str, master: str, *, as_json: bool) -> None:
    if as_json:
        say_json({"name": name, "master": master})
    else:
        click.echo(f"{name} is with {master}; `riverrun ps` tells when it runs")


def _say(line: list[str], *, as_json: bool) -> None:
    if as_json:
        say_json({"command": line})
    else:
        click.echo(shlex.join(line))
