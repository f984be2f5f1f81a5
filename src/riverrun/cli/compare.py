"""`riverrun compare`: how the results of two versions differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from riverrun import exact
from riverrun.app import App
from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.cli.program_file import load_version
from riverrun.cli.progress import long_bar
from riverrun.config import Settings
from riverrun.errors import InputError
from riverrun.versions import CURRENT, Version

if TYPE_CHECKING:
    from riverrun.runtime.compare import Compared, Stood
    from riverrun.runtime.comparison import Difference

LONGEST = 100
"""Letters of a value."""


@click.command("compare")
@click.argument("app")
@click.argument("first")
@click.argument("second")
@click.argument("output", required=False)
@click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, metavar="N",
    help="Most differences, and most windows, to list.",
)  # fmt: skip
@click.option(
    "--at", "point", multiple=True, metavar="TIME|TOPIC/0=OFFSET",
    help="Compare what both make of the input up to there, not what stands.",
)  # fmt: skip
@options.brokers_option
@options.json_option
def command(
    app: str,
    first: str,
    second: str,
    output: str | None,
    *,
    limit: int,
    point: tuple[str, ...],
    brokers: str | None,
    as_json: bool,
) -> None:
    """Show how results of the version SECOND of APP differ from those of FIRST, as they stand now,
    or at a point of the input.

    `current` is what `riverrun run` runs. All outputs that both have and that can be read back are
    compared, or the one that is named. Both may be running: the positions in the input that each
    has come to are told. With --at, the programs of both are run here over the same records, from
    the beginning of all topics up to a time, as Kafka has it, or up to offsets. Exit code 1 if
    anything differs.

    \b
    riverrun compare shop current v2
    riverrun compare shop current v2 per_user --limit 100
    riverrun compare shop v2 v3 --json
    riverrun compare shop current v2 --at 2026-03-31T12:00:00Z
    riverrun compare shop current v2 per_user --at clicks/0=1200 --at clicks/1=800
    """
    wanted = Wanted(app, (first, second), output, options.settings(brokers), limit)
    found = _at(wanted, point) if point else _now(wanted)
    if as_json:
        say_json(found.as_dict())
    else:
        _show(found)
    if not all(each.same for each in found.compared):
        raise SystemExit(1)


@dataclass(frozen=True)
class Wanted:
    """What is to be compared."""

    app: str
    versions: tuple[str, str]
    output: str | None
    """None: all that both have."""
    settings: Settings
    limit: int


@dataclass(frozen=True)
class Found:
    compared: list[Compared]
    left_out: dict[str, str]
    """Outputs that cannot be compared, and why."""
    in_doubt: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "compared": [each.as_dict() for each in self.compared]}


def _now(wanted: Wanted) -> Found:
    # Spark only when it is needed
    from riverrun.runtime.compare import compare, shared, side  # noqa: PLC0415

    settings, programs = wanted.settings, _programs(wanted)
    one, other = (side(programs[each], each, settings) for each in wanted.versions)
    how = partial(compare, first=one, second=other, settings=settings, limit=wanted.limit)
    return _each(shared(one, other, wanted.output), how, anyway=wanted.output is None)


def _at(wanted: Wanted, point: tuple[str, ...]) -> Found:
    # as above
    from riverrun.runtime.compare import shared  # noqa: PLC0415
    from riverrun.runtime.compare_at import compare_at, point_of, side_at  # noqa: PLC0415
    from riverrun.runtime.spans import Asked  # noqa: PLC0415

    asked = Asked.up_to(point, "--at")
    programs = _programs(wanted)
    if CURRENT in wanted.versions:
        programs[CURRENT] = load_version(Version(wanted.app, CURRENT), wanted.settings)
    at = point_of([programs[each] for each in wanted.versions], wanted.settings, asked)
    one, other = (side_at(programs[each], each) for each in wanted.versions)
    how = partial(compare_at, first=one, second=other, point=at, limit=wanted.limit)
    with long_bar() as progress:
        names = shared(one, other, wanted.output)
        found = _each(names, partial(how, progress=progress), anyway=wanted.output is None)
    return replace(found, in_doubt=at.gaps)


def _each(names: list[str], compare: Callable[[str], Compared], *, anyway: bool) -> Found:
    """`anyway`: whether others are compared if one cannot be."""
    found, left = [], {}
    for name in names:
        try:
            found.append(compare(name))
        except InputError as error:
            if not anyway:
                raise
            left[name] = error.fact
    return Found(found, left)


def _programs(wanted: Wanted) -> dict[str, App]:
    """The programs as they were deployed. What the current one writes is told by the other one's:
    its own file may be another by now."""
    # Spark only when it is needed
    from riverrun.runtime.deployments import changed_since, require  # noqa: PLC0415

    app, versions = wanted.app, wanted.versions
    named = [each for each in versions if each != CURRENT]
    if len(set(versions)) < 2:
        raise InputError("a version is compared with another one", got=" and ".join(versions))
    found = {}
    for each in named:
        entry = require(wanted.settings, Version.named(app, each))
        found[each] = load_version(Version(app, each), wanted.settings)
        if changed_since(entry):
            text = f"warning: {entry.file} is not what runs as {each}: outputs are looked for by it"
            click.secho(text, fg="yellow", err=True)
    return {CURRENT: found[named[0]], **found}


def _show(found: Found) -> None:
    for doubt in found.in_doubt:
        click.secho(f"in doubt: {doubt}", fg="yellow", err=True)
    for each in found.compared:
        for line in _lines(each):
            click.echo(line)
        if each.windows:
            columns = ("window", each.first.version, each.second.version)
            counts = ("missing", "extra", "other")
            rows = [
                (w.window, *(f"{n:,}" for n in (w.wanted, w.found, w.missing, w.extra, w.other)))
                for w in each.windows
            ]
            print_grid((*columns, *counts), rows, numbers={*columns[1:], *counts})
    for name, why in found.left_out.items():
        click.secho(f"{name}: not compared, {why}", dim=True, err=True)


def _lines(found: Compared) -> Iterator[str]:
    yield _summary(found)
    yield f"  {_standing(found.first)}"
    yield f"  {_standing(found.second)}"
    if not found.same_input:
        yield f"  not the same input: {_apart(found)}"
    for version, columns in (
        (found.first.version, found.columns.first_only),
        (found.second.version, found.columns.second_only),
    ):
        if columns:
            yield f"  only in {version}: {', '.join(columns)}"
    if found.columns.other_types:
        yield f"  of another type: {', '.join(found.columns.other_types)}"
    for difference in found.differences:
        yield f"  {_difference(difference, found)}"
    told = found.missing + found.extra + found.other
    if told > len(found.differences):
        yield f"  … and {told - len(found.differences):,} more"


def _summary(found: Compared) -> str:
    if found.same:
        return f"{found.output}: the same {found.first.rows:,} rows"
    counts = (("missing", found.missing), ("extra", found.extra), ("other", found.other))
    words = ", ".join(f"{count:,} {word}" for word, count in counts if count)
    return f"{found.output}: {found.second.rows:,} rows instead of {found.first.rows:,}: {words}"


def _apart(found: Compared) -> str:
    if not found.ahead:
        return "they have read as much, of other partitions"
    word = "less" if found.ahead > 0 else "more"
    return f"{found.second.version} has read {abs(found.ahead):,} records {word}"


def _standing(stood: Stood) -> str:
    read = ", ".join(f"{name} up to {end:,}" for name, end in sorted(stood.read.items()))
    what = "its program" if stood.batch is None else f"batch {stood.batch:,}"
    return f"{stood.version}: {what}; {read or 'nothing read'}"


def _difference(found: Difference, of: Compared) -> str:
    words = [f"{found.kind:<7}", exact.dumps(found.key)]
    for name in found.columns:
        one, other = (_short(exact.dumps(row[name])) for row in (found.wanted, found.found))
        words.append(f"{name}: {one} in {of.first.version}, {other} in {of.second.version}")
    if not found.columns:
        words.append(_short(exact.dumps(found.found if found.wanted is None else found.wanted)))
    return "  ".join(words)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
