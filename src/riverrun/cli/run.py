"""`riverrun run`: run a program until it is stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, get_args

import click

from riverrun.cli import log, say_json
from riverrun.cli.live import LiveView, LogView, graceful
from riverrun.cli.program_file import load_app
from riverrun.cli.restarting import supervised
from riverrun.config import LogForm, Settings, load

MADE_OF = ("recent", "given", "fields", "own")


class _Logged(click.Command):
    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **more: Any,
    ) -> click.Context:
        """Errors of the command line are told as all others are."""
        named = log.asked(args) or os.environ.get("RIVERRUN_LOG")
        log.begin("json" if named == "json" else "text")
        return super().make_context(info_name, args, parent, **more)


@click.command(cls=_Logged)
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--brokers", help="Kafka's address; the embedded broker if not given.")
@click.option("--master", help="Spark's master, local[*] if not given.")
@click.option("--environment", metavar="same|FILE",
              help="The Python of a cluster's executors; see docs/cluster.md.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Forget the checkpoint and start over.")
@click.option(
    "--keep-written",
    is_flag=True,
    help="Keep the results of a half-written batch, though the program has changed since.",
)
@click.option("--restart", is_flag=True, help="Start again what fails or is killed, after a while.")
@click.option("--once", is_flag=True, help="Read what there is, then stop.")
@click.option(
    "--close",
    is_flag=True,
    help="With --once: in the end windows close, and rows that wait leave.",
)
@click.option(
    "--serve", "port", type=click.IntRange(0, 65535), is_flag=False, flag_value=0, metavar="[PORT]",
    help="Serve views over HTTP on this machine meanwhile: see `riverrun serve`.",
)  # fmt: skip
@click.option("--udp", metavar="[HOST:]PORT", help="With --serve: take StatsD lines over UDP, too.")
@click.option("--udp-topic", default="statsd", show_default=True, help="Their topic.")
@click.option(
    "--max-events",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="Most events per batch.",
)
@click.option(
    "--batch-time",
    default="5 seconds",
    show_default=True,
    metavar="DURATION",
    help="How long a batch should take; its size follows.",
)
@click.option("--clocks", "every_clock", is_flag=True, help="Show the clock of every step.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print each batch's status as one line of JSON."
)
@click.option(
    "--log",
    "form",
    type=click.Choice(get_args(LogForm)),
    help="How to tell what happens on standard error; text if nothing says otherwise.",
)
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
    """
    if options["close"] and not options["once"]:
        raise click.UsageError(
            "--close goes with --once: a program that runs on closes by its clock"
        )
    if udp and port is None:
        raise click.UsageError("--udp goes with --serve")
    settings = load().override(brokers=brokers, master=master, environment=environment, log=form)
    log.begin(settings.log)
    if restart:
        raise SystemExit(supervised(program, settings))
    with graceful() as stopping:
        app = load_app(program)
        view = _view(app.name, as_json=as_json, every_clock=every_clock)
        view.tell(f"{app.name} is read; loading what runs it")
        from riverrun.runtime.run import Options, started  # noqa: PLC0415 - Spark only when needed

        chosen = Options(**options)  # type: ignore[arg-type]
        served = _served(settings, port, (udp, udp_topic), view.tell)
        with view, served, started(app, settings, chosen, view.tell) as running:
            stopping.lets_finish(running.drain)
            for status in running.watch():
                view.warn(status)
                if as_json:
                    say_json(_told(status))
                view.show(status)


def _view(application: str, *, as_json: bool, every_clock: bool) -> LiveView:
    to = log.current()
    if to is not None:
        return LogView(application, to, rows=not as_json)
    return LiveView(application, quiet=as_json, every_clock=every_clock)


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


def _told(status: dict[str, Any]) -> dict[str, Any]:
    """Without what alerts and warnings are made of."""
    return {name: fact for name, fact in status.items() if name not in MADE_OF}
