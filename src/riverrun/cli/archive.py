"""`riverrun archive`: keep records of topics beyond their retention, as Parquet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from riverrun.archive.copying import Archiver, Copied
from riverrun.archive.folder import TopicArchive
from riverrun.archive.listing import Listed, listed
from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.live import graceful
from riverrun.cli.progress import long_bar
from riverrun.embedded import kafka
from riverrun.kafka import admin

LOOK = 0.2
"""Seconds between looks at whether it is to end."""


@click.command("archive")
@click.argument("topics", nargs=-1, type=options.TopicName())
@click.option(
    "--to", "folder", type=options.Folder(),
    help="The folder; that of the settings if not given.",
)  # fmt: skip
@click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@options.timeout_option("5 minutes", "With --follow: how often files are written.", name="--every")
@click.option("--list", "only_list", is_flag=True, help="Say what is archived, and copy nothing.")
@options.brokers_option
@options.json_option
def command(topics: tuple[str, ...], *, folder: Path | None, **given: Any) -> None:
    """Copy what TOPICS hold and the archive does not have yet, as Parquet files.

    Committed records only, with keys, headers and times, by partition and offset. Ended before it
    is done, by whatever, the next one goes on. Ctrl-C ends it after the file that is being written.

    \b
    riverrun archive orders payments
    riverrun archive orders --follow
    riverrun archive --list
    """
    settings = options.settings(given["brokers"])
    root = (folder or settings.archive_root).absolute()
    if given["only_list"]:
        _show_list(list(listed(root, topics)), as_json=given["as_json"])
        return
    if not topics:
        raise click.UsageError("which topics? --list shows those that are archived")
    pause = given["every"].total_seconds() if given["follow"] else None
    client, names = kafka.client(settings), list(dict.fromkeys(topics))
    admin.connect(client)  # brokers may be away later, and are waited for then
    archiver = Archiver(client, root)
    with graceful() as stopping, ExitStack() as locks:
        archiver.topics.facts(names)  # one that is not there gets no folder
        for topic in names:
            locks.enter_context(TopicArchive(root, topic).held())
        stopping.lets_finish(archiver.stop)
        _copy(archiver, names, pause, as_json=given["as_json"])


def _copy(archiver: Archiver, topics: Sequence[str], pause: float | None, *, as_json: bool) -> None:
    first = True
    while True:
        with long_bar() as progress:
            found = archiver.copy(topics, progress)
        for each in found:
            for start, end in each.gaps:
                text = f"gap: {each.partition}: offsets {start} to {end - 1} were deleted before"
                click.secho(f"{text} they were archived", fg="red", bold=True, err=True)
        if first or any(each.end > each.start for each in found):
            _show(found, archiver.root, as_json=as_json)
        if pause is None or not _waited(archiver, pause):
            return
        first = False


def _waited(archiver: Archiver, seconds: float) -> bool:
    """False if it is to end."""
    until = time.monotonic() + seconds
    while not archiver.stopped and time.monotonic() < until:
        time.sleep(min(LOOK, seconds))
    return not archiver.stopped


def _show(found: list[Copied], root: Path, *, as_json: bool) -> None:
    if as_json:
        rows = [
            {**asdict(each), "partition": str(each.partition),
             "gaps": [[start, end - 1] for start, end in each.gaps]}
            for each in found
        ]  # fmt: skip
        say_json({"folder": str(root), "partitions": rows})
        return
    records, files = sum(each.records for each in found), sum(each.files for each in found)
    size = sum(each.bytes for each in found)
    where = f"{files:,} file{'' if files == 1 else 's'}, {_size(size)}, in {root}"
    click.echo(f"archived {records:,} records: {where}" if files else "nothing new to archive")


def _show_list(found: list[Listed], *, as_json: bool) -> None:
    if as_json:
        say_json([{**asdict(each), "partition": str(each.partition)} for each in found])
        return
    columns = ("partition", "first", "last", "since", "until", "files", "size", "gaps")
    rows = [
        (
            str(each.partition), f"{each.first:,}", f"{each.last:,}",
            _time(each.since), _time(each.until), f"{each.files:,}", _size(each.bytes),
            ", ".join(f"{first:,} to {last:,}" for first, last in each.gaps) or "none",
        )
        for each in found
    ]  # fmt: skip
    print_grid(columns, rows, numbers=("first", "last", "files", "size"))


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"
