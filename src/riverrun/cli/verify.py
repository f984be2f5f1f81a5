"""`riverrun verify`: whether an output is what the log says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from riverrun import exact
from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.program_file import load_as_run
from riverrun.cli.progress import long_bar

if TYPE_CHECKING:
    from riverrun.runtime.comparison import Difference
    from riverrun.runtime.verify import Verdict

COLUMNS = ("from key", "to key", "log", "there", "checksum", "")
LONGEST = 30
"""Letters of a key in the table of ranges."""
LONGEST_VALUE = 100
"""Letters of a value that is another."""


@click.command("verify")
@click.argument("program", type=click.Path(path_type=Path))
@click.argument("sink")
@click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, metavar="N",
    help="Most differences to list.",
)  # fmt: skip
@click.option("--ranges", is_flag=True, help="Show counts and checksums by range of keys.")
@click.option("--anyway", is_flag=True, help="Compare also where the log does not tell everything.")
@options.brokers_option
@options.json_option
def command(program: Path, sink: str, limit: int, brokers: str | None, **how: bool) -> None:
    """Compare SINK, an output of PROGRAM, with what the log says it should hold.

    The output is made again from the topics, in this process, up to the last batch; what stands at
    the sink is read as of the same batch, while the job goes on. Exit code 1 if they differ.

    \b
    riverrun verify app.py postgres:minutes
    riverrun verify app.py minutes --limit 100
    riverrun verify app.py delta:lake/pages --json
    """
    from riverrun.runtime.target import target  # noqa: PLC0415 - Spark only when it is needed
    from riverrun.runtime.verify import verify  # noqa: PLC0415

    settings = options.settings(brokers)
    chosen = target(load_as_run(program, settings), settings, sink)
    with long_bar() as progress:
        found = verify(chosen, limit=limit, anyway=how["anyway"], progress=progress)
    if how["as_json"]:
        say_json(found.as_dict())
    else:
        _show(found, ranges=how["ranges"])
    if not found.same:
        raise SystemExit(1)


def _show(found: Verdict, *, ranges: bool) -> None:
    for doubt in found.doubts:
        click.secho(f"in doubt: {doubt}", fg="yellow", err=True)
    if ranges:
        rows = [
            (_short(each.first), _short(each.last), f"{each.wanted:,}", f"{each.found:,}",
             each.found_checksum, "" if each.same else "differs")
            for each in found.ranges
        ]  # fmt: skip
        print_grid(COLUMNS, rows, numbers=("log", "there"))
    for difference in found.differences:
        click.echo(_line(difference))
    told = found.missing + found.extra + found.other
    if told > len(found.differences):
        click.echo(f"… and {told - len(found.differences):,} more")
    click.echo(_summary(found))


def _summary(found: Verdict) -> str:
    read = f"batch {found.batch:,}, {found.records:,} records of the log"
    if found.same:
        return f"{found.output}: {found.found:,} rows, as the log has them ({read})"
    counts = ", ".join(
        f"{count:,} {word}"
        for word, count in (
            ("missing", found.missing), ("extra", found.extra), ("other", found.other)
        )
        if count
    )  # fmt: skip
    return f"{found.output}: {found.found:,} rows, by the log {found.wanted:,}: {counts} ({read})"


def _line(difference: Difference) -> str:
    return "  ".join([f"{difference.kind:<7}", exact.dumps(difference.key), *_rows(difference)])


def _rows(difference: Difference) -> Iterator[str]:
    if difference.columns:
        for name in difference.columns:
            log, there = (
                _short(exact.dumps(row[name]), LONGEST_VALUE)
                for row in (difference.wanted, difference.found)
            )
            yield f"{name}: {log} in the log, {there} there"
        return
    if difference.wanted is not None:
        yield f"log: {exact.dumps(difference.wanted)}"
    if difference.found is not None:
        yield f"there: {exact.dumps(difference.found)}"


def _short(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
