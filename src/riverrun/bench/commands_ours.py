"""The program of `riverrun bench commands`, in a process of its own: accounts that decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import riverrun as rr
from riverrun.bench.own_process import run


@dataclass(frozen=True)
class Deposit:
    cents: int


@dataclass(frozen=True)
class Withdraw:
    cents: int


@dataclass(frozen=True)
class Deposited:
    cents: int


@dataclass(frozen=True)
class Withdrawn:
    cents: int


@dataclass(frozen=True)
class Account:
    cents: int = 0

    def decide(self, command: Deposit | Withdraw) -> Deposited | Withdrawn | rr.Rejected:
        if isinstance(command, Deposit):
            return Deposited(command.cents)
        if command.cents > self.cents:
            return rr.Rejected(f"only {self.cents} cents are left")
        return Withdrawn(command.cents)

    def evolve(self, event: Deposited | Withdrawn) -> Account:
        sign = 1 if isinstance(event, Deposited) else -1
        return Account(self.cents + sign * event.cents)


def program(plan: dict[str, Any]) -> rr.App:
    app = rr.App(f"bench-{plan['called']}")
    app.aggregate(
        "account", Account, commands=plan["input"], events=f"{plan['input']}.events",
        remember="1 minute",
    )  # fmt: skip
    return app


if __name__ == "__main__":
    run(program)
