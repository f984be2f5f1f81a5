"""The terminal as a sink: rows travel to the driver with the tasks' messages, and are shown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from riverrun.arguments import checked
from riverrun.outputs import Delivery, Guarantee, Places, Sink
from riverrun.schema import Schema
from riverrun.versions import Version


@dataclass(frozen=True)
class Screen(Sink):
    """The terminal."""

    name: str = "screen"
    text = "screen"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "shown"

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        """Whatever there is can be shown."""

    def destination(self, places: Places) -> None:
        return None

    def named_after(self, origin: str) -> Screen:
        return replace(self, name=f"screen:{origin}") if self.name == "screen" else self

    def beside(self, version: Version) -> Screen:
        """Each run has its own."""
        return self


@checked
def screen(name: str | None = None) -> Screen:
    """The terminal of `riverrun run`. A name tells two screens of one stream apart."""
    return Screen(f"screen:{name}" if name else "screen")
