"""A picture of how fast systems are: a bar for each, in groups by the work that they do."""

from __future__ import annotations

from html import escape
from typing import Any

WIDTH, LEFT, RIGHT = 760, 130, 110
BAR, GAP, HEAD = 18, 6, 34
OURS, OTHERS = "#0b7285", "#adb5bd"


def bars(figures: dict[str, Any], measure: str) -> str:
    """SVG of all figures called `WORK, SYSTEM: MEASURE`; each group has a scale of its own."""
    groups: dict[str, dict[str, float]] = {}
    for name, value in figures.items():
        run, _, measured = name.rpartition(": ")
        if measured == measure:
            work, _, system = run.rpartition(", ")
            groups.setdefault(work, {})[system] = value
    parts, top = [], 0
    for work, systems in groups.items():
        parts.append(_text(0, top + 20, f"{work}, {measure}", weight="bold"))
        top += HEAD
        for system, value in sorted(systems.items(), key=lambda each: -each[1]):
            parts += _bar(top, system, value, max(systems.values()))
            top += BAR + GAP
        top += GAP
    size = f'width="{WIDTH}" height="{top}"'
    font = 'font-family="sans-serif" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>'
    return "\n".join([head, f'<rect {size} fill="white"/>', *parts, "</svg>\n"])


def _bar(top: int, system: str, value: float, longest: float) -> list[str]:
    width = max(1, round((WIDTH - LEFT - RIGHT) * value / longest))
    colour = OURS if system == "riverrun" else OTHERS
    return [
        _text(LEFT - 8, top + 14, system, anchor="end"),
        f'<rect x="{LEFT}" y="{top}" width="{width}" height="{BAR}" fill="{colour}"/>',
        _text(LEFT + width + 8, top + 14, f"{value:,.0f}"),
    ]


def _text(x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'
