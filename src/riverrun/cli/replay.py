"""`riverrun replay`: a program over a part of history, beside the one that runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.live import graceful
from riverrun.cli.program_file import load_as_run
from riverrun.cli.progress import bar_or_lines
from riverrun.config import Settings
from riverrun.partitions import from_texts

if TYPE_CHECKING:
    from riverrun.runtime.beside import Replay


@click.command("replay")
@click.argument("program", type=click.Path(path_type=Path), required=False)
@click.option("--into", metavar="NAME", help="The name of the replay: its topics are NAME.….")
@click.option(
    "--from", "starts", multiple=True, metavar="TIME|TOPIC/0=OFFSET",
    help="Where to begin; the beginning if not given.",
)  # fmt: skip
@click.option(
    "--to", "ends", multiple=True, metavar="TIME|TOPIC/0=OFFSET",
    help="Where to end; what there is now if not given.",
)  # fmt: skip
@click.option("--close", is_flag=True, help="In the end windows close, and rows that wait leave.")
@click.option("--fresh", is_flag=True, help="Begin anew: what the replay has left is removed.")
@click.option("--anyway", is_flag=True, help="Replay what is left of the log, if it is not all.")
@click.option("--remove", metavar="NAME", help="Remove all that a replay has left.")
@click.option(
    "--archive", type=options.Folder(),
    help="The folder of the archive; that of the settings if not given.",
)  # fmt: skip
@click.option("--master", help="Spark's master, local[*] if not given.")
@click.option(
    "--max-events", type=click.IntRange(min=1), default=2_000_000, show_default=True,
    help="Most events per batch.",
)  # fmt: skip
@options.brokers_option
@options.json_option
def command(
    program: Path | None,
    *,
    into: str | None,
    starts: tuple[str, ...],
    ends: tuple[str, ...],
    remove: str | None,
    archive: Path | None,
    master: str | None,
    brokers: str | None,
    **how: Any,
) -> None:
    """Run PROGRAM over a part of history, into topics of its own, beside the one that runs.

    Every result goes to a topic NAME.…, whatever its sink is; nothing else is written. A time is
    that of records in Kafka. Tables are read from their beginning. What topics no longer have is
    read from the archive. Ended before it is done, by whatever, the same command goes on.

    \b
    riverrun replay app.py --into march --from 2026-03-01 --to 2026-04-01 --close
    riverrun tail march.per-page --from earliest
    riverrun replay app.py --into again --from orders/0=1200 --from orders/1=800
    riverrun replay --remove march
    """
    settings = options.settings(brokers).override(
        master=master, archive=archive and archive.absolute()
    )
    if remove is not None:
        _remove(remove, settings, as_json=how["as_json"])
        return
    if program is None or into is None:
        raise click.UsageError("a replay needs a program, and --into NAME")
    from riverrun.embedded import kafka  # noqa: PLC0415 - Spark only when it is needed
    from riverrun.runtime.beside import replay  # noqa: PLC0415
    from riverrun.runtime.spans import Asked  # noqa: PLC0415

    with graceful() as stopping:
        asked = Asked.of(starts, ends)
        settings = kafka.named(settings)
        found = replay(
            load_as_run(program, settings), settings, into, asked,
            fresh=how["fresh"], anyway=how["anyway"],
        )  # fmt: skip
        for gap in found.gaps:
            click.secho(f"in doubt: {gap}", fg="yellow", err=True)
        _run(found, settings, stopping, how)


def _run(found: Replay, settings: Settings, stopping: Any, how: Mapping[str, Any]) -> None:
    from riverrun.runtime.launch import Options  # noqa: PLC0415
    from riverrun.runtime.run import started  # noqa: PLC0415

    chosen = Options(
        once=True, close=how["close"], max_events=how["max_events"], batch_time="30 seconds",
        span=found.span,
    )  # fmt: skip
    began_at, total, last = time.monotonic(), found.span.records(), dict[str, Any]()
    kept = found.span.from_archive()
    click.echo(
        f"{'going on with' if found.begun else 'replaying'} {total:,} records"
        f"{f', {kept:,} of them from the archive,' if kept else ''} into {found.app.name}.…",
        err=True,
    )
    with (
        started(found.app, settings, chosen, _tell) as running,
        bar_or_lines("records") as progress,
    ):
        stopping.lets_finish(running.drain)
        for status in running.watch():
            last = status
            progress(found.span.read(_standing(status)), total)
    if running.finished:
        _show(found, last, time.monotonic() - began_at, as_json=how["as_json"])


def _standing(status: Mapping[str, Any]) -> dict[Any, int]:
    noted = (status["lag"] or {}).get("partitions", {})
    return from_texts({name: each["read"] for name, each in noted.items()})


def _show(found: Replay, last: Mapping[str, Any], seconds: float, *, as_json: bool) -> None:
    written, events = last.get("written", {}), last.get("events", 0)
    told = {name: (topic, written.get(name, 0)) for name, topic in found.topics.items()}
    if as_json:
        say_json(
            {
                "application": found.app.name, "events": events, "seconds": round(seconds, 1),
                "most_waiting": last.get("most_waiting", 0),
                "dead": last.get("dead", 0), "late": sum(last.get("late", {}).values()),
                "outputs": dict(told.values()),
                "in_doubt": list(found.gaps), "from_archive": found.span.from_archive(),
                **found.span.logged(),
            }
        )  # fmt: skip
        return
    print_grid(
        ("topic", "rows"), [(t, f"{rows:,}") for t, rows in told.values()], numbers=("rows",)
    )
    click.echo(
        f"{events:,} events in {seconds:.1f} s, {events / seconds:,.0f} events/s; "
        f"dead {last.get('dead', 0):,}, late {sum(last.get('late', {}).values()):,}, "
        f"waiting {last.get('most_waiting', 0):,} at most\n"
        f"look at it:  riverrun tail {next(iter(found.topics.values()))} --from earliest\n"
        f"remove it:   riverrun replay --remove {found.app.name}"
    )


def _remove(name: str, settings: Settings, *, as_json: bool) -> None:
    from riverrun.embedded import kafka  # noqa: PLC0415
    from riverrun.runtime.beside import noted, removed  # noqa: PLC0415

    if noted(settings.checkpoint_of(name)) is None:
        raise click.UsageError(f"there is no replay {name!r}")
    settings = kafka.named(settings)
    gone = removed(name, settings)
    if as_json:
        say_json({"removed": gone})
    else:
        click.echo(f"removed {name}: {len(gone)} topics and its checkpoint")


def _tell(text: str) -> None:
    click.echo(text, err=True)
