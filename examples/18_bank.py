"""A bank: accounts decide, money moves between two of them or not at all, and views follow.

Commands may be refused; what is accepted has happened, and stays. A transfer is a saga: it
withdraws from one account, deposits into the other, and gives the money back if that is refused.

$ riverrun describe examples/18_bank.py
bank (16 pages)
...
step account  # examples/18_bank.py:...
  from      account-commands
  made of   account-events
  keys      aggregate
  decides   Account: Open, Deposit, Withdraw, Close
  events    Opened, Deposited, Withdrawn, Closed
...

With `riverrun run examples/18_bank.py` in one terminal, in another:

    riverrun send account/ann Open owner=Ann
    riverrun send account/ann Deposit cents=500
    riverrun send account/ann Withdraw cents=900        rejected: only 500 cents are left
    riverrun history account/ann
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import riverrun as rr
from riverrun.processor import Context, Event, State


@dataclass(frozen=True)
class Open:
    owner: str


@dataclass(frozen=True)
class Deposit:
    cents: int


@dataclass(frozen=True)
class Withdraw:
    cents: int


@dataclass(frozen=True)
class Close:
    pass


@dataclass(frozen=True)
class Opened:
    owner: str


@dataclass(frozen=True)
class Deposited:
    cents: int


@dataclass(frozen=True)
class Withdrawn:
    cents: int


@dataclass(frozen=True)
class Closed:
    pass


@dataclass(frozen=True)
class Account:
    owner: str | None = None
    cents: int = 0

    def decide(
        self, command: Open | Deposit | Withdraw | Close
    ) -> Opened | Deposited | Withdrawn | Closed | rr.Rejected:
        if isinstance(command, Open):
            return rr.Rejected("it is open already") if self.owner else Opened(command.owner)
        if self.owner is None:
            return rr.Rejected("there is no such account")
        if isinstance(command, Close):
            return rr.Rejected(f"{self.cents} cents are left") if self.cents else Closed()
        if command.cents <= 0:
            return rr.Rejected("an amount is above zero")
        if isinstance(command, Deposit):
            return Deposited(command.cents)
        if command.cents > self.cents:
            return rr.Rejected(f"only {self.cents} cents are left")
        return Withdrawn(command.cents)

    def evolve(self, event: Opened | Deposited | Withdrawn | Closed) -> Account:
        match event:
            case Opened(owner):
                return replace(self, owner=owner)
            case Deposited(cents):
                return replace(self, cents=self.cents + cents)
            case Withdrawn(cents):
                return replace(self, cents=self.cents - cents)
            case Closed():
                return Account()


app = rr.App("bank")
accounts = app.aggregate(
    "account", Account, commands="account-commands", events="account-events", remember="1 day"
)


class Transfer(rr.Processor):
    """Ends as `done`, or with the money where it was; whatever is killed in between.

    Commands have ids that follow from the transfer: one that is sent twice takes effect once. If
    no reply has come after a minute, the command is sent again.
    """

    state = "source string, target string, cents bigint, doing string"
    outputs = {
        "commands": accounts.commands,
        "ended": "transfer string, source string, target string, cents bigint, outcome string",
    }

    def on_event(self, event: Event, state: State, context: Context) -> None:
        if event.step == "asked":
            if state.doing is None:
                state.source, state.target, state.cents = event.source, event.target, event.cents
                self.go_on("withdraw", state, context)
        elif event.step == state.doing:
            self.replied(event.outcome == "accepted", state, context)

    def replied(self, accepted: bool, state: State, context: Context) -> None:
        match state.doing, accepted:
            case "withdraw", True:
                self.go_on("deposit", state, context)
            case "deposit", False:
                self.go_on("give back", state, context)
            case doing, _:
                context.cancel("again")
                outcome = "done" if doing == "deposit" else "refused"
                transfer = context.key["transfer"]
                state.doing = outcome
                context.emit(
                    "ended", transfer=transfer, source=state.source, target=state.target,
                    cents=state.cents, outcome=outcome,
                )  # fmt: skip

    def go_on(self, doing: str, state: State, context: Context) -> None:
        state.doing = doing
        command = Withdraw(state.cents) if doing == "withdraw" else Deposit(state.cents)
        to = state.target if doing == "deposit" else state.source
        name = f"transfer/{context.key['transfer']}/{doing}"
        context.emit("commands", **accounts.command(command, to=to, id=name, by="transfers"))
        context.timer("again", context.now + timedelta(minutes=1), clock="processing")

    def on_timer(self, name: str, state: State, context: Context) -> None:
        self.go_on(state.doing, state, context)


asked = app.stream(
    "transfers",
    schema="transfer string, source string, target string, cents bigint",
    time=rr.processing_time(),
).with_columns(step="'asked'", outcome="NULL::VARCHAR")
replied = accounts.replies.where("command LIKE 'transfer/%'").select(
    transfer="split_part(command, '/', 2)",
    source="NULL::VARCHAR",
    target="NULL::VARCHAR",
    cents="NULL::BIGINT",
    step="split_part(command, '/', 3)",
    outcome="outcome",
)
transfers = asked.union(replied).process(Transfer, by="transfer", name="transfer")
accounts.receive(transfers["commands"])
transfers["ended"].to("transfers-ended")

moved = accounts.of(Deposited).union(accounts.of(Withdrawn).with_columns(cents="-cents"))
moved.group_by("aggregate", name="balances").agg(cents=rr.sum("cents")).to(
    rr.sinks.view("balances")
)
moved.where("cents > 0").group_by("by", name="paid-in").agg(
    payments=rr.count(), cents=rr.sum("cents")
).to(rr.sinks.view("paid_in"))
