"""Pictures of time, written by hand as SVG: a white card with dots, bars and lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

INK, GREY, PALE = "#1f2937", "#6b7280", "#e5e7eb"
BLUE, ORANGE, RED, GREEN, VIOLET = "#2563eb", "#d97706", "#dc2626", "#047857", "#7c3aed"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"

Point = tuple[float, float]


@dataclass
class Card:
    """A picture with a title. It is white, so that it can be read on dark pages too."""

    title: str
    width: int
    height: int
    marks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.text(20, 30, self.title, size=16, bold=True)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        colour: str = INK,
        size: int = 13,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.marks.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}"{weight}>{escape(words)}</text>'
        )

    def line(
        self, points: Sequence[Point], colour: str = GREY, *, width: float = 1, dash: str = ""
    ) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.marks.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}"{dashes}/>'
        )

    def arrow(self, start: Point, end: Point, colour: str = GREY) -> None:
        (x, y), (tip, _) = start, end
        back = 7 if tip > x else -7
        self.line([start, (tip - back / 2, y)], colour, width=1.5)
        points = f"{tip:.1f},{y:.1f} {tip - back:.1f},{y - 4:.1f} {tip - back:.1f},{y + 4:.1f}"
        self.marks.append(f'<polygon points="{points}" fill="{colour}"/>')

    def bar(
        self, left: float, right: float, y: float, *, height: float = 20, colour: str = BLUE
    ) -> None:
        self.marks.append(
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{height:.1f}" '
            f'rx="3" fill="{colour}" fill-opacity="0.18" stroke="{colour}"/>'
        )

    def dot(self, x: float, y: float, colour: str = BLUE, *, hollow: bool = False) -> None:
        fill = "#ffffff" if hollow else colour
        self.marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}" stroke="{colour}" '
            'stroke-width="1.5"/>'
        )

    def note(self, y: float, words: str) -> None:
        self.text(20, y, words, size=12, colour=GREY)

    def legend(self, y: float, *entries: tuple[str, str]) -> None:
        """Dots and what they mean; grey ones are hollow."""
        x = 20.0
        for colour, words in entries:
            self.dot(x + 5, y - 4, colour, hollow=colour == GREY)
            self.text(x + 16, y, words, size=12, colour=GREY)
            x += 36 + 6.4 * len(words)

    def svg(self) -> str:
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} '
                f'{self.height}" width="{self.width}" height="{self.height}" '
                f'font-family="{FONT}" role="img" aria-label="{escape(self.title)}">',
                f'<rect width="{self.width}" height="{self.height}" rx="8" fill="#ffffff" '
                f'stroke="{PALE}"/>',
                *self.marks,
                "</svg>\n",
            ]
        )


@dataclass(frozen=True)
class Scale:
    """Minutes to pixels."""

    first: float
    last: float
    start: float
    end: float

    def __call__(self, minute: float) -> float:
        share = (minute - self.first) / (self.last - self.first)
        return self.start + share * (self.end - self.start)

    def steps(self, step: int) -> list[int]:
        return list(range(int(self.first), int(self.last) + 1, step))
