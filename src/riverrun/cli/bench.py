"""`riverrun bench`: measured against other ways to do the same, in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from riverrun.cli import say_json
from riverrun.config import Settings, load

if TYPE_CHECKING:
    from riverrun.bench.report import Report

Decorated = Callable[..., Any]


@click.group()
def command() -> None:
    """Measure riverrun against other ways to do the same, in one run on this machine.

    \b
    riverrun bench window
    riverrun bench window --small --json
    riverrun bench window --note docs/benchmarks
    riverrun bench windows
    riverrun bench windows --soak 600
    riverrun bench delivery
    riverrun bench cluster
    riverrun bench joins
    riverrun bench capture
    riverrun bench patterns
    riverrun bench serve
    riverrun bench commands
    riverrun bench search
    riverrun bench speed --peers pyflink,kstreams,quix,bytewax,pathway,spark
    riverrun bench restart
    riverrun bench profile
    riverrun bench batch
    riverrun bench start
    riverrun bench versions ../before/src
    riverrun bench report docs/benchmarks
    """


def measured(function: Decorated) -> Decorated:
    """What all benchmarks are asked."""
    for option in (
        click.option("--note", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
                     help="Keep the result there, and make the page FOLDER.md anew."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--small", is_flag=True, help="A tenth of the size, to see that it works."),
        click.option("--brokers", help="Kafka's address; the embedded broker if not given."),
    ):  # fmt: skip
        function = option(function)
    return function


@command.command()
@measured
def window(**asked: Any) -> None:
    """Windowed counts: events per second, nearly empty batches, and the cost of much state.

    2 million events, 100,000 and 1,000 keys, 10-second windows, results to Kafka, against plain
    PySpark (Kafka source, from_json, built-in aggregate, Kafka sink). Takes about 10 minutes.
    """
    _measure("window", **asked)


@command.command()
@measured
@click.option("--soak", "seconds", type=click.IntRange(min=60), metavar="SECONDS",
              help="Instead: memory over so many seconds of steady input.")  # fmt: skip
def windows(seconds: int | None, **asked: Any) -> None:
    """Hopping, session and sliding windows: events per second, same results, state that goes.

    2 million events, results to Kafka, against plain PySpark: its own hopping (10 seconds every
    second) and session windows (gap of 10 seconds) with 10,000 keys, and for sliding windows
    (60 seconds, 1,000 keys), which it has not, transformWithState with a list per key
    (per_key_state). The results of both are read back and must be the same. Takes about 20 minutes.

    With --soak: 5,000 events a second of users who come and go, hopping and session windows in one
    program; memory of all its processes every 5 seconds, in full with --json.

    \b
    riverrun bench windows --small
    riverrun bench windows --soak 600 --json
    """
    if not seconds:
        _measure("windows", **asked)
        return
    if asked["small"]:
        raise click.UsageError("--small and --soak are two different benchmarks")
    from riverrun.bench.soak import soak  # noqa: PLC0415 - Spark only when it is needed

    settings = load().override(brokers=asked["brokers"])
    with _servers(settings):
        report = soak(settings, seconds)
    _tell("windows --soak", report, as_json=asked["as_json"], note=asked["note"])


@command.command()
@measured
def delivery(**asked: Any) -> None:
    """What exactly once costs: to Kafka, next to at least once and to Spark's own Kafka sink; and
    upserts into PostgreSQL, next to psycopg's executemany.

    2 million events, as a stream (passed) and as a table of 10-second windows with 100,000 keys
    (tumbling); 200,000 upserts, half of them of rows that are there. Takes about 10 minutes.

    \b
    riverrun bench delivery --small
    """
    _measure("delivery", **asked)


@command.command()
@measured
def cluster(**asked: Any) -> None:
    """The window benchmark in local mode and on a standalone cluster of two workers.

    2 million events, 100,000 keys; CPU of all of Spark's processes per event, and both results,
    which must be the same. Takes about 4 minutes.
    """
    _measure("cluster", **asked)


@command.command()
@measured
def joins(**asked: Any) -> None:
    """Joins: of two streams next to Spark's own, with a table that is small or large, with a hot
    key, and the home timeline of many followers.

    1 million searches and as many clicks; 2 million views with 100,000 and 5 million users of whom
    1 % change per batch; the same where half of all views are of one user (hot), and where they are
    not (even); tweets of one author with 100 followers, of 100 such (many), and of one with 100,000
    (star). Takes about 15 minutes.
    """
    _measure("joins", **asked)


@command.command()
@measured
def capture(**asked: Any) -> None:
    """Change capture: from a commit in PostgreSQL to a view, the first snapshot, a backlog.

    A snapshot of 1 million rows; then 1,000 changes a second for a minute, each timed from its
    commit until a reader of an SQLite file sees it. A million of Debezium's envelopes applied to a
    table, next to plain JSON records of the same size. Takes about 6 minutes.
    """
    _measure("capture", **asked)


@command.command()
@measured
def serve(**asked: Any) -> None:
    """Views over HTTP: look-ups by key while a job writes, how soon an event is visible, followers.

    500 look-ups a second for a minute, each timed from the moment that it was due, while the job
    writes 5,000 rows a second into the same view; 1,000 open streams, each of which gets every
    change; at 10,000 events a second, the time from producing one until a reader with its token
    has the row. Takes about 7 minutes.

    \b
    riverrun bench serve --small
    """
    _measure("serve", **asked)


@command.command()
@measured
def commands(**asked: Any) -> None:
    """Commands to aggregates, decided by a function in Python, with events and replies.

    A backlog of a million over 100,000 aggregates: commands a second. 10,000 a second as they come,
    for a minute: how far decisions are behind. 1,000 a second: from sending a command to having its
    reply. Takes about 5 minutes.

    \b
    riverrun bench commands --small
    """
    _measure("commands", **asked)


@command.command()
@measured
def patterns(**asked: Any) -> None:
    """Event patterns: three short views or more and then a very long one, within 10 minutes.

    2 million events, 100,000 keys, matches to Kafka, next to the windowed count of `bench window`
    on the same events (tumbling); with a condition on the average of the rows so far; against
    transformWithState with a state machine per key (per_key_pattern), which must give the same;
    what a pattern that never completes keeps; and, in the kernel alone, 1,000 live rules next to
    one (ten templates with 100 values each). Takes about 10 minutes.

    \b
    riverrun bench patterns --small
    """
    _measure("patterns", **asked)


@command.command()
@measured
def search(**asked: Any) -> None:
    """Stored-query search: documents of 200 words against 100,000 queries, about 50 hits each.

    The kernel alone: documents a second of one core's CPU, ten times the queries at equal hits,
    1,000 queries added and removed. From Kafka to Kafka, with the queries in a topic. And the naive
    way: tantivy, an index in memory of a batch of documents, asked every query. Takes about 6
    minutes.

    \b
    riverrun bench search --small
    """
    _measure("search", **asked)


@command.command()
@measured
@click.option("--peers", default="", metavar="NAMES",
              help="Others, too: spark, pyflink, kstreams, quix, bytewax, pathway.")  # fmt: skip
@click.option("--work", "kinds", multiple=True, type=click.Choice(["filter", "count", "join"]),
              help="Only this; may be given again.")  # fmt: skip
@click.option("--latency", is_flag=True, help="Instead: how long an event takes, by rate.")
def speed(peers: str, kinds: tuple[str, ...], latency: bool, **asked: Any) -> None:
    """A filter, a windowed count, a join with a table: of riverrun alone, or next to other systems.

    2 million events in a topic of 4 partitions, keyed by user, results to Kafka. Each of --peers
    runs in an environment of its own, which is downloaded the first time (up to 1.5 GB, into the
    folder `peers` of riverrun's cache), with checkpoints, recovery or transactions as it has them.
    Results are compared with what Polars computes of all events at once. Events a second and CPU
    are counted from a program's first rows to its last ones; memory is the most that all its
    processes had. Takes about 2 minutes, and 3 to 15 more for each system.

    With --latency: from the moment that an event is sent until a reader of committed records has
    its result; a filter, and 10-second windows of 1,000 keys that tell every change; 1,000, 10,000
    and 50,000 events a second. Sender and reader have the same cores. Takes about 8 minutes.

    \b
    riverrun bench speed --latency
    riverrun bench speed --small --peers bytewax
    riverrun bench speed --peers pyflink,kstreams,quix,bytewax,pathway,spark
    """
    if not latency:
        _measure("speed", peers, kinds, **asked)
    elif peers or kinds:
        raise click.UsageError("--latency is of riverrun alone: without --peers and --work")
    else:
        _measure("latency", **asked)


@command.command()
@measured
def restart(**asked: Any) -> None:
    """A restart with 1 GB of state, to the first result; how fast history is replayed; and the time
    of a promotion.

    A table of a million documents of 1,000 characters is loaded and the program ends. Started anew,
    it is asked for 1,000 of them: the time from the start of its process until the answers can be
    read, next to the same with 1,000 documents. `replay` of 2 million events: windowed counts of
    100,000 keys. Two versions at 1,000 events a second become the public one in turns: what a
    switch takes, and the silence that readers hear. Takes about 10 minutes.

    \b
    riverrun bench restart --small
    """
    _measure("restart", **asked)


@command.command()
@measured
def profile(**asked: Any) -> None:
    """Where each microsecond of an event goes from topic to topic, next to the least there can be.

    2 million events: a filter, the windowed count of 100,000 keys, the join of two streams. Each
    runs on Spark, then again in one process, where the classes that tasks use are timed; what Spark
    takes beside them is the rest. The floor is read by librdkafka, decoded by DuckDB and the same
    records produced. Takes about 5 minutes.

    \b
    riverrun bench profile --small
    """
    _measure("profile", **asked)


@command.command()
@measured
def batch(**asked: Any) -> None:
    """What a batch costs whatever is in it: the parts of a nearly empty one, in milliseconds.

    An event every 0.7 seconds to a program without state, one with a windowed count, and one that
    counts the counts, with two exchanges. Medians of what Spark tells of each batch; CPU is that of
    all processes from one batch to the next. Takes about 2 minutes.

    \b
    riverrun bench batch --small
    """
    _measure("batch", **asked)


@command.command()
@measured
def start(**asked: Any) -> None:
    """How long a small program takes to its first result, and what it holds in memory at rest.

    A filter and a windowed count of 1,000 events that are there, each started five times with
    `riverrun run --fresh`, the broker running: seconds from the start of the process until a reader
    of committed records could have the first row. After a minute without events, the memory of all
    its processes (what they share is counted once). Takes about 4 minutes.

    \b
    riverrun bench start --small
    """
    _measure("start", **asked)


@command.command()
@measured
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--pairs", default=7, show_default=True, help="How often both run, in turns.")
def versions(other: Path, pairs: int, **asked: Any) -> None:
    """CPU per event of this version and of OTHER, the folder src of another checkout.

    The windowed count of `bench window`, rows that only pass, and the streams of `bench joins`, in
    turns over the same records; the median of the ratios, and the interval that it lies in. Takes
    about 15 minutes.

    \b
    git worktree add ../before v0.1.0
    riverrun bench versions ../before/src
    """
    _measure("versions", other.absolute(), pairs, **asked)


@command.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def report(folder: Path) -> None:
    """Make the page FOLDER.md of the results that --note has kept in FOLDER."""
    from riverrun.bench.notes import write_page  # noqa: PLC0415 - help needs no psutil

    click.echo(f"wrote {write_page(folder)}")


def _measure(
    name: str, *more: Any, brokers: str | None, small: bool, as_json: bool, note: Path | None
) -> None:
    if small and note:
        raise click.UsageError("--small is to see that it works: its figures are not for --note")
    module = import_module(f"riverrun.bench.{name}")  # Spark only when it is needed
    sizes = module.Sizes().smaller if small else module.Sizes()
    settings = load().override(brokers=brokers)
    with _servers(settings):
        report = module.bench(settings, sizes, *more)
    _tell(name, report, as_json=as_json, note=note)


@contextmanager
def _servers(settings: Settings) -> Iterator[None]:
    """Servers that a benchmark starts are stopped after it; those that run are left alone."""
    from riverrun.embedded import connect, kafka, postgres  # noqa: PLC0415 - not for help

    every = (connect, kafka, postgres)
    before = [server for server in every if server.running(settings)]
    try:
        yield
    finally:
        for server in every:
            if server not in before:
                server.down(settings)


def _tell(name: str, report: Report, *, as_json: bool, note: Path | None) -> None:
    from riverrun.bench import notes  # noqa: PLC0415 - help needs no psutil

    if note:
        name = "speed --latency" if name == "latency" else name
        told = cleandoc(click.get_current_context().command.help or "").split("\n\n")
        about = [told[0], told[2 if "--" in name else 1]]
        notes.note(note, name, report, about="\n\n".join(about))
    say_json(report.as_json()) if as_json else report.show()
