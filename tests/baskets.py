"""Baskets that decide, for tests of event sourcing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

import riverrun as rr


@dataclass(frozen=True)
class Add:
    item: str
    price: Decimal = Decimal(1)


@dataclass(frozen=True)
class Order:
    pass


@dataclass(frozen=True)
class Added:
    item: str
    price: Decimal


@dataclass(frozen=True)
class Ordered:
    total: Decimal
    at: datetime
    number: str


@dataclass(frozen=True)
class Basket:
    items: list[str] = field(default_factory=list)
    total: Decimal = Decimal(0)
    ordered: bool = False

    def decide(self, command: Add | Order, context):
        if self.ordered:
            return rr.Rejected("it is ordered")
        if isinstance(command, Order):
            if not self.items:
                raise rr.Rejected("it is empty")
            return Ordered(self.total, context.now, context.new_id())
        if command.item == "poison":
            raise ZeroDivisionError("no such thing")
        return [Added(command.item, command.price)]

    def evolve(self, event: Added | Ordered) -> Basket:
        if isinstance(event, Ordered):
            return replace(self, ordered=True)
        return replace(self, items=[*self.items, event.item], total=self.total + event.price)


def baskets(rules: type = Basket, **options):
    app = rr.App("shop")
    found = app.aggregate("basket", rules, commands="commands", events="events", **options)
    return app, found


def command(name, to="b1", *, id=None, version=None, by=None, **fields):
    return {"id": id, "aggregate": to, "type": name, "data": fields, "version": version, "by": by}


def outcomes(lines):
    return [
        (each["value"]["outcome"], each["value"]["version"], each["value"]["reason"])
        for each in lines
        if each["output"] == "commands.replies"
    ]


def events(lines):
    return [each["value"] for each in lines if each["output"] == "events"]


def states(driver):
    rows = driver.ask("basket", "FROM basket ORDER BY aggregate").rows
    return {row["aggregate"]: (row["version"], json.loads(row["state"])) for row in rows}
