"""`riverrun run`: run a program until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from riverrun.cli import log, options
from riverrun.cli.foreground import Logged, in_foreground, refuse_close, run_options, view_of
from riverrun.cli.live import graceful
from riverrun.cli.program_file import load_app
from riverrun.cli.restarting import supervised
from riverrun.config import LogForm, Poison, Settings, load
from riverrun.spark import early


@click.command("run", cls=Logged)
@click.argument("program", type=click.Path(path_type=Path))
@click.option(
    "--serve", "port", type=click.IntRange(0, 65535), is_flag=False, flag_value=0, metavar="[PORT]",
    help="Serve views over HTTP on this machine meanwhile: see `riverrun serve`.",
)  # fmt: skip
@click.option("--udp", metavar="[HOST:]PORT", help="With --serve: take StatsD lines over UDP, too.")
@click.option(
    "--udp-topic", type=options.TopicName(), default="statsd", show_default=True,
    help="Their topic.",
)  # fmt: skip
@run_options
def command(
    program: Path,
    *,
    brokers: str | None,
    master: str | None,
    environment: str | None,
    port: int | None,
    udp: str | None,
    udp_topic: str,
    as_json: bool,
    every_clock: bool,
    form: LogForm | None,
    restart: bool,
    poison: Poison,
    **options: bool | int | str,
) -> None:
    """Run PROGRAM until Ctrl-C.

    \b
    riverrun run app.py                       on the embedded broker and local Spark
    riverrun run app.py --brokers host:9092   on any cluster; see riverrun.toml for TLS and SASL
    riverrun run app.py --once                read what there is, then stop
    riverrun run app.py --once --close        the same, and the last windows close: a backfill
    riverrun run app.py --serve               and its views over HTTP
    riverrun run app.py --serve --udp 8125    and StatsD over UDP
    riverrun run app.py --log json            a line of JSON on standard error for all that happens
    riverrun run app.py --restart             again after 1, 2, 4 … 60 seconds when it has failed
    riverrun run app.py --restart --poison set-aside
                                              and a record that ends every run is a dead letter
    """
    refuse_close(options)
    if udp and port is None:
        raise click.UsageError("--udp goes with --serve")
    settings = load().override(brokers=brokers, master=master, environment=environment, log=form)
    log.begin(settings.log)
    if restart:
        name = load_app(program).name  # a mistake in it is told at once
        raise SystemExit(supervised(settings.checkpoint_of(name), poison))
    early.begin()
    with graceful() as stopping:
        app = load_app(program)
        view = view_of(app.name, as_json=as_json, every_clock=every_clock)
        view.tell(f"{app.name} is read; loading what runs it")
        from riverrun.runtime.launch import Options  # noqa: PLC0415 - Spark only when needed

        chosen = Options(**options)  # type: ignore[arg-type]
        served = _served(settings, port, (udp, udp_topic), view.tell)
        in_foreground(app, settings, chosen, view, stopping, as_json=as_json, served=served)


@contextmanager
def _served(
    settings: Settings, port: int | None, udp: tuple[str | None, str], tell: Callable[[str], None]
) -> Iterator[None]:
    """A server beside the program, if it is wanted. 0 is any port."""
    if port is None:
        yield
        return
    from riverrun.embedded import kafka  # noqa: PLC0415 - only where it is wanted
    from riverrun.server.ingest.udp import UdpDoor  # noqa: PLC0415
    from riverrun.server.running import Listening, beside  # noqa: PLC0415

    where, topic = udp
    if where is not None:
        kafka.ensure(settings)  # its topic is looked for before the program begins
    with (
        UdpDoor(settings, where, topic) if where else nullcontext() as door,
        beside(settings, Listening(port=port or None), door) as url,
    ):
        tell(f"serving views on {url}")
        if door is not None:
            tell(f"StatsD on udp://{door.address}, as records of {door.topic!r}")
        yield
    if door is not None:
        tell(door.told())
