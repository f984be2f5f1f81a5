"""`riverrun export`: a systemd unit, or manifests of Kubernetes, for a program."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.program_file import load_app
from riverrun.errors import InputError


@click.command("export")
@click.argument("kind", type=click.Choice(["systemd", "kubernetes"]))
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The file; standard output if none.")
@click.option("--image", help="Of kubernetes: an image with Python, Java and riverrun.")
@click.option("--user", help="Of systemd: who runs it.")
@options.json_option
def command(
    kind: str,
    program: Path,
    *,
    out: Path | None,
    image: str | None,
    user: str | None,
    as_json: bool,
) -> None:
    """Write what keeps PROGRAM running: a unit of systemd, or a list of Kubernetes' objects.

    \b
    riverrun export systemd app.py --out riverrun-shop.service
    riverrun export kubernetes app.py --image shop:1.2 --out shop.json
    """
    from riverrun.cli.manifests import kubernetes, systemd  # noqa: PLC0415 - only here

    app, settings = load_app(program), options.settings()
    if kind == "systemd":
        if image is not None:
            raise InputError("a unit of systemd has no image", got=f"--image {image}")
        text = systemd(app.name, program.absolute(), settings, user)
    else:
        if image is None or user is not None:
            raise InputError("a pod runs an image, as its user", hint="--image NAME:VERSION")
        text = kubernetes(app.name, program, settings, image)
    if out is not None:
        _write(out, text)
    told: dict[str, Any] = {"application": app.name, "kind": kind, "file": out and str(out)}
    if as_json:
        say_json(told | {"text": text})
    elif out is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"wrote {out}")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # told as everywhere
        raise InputError("the file cannot be written", where=file, got=error.strerror) from error
