"""`riverrun bench`: measured against other ways to do the same, in one run."""

from __future__ import annotations

from pathlib import Path

import click

from riverrun.cli import say_json
from riverrun.config import load


@click.group()
def command() -> None:
    """Measure riverrun against other ways to do the same, in one run on this machine.

    \b
    riverrun bench window
    riverrun bench window --small --json
    riverrun bench windows
    riverrun bench windows --soak 600
    riverrun bench delivery
    riverrun bench cluster
    riverrun bench joins
    riverrun bench versions ../before/src
    """


@command.command()
@click.option("--brokers", help="Kafka's address; the embedded broker if not given.")
@click.option("--small", is_flag=True, help="A tenth of the size, to see that it works.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def window(brokers: str | None, small: bool, as_json: bool) -> None:
    """Windowed counts: events per second, nearly empty batches, and the cost of much state.

    2 million events, 100,000 and 1,000 keys, 10-second windows, results to Kafka, against plain
    PySpark (Kafka source, from_json, built-in aggregate, Kafka sink). Takes about 10 minutes.
    """
    from riverrun.bench.window import Sizes, bench  # noqa: PLC0415 - Spark only when it is needed

    sizes = Sizes().smaller if small else Sizes()
    report = bench(load().override(brokers=brokers), sizes)
    say_json(report.as_json()) if as_json else report.show()


@command.command()
@click.option("--brokers", help="Kafka's address; the embedded broker if not given.")
@click.option("--small", is_flag=True, help="A tenth of the size, to see that it works.")
@click.option("--soak", "seconds", type=click.IntRange(min=60), metavar="SECONDS",
              help="Instead: memory over so many seconds of steady input.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def windows(brokers: str | None, small: bool, seconds: int | None, as_json: bool) -> None:
    """Hopping, session and sliding windows: events per second, same results, state that goes.

    2 million events, results to Kafka, against plain PySpark: its own hopping (10 seconds every
    second) and session windows (gap of 10 seconds) with 10,000 keys, and for sliding windows
    (60 seconds, 1,000 keys), which it has not, transformWithState with a list per key. The
    results of both are read back and must be the same. Takes about 20 minutes.

    With --soak: 5,000 events a second of users who come and go, hopping and session windows in one
    program; memory of all its processes every 5 seconds, in full with --json.

    \b
    riverrun bench windows --small
    riverrun bench windows --soak 600 --json
    """
    if small and seconds:
        raise click.UsageError("--small and --soak are two different benchmarks")
    # Spark only when it is needed
    from riverrun.bench.soak import soak  # noqa: PLC0415
    from riverrun.bench.windows import Sizes, bench  # noqa: PLC0415

    settings = load().override(brokers=brokers)
    sizes = Sizes().smaller if small else Sizes()
    report = soak(settings, seconds) if seconds else bench(settings, sizes)
    say_json(report.as_json()) if as_json else report.show()


@command.command()
@click.option("--brokers", help="Kafka's address; the embedded broker if not given.")
@click.option("--small", is_flag=True, help="A tenth of the size, to see that it works.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def delivery(brokers: str | None, small: bool, as_json: bool) -> None:
    """What exactly once costs: to Kafka, next to at least once and to Spark's own Kafka sink; and
    upserts into PostgreSQL, next to psycopg's executemany.

    2 million events, as a stream and as a table of 10-second windows with 100,000 keys. Takes
    about 10 minutes.

    \b
    riverrun bench delivery --small
    """
    from riverrun.bench.delivery import Sizes, bench  # noqa: PLC0415 - Spark only when it is needed

    sizes = Sizes().smaller if small else Sizes()
    report = bench(load().override(brokers=brokers), sizes)
    say_json(report.as_json()) if as_json else report.show()


@command.command()
@click.option("--brokers", help="Kafka's address; the embedded broker if not given.")
@click.option("--small", is_flag=True, help="A tenth of the size, to see that it works.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def cluster(brokers: str | None, small: bool, as_json: bool) -> None:
    """The window benchmark in local mode and on a standalone cluster of two workers.

    2 million events, 100,000 keys; CPU of all of Spark's processes per event, and both results,
    which must be the same. Takes about 4 minutes.
    """
    from riverrun.bench.cluster import Sizes, bench  # noqa: PLC0415 - Spark only when it is needed

    sizes = Sizes().smaller if small else Sizes()
    report = bench(load().override(brokers=brokers), sizes)
    say_json(report.as_json()) if as_json else report.show()


@command.command()
@click.option("--brokers", help="Kafka's address; the embedded broker if not given.")
@click.option("--small", is_flag=True, help="A tenth of the size, to see that it works.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def joins(brokers: str | None, small: bool, as_json: bool) -> None:
    """Joins: of two streams next to Spark's own, with a table that is small or large, with a hot
    key, and the home timeline of many followers.

    1 million searches and as many clicks; 2 million views with 100,000 and 5 million users of whom
    1 % change per batch; a tweet with 100,000 followers. Takes about 15 minutes.
    """
    from riverrun.bench.joins import Sizes, bench  # noqa: PLC0415 - Spark only when it is needed

    sizes = Sizes().smaller if small else Sizes()
    report = bench(load().override(brokers=brokers), sizes)
    say_json(report.as_json()) if as_json else report.show()


@command.command()
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--pairs", default=7, show_default=True, help="How often both run, in turns.")
@click.option("--brokers", help="Kafka's address; the embedded broker if not given.")
@click.option("--small", is_flag=True, help="A tenth of the size, to see that it works.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def versions(other: Path, pairs: int, brokers: str | None, small: bool, as_json: bool) -> None:
    """CPU per event of this version and of OTHER, the folder src of another checkout.

    The windowed count of `bench window` and the streams of `bench joins`, in turns over the same
    records; the median of the ratios, and the interval that it lies in. Takes about 15 minutes.

    \b
    git worktree add ../before v0.1.0
    riverrun bench versions ../before/src
    """
    from riverrun.bench.versions import Sizes, bench  # noqa: PLC0415 - Spark only when it is needed

    sizes = Sizes().smaller if small else Sizes()
    report = bench(load().override(brokers=brokers), sizes, other.absolute(), pairs)
    say_json(report.as_json()) if as_json else report.show()
