"""Captured tables that have other columns than their checkpoint: what was kept of them stays.

Rows that are kept have null in a column that is new, also where their records had it already: so
the capture reads the table once more, and each row comes again with all its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from riverrun.compiler.shape import Shape
from riverrun.schema import parse

FORGOTTEN = "forgotten columns"
"""In a checkpoint: columns that captured tables had once. Rows in state may still hold them."""

Columns = Mapping[str, str]


class Other(NamedTuple):
    """How the columns of a table have changed."""

    topic: str
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    retyped: bool

    @property
    def text(self) -> str:
        new = [f"new: {', '.join(self.added)}; its table is read once more"] if self.added else []
        old = [f"no longer: {', '.join(self.dropped)}"] if self.dropped else []
        return "; ".join(["columns of its table", *new, *old])


def others(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Other]:
    """The tables of a step that have other columns."""
    for topic, before in _tables(name, was).items():
        columns = _tables(name, now).get(topic)
        if columns is not None and columns != before:
            yield _other(topic, _types(before), _types(columns))


def fit(name: str, before: Shape, now: Shape) -> list[Other] | None:
    """How the tables of a step have changed, if that is all, and its state stays; else None."""
    was, new = before["steps"][name], now["steps"][name]
    different = {part for part in new if was.get(part, new[part]) != new[part]}
    if different not in ({"columns"}, {"tables"}) or was["does"] not in _KINDS:
        return None
    if set(_tables(name, was)) != set(_tables(name, new)):
        return None
    found = list(others(name, was, new))
    return found if all(_stays(each, before, now) for each in found) else None


def _stays(other: Other, before: Shape, now: Shape) -> bool:
    captured = now["sources"].get(other.topic, {}).get("filled_by")
    there_before = before.get(FORGOTTEN, {}).get(other.topic, [])
    again = set(other.added) & set(there_before)
    return captured is not None and not other.retyped and not again


def as_run(before: Shape | None, now: Shape) -> dict[str, str]:
    """The columns of the checkpoint, by topic, of tables that have others by now."""
    return {
        each.topic: dict(_tables(name, was))[each.topic]
        for name, was in (before or {"steps": {}})["steps"].items()
        if name in now["steps"] and was["does"] in _KINDS
        for each in others(name, was, now["steps"][name])
    }


def to_read_again(before: Shape | None, now: Shape) -> set[str]:
    """Topics of captured tables with columns that are new."""
    return {each.topic for each in _all(before, now) if each.added}


def remembering(before: Shape | None, now: Shape) -> Shape:
    """What is kept of the program, with the columns that are gone."""
    gone = {topic: set(names) for topic, names in ((before or {}).get(FORGOTTEN) or {}).items()}
    for each in _all(before, now):
        gone.setdefault(each.topic, set()).update(each.dropped)
    return {**now, FORGOTTEN: {topic: sorted(names) for topic, names in gone.items() if names}}


def _all(before: Shape | None, now: Shape) -> Iterator[Other]:
    for name, was in (before or {"steps": {}})["steps"].items():
        if name in now["steps"] and was["does"] in _KINDS:
            yield from others(name, was, now["steps"][name])


_KINDS = ("captured", "whole transactions")


def _tables(name: str, step: Mapping[str, Any]) -> Columns:
    """Columns by topic."""
    if step["does"] == "captured":
        return {name.removesuffix(".versions"): step["columns"]}
    return dict(step["tables"])


def _types(columns: str) -> Columns:
    return {column.name: column.type for column in parse(columns).columns}


def _other(topic: str, before: Columns, now: Columns) -> Other:
    return Other(
        topic,
        tuple(name for name in now if name not in before),
        tuple(name for name in before if name not in now),
        any(before[name] != now[name] for name in before if name in now),
    )
