"""Aggregates against a model in plain Python: whatever is sent, cut, killed and started over."""

from __future__ import annotations

import json
import runpy
from collections import defaultdict
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import riverrun as rr
from riverrun.testing import Driver
from thorough import examples

BANK = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "18_bank.py"))
NAMES = ("ann", "bob", "cleo")
TYPES = {"Open": {"owner": "x"}, "Deposit": {"cents": 7}, "Withdraw": {"cents": 5}, "Close": {}}


def bank(pages: int) -> rr.App:
    app = rr.App("bank", pages=pages)
    app.aggregate("account", BANK["Account"], commands="commands", events="events")
    return app


class Bank(RuleBasedStateMachine):
    """The model decides each command when it is sent, once per id."""

    @initialize(pages=st.integers(1, 4))
    def start(self, pages):
        self.app = bank(pages)
        self.driver = Driver(self.app)
        self.accounts = {name: BANK["Account"]() for name in NAMES}
        self.versions = dict.fromkeys(NAMES, 0)
        self.sent: list[dict[str, object]] = []
        self.replies: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.decided: dict[str, tuple[str, int]] = {}

    @rule(name=st.sampled_from(NAMES), type=st.sampled_from(sorted(TYPES)))
    def send(self, name, type):
        self._send({"id": str(len(self.sent)), "aggregate": name, "type": type})

    @rule(name=st.sampled_from(NAMES), type=st.sampled_from(sorted(TYPES)), off=st.integers(-1, 1))
    def send_expecting(self, name, type, off):
        version = max(self.versions[name] + off, 0)
        self._send({"id": str(len(self.sent)), "aggregate": name, "type": type, "version": version})

    @rule(place=st.integers(0, 100))
    def send_again(self, place):
        if self.sent:
            self._send(self.sent[place % len(self.sent)])

    def _send(self, command):
        self.sent.append(command)
        self.driver.send("commands", {**command, "data": TYPES[command["type"]]})
        if command["id"] not in self.decided:
            self.decided[command["id"]] = self._decide(command)
        self.replies[command["id"]].append(self.decided[command["id"]])

    def _decide(self, command):
        name = command["aggregate"]
        if command.get("version", self.versions[name]) != self.versions[name]:
            return "rejected", self.versions[name]
        kind = BANK[command["type"]](**TYPES[command["type"]])
        event = self.accounts[name].decide(kind)
        if isinstance(event, rr.Rejected):
            return "rejected", self.versions[name]
        self.accounts[name] = self.accounts[name].evolve(event)
        self.versions[name] += 1
        return "accepted", self.versions[name]

    @rule()
    def batch(self):
        self.driver.batch()

    @rule()
    def crash(self):
        self.driver.crash()

    @rule()
    def restart(self):
        self.driver.restart()

    @rule()
    def states_anew(self):
        self.driver.control("rebuild state", "events")

    @rule()
    def other_rules(self):
        """The states of these rules are never read by others: all is made of events."""
        app = bank(self.app.pages)
        step = app.aggregates[0].node.does
        object.__setattr__(step.rules, "version", f"{step.rules.version}+")
        object.__setattr__(app.aggregates[0].node.inputs[1], "history", step.rules.version)
        later = Driver(app)
        for kept in ("topics", "checkpoint", "known", "history", "outputs", "tick"):
            setattr(later, kept, getattr(self.driver, kept))
        later.restart()
        self.app, self.driver = app, later

    @invariant()
    def nothing_is_lost_or_doubled(self):
        if not hasattr(self, "driver"):
            return
        versions = defaultdict(list)
        for line in self.driver.outputs["events"]:
            versions[line["value"]["aggregate"]].append(line["value"]["version"])
        assert all(found == list(range(1, len(found) + 1)) for found in versions.values())
        assert not self.driver.outputs["dead"]

    def teardown(self):
        if not hasattr(self, "driver"):
            return
        self.driver.batch()
        found = defaultdict(list)
        for line in self.driver.outputs["commands.replies"]:
            reply = line["value"]
            found[reply["command"]].append((reply["outcome"], reply["version"]))
        assert found == self.replies
        rows = self.driver.ask("account", "FROM account").rows
        states = {row["aggregate"]: (row["version"], json.loads(row["state"])) for row in rows}
        assert states == {
            name: (self.versions[name], {"owner": each.owner, "cents": each.cents})
            for name, each in self.accounts.items()
            if self.versions[name]
        }


Bank.TestCase.settings = settings(max_examples=examples(12), stateful_step_count=25, deadline=None)
TestBank = Bank.TestCase
