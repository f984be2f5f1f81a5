"""`riverrun serve`: views and topics over HTTP, and StatsD over UDP."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from riverrun.cli import options, say_json
from riverrun.server.ingest.udp import UdpDoor
from riverrun.server.running import PORT, Listening, serve

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(1, 65535), help=f"[default: {PORT}, or a free one]")
@click.option("--certificate", type=FILE, help="PEM, for TLS: needed beyond this machine.")
@click.option("--key", type=FILE, help="Its key, unless it is in the same file.")
@click.option("--udp", metavar="[HOST:]PORT", help="Take StatsD lines over UDP, too.")
@click.option(
    "--udp-topic", type=options.TopicName(), default="statsd", show_default=True,
    help="Their topic.",
)  # fmt: skip
@options.json_option
def command(as_json: bool, udp: str | None, udp_topic: str, **given: Any) -> None:
    """Serve the views of this home over HTTP until Ctrl-C, beside the programs that write them, and
    take records for the topics that they read.

    There is a page to try it at the address that is printed. On this machine alone nothing else is
    needed; as soon as there are tokens (`riverrun tokens add`), each request needs one. Beyond this
    machine the server starts only with TLS and tokens.

    \b
    riverrun serve
    curl http://127.0.0.1:8650/views/per_country/de
    curl 'http://127.0.0.1:8650/views/per_country?views=ge.10&order=-views&limit=5'
    curl -N http://127.0.0.1:8650/views/per_country/changes
    curl http://127.0.0.1:8650/topics/views --json '{"page": "/", "at": "2026-01-01T12:00:00Z"}'
    riverrun serve --udp 8125 --udp-topic metrics
    riverrun serve --host 0.0.0.0 --certificate server.pem --key server.key
    """
    settings = options.settings()
    with UdpDoor(settings, udp, udp_topic) if udp else nullcontext() as door:
        for url in serve(settings, Listening(**given), door):
            _say(url, door, as_json=as_json)
    if door is not None and as_json:
        say_json({"udp": door.facts()})
    elif door is not None:
        click.echo(door.told())


def _say(url: str, door: UdpDoor | None, *, as_json: bool) -> None:
    if as_json:
        say_json({"url": url, **({"udp": door.address} if door else {})})
    else:
        click.echo(f"serving on {url}; Ctrl-C ends it")
    if door is not None and not as_json:
        click.echo(f"StatsD on udp://{door.address}, as records of {door.topic!r}")
