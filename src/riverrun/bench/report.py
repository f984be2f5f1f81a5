"""What a benchmark found, against its targets: as a table for people, as JSON for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass
class Target:
    name: str
    target: str
    measured: float
    holds: bool


@dataclass
class Report:
    targets: list[Target] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)
    """What was measured again and again, for programs only."""

    def at_least(self, name: str, bound: float, measured: float) -> None:
        self.targets.append(Target(name, f">= {bound}", round(measured, 2), measured >= bound))

    def at_most(self, name: str, bound: float, measured: float) -> None:
        self.targets.append(Target(name, f"<= {bound}", round(measured, 2), measured <= bound))

    def as_json(self) -> dict[str, Any]:
        targets = [asdict(target) for target in self.targets]
        sampled = {"samples": self.samples} if self.samples else {}
        return {"targets": targets, "figures": self.figures, **sampled}

    def show(self) -> None:
        console = Console()
        figures = Table(title="measured", title_justify="left")
        figures.add_column("what")
        figures.add_column("value", justify="right")
        for name, value in self.figures.items():
            shown = f"{value:,.2f}" if isinstance(value, float) else str(value)
            figures.add_row(name, f"{value:,}" if isinstance(value, int) else shown)
        console.print(figures)
        targets = Table(title="targets", title_justify="left")
        for column in ("target", "bound", "measured", "holds"):
            targets.add_column(column)
        for each in self.targets:
            targets.add_row(
                each.name, each.target, f"{each.measured:,.2f}", "yes" if each.holds else "NO",
                style="green" if each.holds else "red",
            )  # fmt: skip
        console.print(targets)
