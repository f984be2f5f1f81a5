"""`riverrun state`: what an application keeps, by step and page; the rows of a key."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from riverrun.cli import options, say_json
from riverrun.cli.grid import print_grid
from riverrun.config import Settings
from riverrun.durations import BEGINNING, END, time_text
from riverrun.errors import InputError

if TYPE_CHECKING:
    from riverrun.runtime.state import Kept, LargeKey, State

STEPS = ("step", "rows", "bytes", "pages", "fullest page", "skew")
KEYS = ("step", "key", "page", "rows", "bytes")
SHORT = 200
"""Characters of a value, for people; --json has all."""
NAMES = {"__slot": "slot", "__until": "until", "__changed": "changed", "__dead": "gone"}
"""Hidden columns as they are shown; the first three are times."""


@click.command("state")
@click.argument("name", metavar="APP[.STEP]")
@click.argument("key", nargs=-1)
@options.json_option
def command(name: str, key: tuple[str, ...], as_json: bool) -> None:
    """Show what APP keeps by step and page, and its ten largest keys; of a step the rows of a KEY.

    It is read from the checkpoint, as the last batch has left it: the application may run, or not.
    A key of several columns is given as several values.

    \b
    riverrun state shop
    riverrun state shop.per_user
    riverrun state shop.per_user ann
    """
    settings = options.settings()
    application, step = _named(settings, name)
    if key and step is None:
        raise InputError("a key is one of a step", got=name, hint=f"{name}.STEP KEY")
    from riverrun.runtime.state import check_asked, opened  # noqa: PLC0415 - slow to import

    check_asked(settings, application, step, key)
    state = opened(settings, application)
    if key and step is not None:
        _rows(state, step, key, as_json=as_json)
    else:
        _sizes(state.kept(), state.largest(step), step, as_json=as_json)


def _named(settings: Settings, name: str) -> tuple[str, str | None]:
    from riverrun.asking import step_called  # noqa: PLC0415
    from riverrun.compiler.upgrades import read  # noqa: PLC0415 - slow to import

    if "." not in name or read(settings.checkpoint_of(name)) is not None:
        return name, None
    return step_called(settings, name)


def _rows(state: State, step: str, key: tuple[str, ...], *, as_json: bool) -> None:
    # any other: a column by its own name
    found = [{NAMES.get(n, n): v for n, v in row.items() if n != "__hash"} for row in
             state.rows(step, key)]  # fmt: skip
    found = [_with_times(row) for row in found]
    if as_json:
        say_json({"step": step, "key": list(key), "rows": found})
        return
    for row in found:
        for column, value in row.items():
            click.echo(f"{column}: {_short(value)}")
        click.echo()
    click.echo(_told(len(found), step, " ".join(key)))


def _told(rows: int, step: str, key: str) -> str:
    if not rows:
        return f"{step} has no row of the key {key}"
    if rows == 1:
        return f"1 row of {step} {key}"
    return f"{rows} rows of {step} {key}, the newest first: it replaces those of the same list"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= SHORT else f"{text[:SHORT]}… ({len(text):,} characters)"


def _with_times(row: dict[str, Any]) -> dict[str, Any]:
    """A slot of 0 is none; what never ends has no end."""
    times = {name: row[name] for name in ("slot", "until", "changed") if name in row}
    told = {
        name: time_text(at) if at and BEGINNING < at < END else None for name, at in times.items()
    }
    return row | told


def _sizes(kept: Kept, largest: list[LargeKey], step: str | None, *, as_json: bool) -> None:
    steps = [name for name in kept.keys if step in (None, name)]
    if as_json:
        say_json({
            "application": kept.application, "batch": kept.batch, "pages": kept.pages,
            "partitions": kept.parts,
            "steps": [_step(kept, name) for name in steps],
            "largest": [asdict(each) for each in largest],
        })  # fmt: skip
        return
    print_grid(STEPS, (_step_row(kept, name) for name in steps), numbers=STEPS[1:])
    click.echo("\nlargest keys")
    rows = ((e.step, ", ".join(map(str, e.key.values())), str(e.page), f"{e.rows:,}",
             f"{e.bytes:,}") for e in largest)  # fmt: skip
    print_grid(KEYS, rows, numbers=KEYS[2:])
    click.echo(f"\n{kept.application}: after batch {kept.batch}, {kept.pages} pages in "
               f"{kept.parts} parts")  # fmt: skip


def _step(kept: Kept, step: str) -> dict[str, Any]:
    pages = kept.by_page(step)
    return {
        "step": step, **asdict(kept.of_step(step)), "skew": round(kept.skew(step), 2),
        "pages": [{"page": page, **asdict(size)} for page, size in sorted(pages.items())],
    }  # fmt: skip


def _step_row(kept: Kept, step: str) -> tuple[str, ...]:
    whole = kept.of_step(step)
    pages = {page: size.rows for page, size in kept.by_page(step).items() if size.rows}
    fullest = max(pages, key=pages.__getitem__, default=None)
    told = "" if fullest is None else f"{fullest}: {pages[fullest]:,}"
    return (step, f"{whole.rows:,}", f"{whole.bytes:,}", str(len(pages)), told,
            f"{kept.skew(step):.1f}")  # fmt: skip
