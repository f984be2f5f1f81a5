"""States of aggregates are made of events: old ones too, by whatever rules, in every process."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pydantic
import pytest

import riverrun as rr
from baskets import Add, Added, Basket, Order, Ordered, baskets, command, events, outcomes, states
from riverrun.compiler.shape import shape
from riverrun.errors import CheckpointError, JobError, ProgramError
from riverrun.runtime.event_topics import require_finished
from riverrun.sources.planning import Offset
from riverrun.testing import Driver

EXAMPLE = Path(__file__).parents[1] / "examples" / "18_bank.py"


def test_states_are_made_of_events_alone_where_the_checkpoint_is_gone():
    app, _ = baskets()
    driver = Driver(app)
    for n in range(5):
        driver.send("commands", command("Add", f"b{n % 2}", id=str(n), item=f"i{n}"))
        driver.batch()
    anew = Driver(app)
    anew.topics = driver.topics
    out = anew.batch()
    assert states(anew) == states(driver)
    assert events(out) == []
    assert {each[0] for each in outcomes(out)} == {"accepted"}


def test_after_the_checkpoint_is_gone_old_commands_take_no_effect_and_new_ones_do():
    app, _ = baskets(remember="1 second")
    driver = Driver(app)
    for n in range(3):
        driver.send("commands", command("Add", id=str(n), item=f"i{n}"))
        driver.batch()
    anew = Driver(app)
    anew.topics, anew.tick = driver.topics, 3_600_000_000
    out = anew.batch()
    assert events(out) == []
    assert {each[0] for each in outcomes(out)} == {"rejected"}
    anew.send("commands", command("Order"))
    assert [each["version"] for each in events(anew.batch())] == [4]


def test_after_the_checkpoint_is_gone_what_was_refused_stays_refused():
    app, _ = baskets()
    driver = Driver(app)
    driver.send("commands", command("Order", id="early"), command("Add", id="a", item="tea"))
    driver.batch()
    anew = Driver(app)
    anew.topics = driver.topics
    anew.batch()
    anew.send("commands", command("Order", id="early"), command("Order", id="late"))
    assert [each[0] for each in outcomes(anew.batch())] == ["rejected", "accepted"]


def test_other_rules_make_all_states_anew_before_the_next_command():
    @dataclass(frozen=True)
    class Counting(Basket):
        def evolve(self, event: Added | Ordered) -> Counting:
            return replace(self, items=[*self.items, "seen"])

    driver = Driver(baskets()[0])
    driver.send("commands", command("Add", "b1", item="tea"), command("Add", "b2", item="nut"))
    driver.send("commands", command("Add", "b1", item="milk"))
    driver.batch()
    later = Driver(baskets(Counting)[0])
    for kept in ("topics", "checkpoint", "known", "history"):
        setattr(later, kept, getattr(driver, kept))
    later.restart()
    later.send("commands", command("Add", "b1", item="new", version=2))
    assert outcomes(later.batch()) == [("accepted", 3, None)]
    seen = {"total": "0", "ordered": False}
    assert states(later) == {
        "b1": (3, {"items": ["seen"] * 3, **seen}),
        "b2": (1, {"items": ["seen"], **seen}),
    }


def test_states_are_made_anew_when_the_control_log_asks_for_it():
    driver = Driver(baskets()[0])
    driver.send("commands", command("Add", item="tea"), command("Add", item="milk"))
    driver.batch()
    before = states(driver)
    driver.control("rebuild state", "events")
    driver.send("commands", command("Add", item="nut", version=2))
    assert outcomes(driver.batch()) == [("accepted", 3, None)]
    assert before["b1"][0] == 2
    assert states(driver)["b1"][1]["items"] == ["tea", "milk", "nut"]


@dataclass(frozen=True)
class Cents:
    item: str
    cents: int
    currency: str

    @staticmethod
    @rr.upcast(to=2)
    def in_cents(fields):
        return {"item": fields["item"], "cents": round(fields["price"] * 100)}

    @staticmethod
    @rr.upcast(to=3)
    def in_euros(fields):
        return {**fields, "currency": "EUR"}


@dataclass(frozen=True)
class Till:
    cents: int = 0

    def decide(self, command: Order):
        return Cents("sum", self.cents, "EUR")

    def evolve(self, event: Cents) -> Till:
        return Till(self.cents + event.cents)


def old_event(version, schema_version, **data):
    return {
        "aggregate": "t", "version": version, "type": "Cents", "schema_version": schema_version,
        "data": data, "at": "2025-01-01T00:00:00Z", "command": f"c{version}",
    }  # fmt: skip


def test_old_events_are_read_through_the_chain_of_upcasters():
    driver = Driver(baskets(Till)[0])
    driver.send("events", old_event(1, 1, item="a", price=1.5), old_event(2, 2, item="b", cents=25))
    driver.send("events", old_event(3, 3, item="c", cents=1, currency="USD"))
    driver.send("commands", command("Order", "t"))
    [event] = events(driver.batch())
    assert event["data"] == {"item": "sum", "cents": 176, "currency": "EUR"}
    assert (event["version"], event["schema_version"]) == (4, 3)


def test_streams_of_a_class_have_all_versions_of_it_as_the_current_one():
    app, tills = baskets(Till)
    tills.of(Cents).select("aggregate", "version", "item", "cents", "currency").to("out")
    driver = Driver(app)
    driver.send("events", old_event(1, 1, item="a", price=2))
    driver.send("commands", command("Order", "t"))
    driver.batch().of("out").assert_is("""
        aggregate | version | item | cents | currency
        t         | 2       | sum  | 200   | EUR
    """)


@pytest.mark.parametrize(
    ("event", "fact"),
    [
        ({**old_event(1, 1, item="a", price=1), "type": "Gone"}, "no code knows the event 'Gone'"),
        (old_event(2, 3, item="a", cents=1, currency="x"), "events are missing"),
        (old_event(1, 9, item="a", cents=1, currency="x"), "Cents is of version 9"),
    ],
)
def test_history_that_cannot_be_read_stops_the_job_with_its_name(event, fact):
    driver = Driver(baskets(Till)[0])
    driver.send("events", event)
    with pytest.raises((JobError, ValueError), match=fact):
        driver.batch()


def test_events_are_streams_of_the_program_with_their_fields_as_columns():
    app, shop = baskets()
    shop.of(Added).group_by("item", name="sold").agg(n=rr.count(), sum=rr.sum("price")).to("sold")
    shop.events.where("type = 'Ordered'").select("aggregate", total="data->>'total'").to("orders")
    driver = Driver(app)
    for basket in ("b1", "b2"):
        driver.send("commands", command("Add", basket, item="tea", price="1.25"))
        driver.send("commands", command("Order", basket))
    driver.batch()
    assert driver.table("sold") == [{"item": "tea", "n": 2, "sum": Decimal("2.500000000")}]
    assert [each["value"]["total"] for each in driver.outputs["orders"]] == ["1.25", "1.25"]


NOT_RULES = [
    (5, "an aggregate is a class"),
    (Add, "Add has no decide"),
    (type("Loose", (), {"decide": Basket.decide, "evolve": Basket.evolve}), "changed in place"),
]


@pytest.mark.parametrize(("given", "fact"), NOT_RULES)
def test_what_is_no_aggregate_is_an_error_of_the_program(given, fact):
    with pytest.raises(ProgramError, match=fact):
        baskets(given)


def test_classes_that_decide_and_evolve_take_have_to_be_named():
    @dataclass(frozen=True)
    class Untold:
        def decide(self, command): ...
        def evolve(self, event: Added) -> Untold: ...

    @dataclass(frozen=True)
    class Odd:
        def decide(self, command: Add): ...
        def evolve(self, event: int) -> Odd: ...

    @dataclass(frozen=True)
    class Needy:
        name: str

        def decide(self, command: Add): ...
        def evolve(self, event: Added) -> Needy: ...

    for given, fact in (
        (Untold, "Untold.decide does not say which classes it takes"),
        (Odd, "int is no dataclass"),
        (Needy, "Needy cannot be made without arguments"),
    ):
        with pytest.raises(ProgramError, match=fact):
            baskets(given)


def test_a_version_is_for_code_that_evolve_calls():
    versions = [baskets(version=n)[1].rules.version for n in (1, 1, 2)]
    assert versions[0] == versions[1] != versions[2]


def bank():
    return Driver(runpy.run_path(str(EXAMPLE))["app"])


def test_a_transfer_ends_with_the_money_in_one_of_two_accounts():
    driver = bank()
    for name, cents in (("ann", 100), ("bob", 1)):
        driver.send("account-commands", command("Open", name, owner=name))
        driver.send("account-commands", command("Deposit", name, cents=cents, by="cash"))
    moves = [("t1", "ann", "bob", 70), ("t2", "ann", "bob", 70), ("t3", "bob", "nobody", 50)]
    for transfer, source, target, cents in moves:
        asked = {"transfer": transfer, "source": source, "target": target, "cents": cents}
        driver.send("transfers", asked, asked)
    for _ in range(8):
        driver.crash()
        driver.pass_time("1 second")
    ended = {each["value"]["transfer"]: each["value"] for each in driver.outputs["transfers-ended"]}
    assert {name: each["outcome"] for name, each in ended.items()} == {
        "t1": "done", "t2": "refused", "t3": "refused",
    }  # fmt: skip
    assert driver.table("view:balances") == [
        {"aggregate": "ann", "cents": 30},
        {"aggregate": "bob", "cents": 71},
    ]


def test_a_command_of_a_saga_is_sent_again_until_there_is_a_reply():
    driver = bank()
    driver.control("pause", "account-commands")
    driver.send("transfers", {"transfer": "t", "source": "a", "target": "b", "cents": 1})
    driver.batch()
    driver.pass_time("61 seconds")
    driver.pass_time("61 seconds")
    driver.control("resume", "account-commands")
    for _ in range(3):
        driver.pass_time("1 second")
    sent = [each["value"]["id"] for each in driver.outputs["account-commands"]]
    assert sent == ["transfer/t/withdraw"] * 3
    [ended] = driver.outputs["transfers-ended"]
    assert ended["value"]["outcome"] == "refused"


SAME = """
import sys
from dataclasses import dataclass, field
from typing import Any
import riverrun as rr

@dataclass(frozen=True)
class Part:
    name: str = "x"

@dataclass(frozen=True)
class Put:
    tags: frozenset[str]
    part: Part

@dataclass(frozen=True)
class Heap:
    tags: frozenset[str] = frozenset({"a", "b", "c", "d"})
    parts: list[Part] = field(default_factory=lambda: [Part()])

    def decide(self, command: Put): return command
    def evolve(self, event: Put) -> "Heap":
        return Heap(self.tags | event.tags)  # all that were ever put

app = rr.App("same")
heaps = app.aggregate("heap", Heap, commands="c", events="e")
if __name__ == "__main__":
    print(heaps.rules.version, heaps.command(Put(frozenset("abcdef"), Part()), to="x", id="1"))
"""


def test_rules_have_one_version_and_events_one_text_in_every_process(tmp_path):
    file = tmp_path / "same.py"
    file.write_text(SAME)
    told = {
        subprocess.run(
            [sys.executable, str(file)], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(told) == 1
    file.write_text(SAME.replace("  # all that were ever put", ""))
    version = runpy.run_path(str(file))["heaps"].rules.version
    assert told.pop().startswith(f"{version} ")
    file.write_text(SAME.replace('name: str = "x"', 'name: str = "y"'))
    assert runpy.run_path(str(file))["heaps"].rules.version != version


def test_a_batch_that_is_not_finished_keeps_its_rules(tmp_path):
    program = baskets()[0].program()
    kept = shape(program)
    for name in ("offsets", "commits"):
        (tmp_path / "query" / name).mkdir(parents=True)

    def log(number: int, rules: str) -> None:
        logged = Offset({}, histories={"events": rules}).logged()
        (tmp_path / "query" / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(logged)}")

    log(0, "1-other")
    require_finished(tmp_path, None, program)
    require_finished(tmp_path, kept, program)
    kept["settings"]["basket"]["version of rules"] = "1-other"
    require_finished(tmp_path, kept, program)  # states are made in it, by any rules
    (tmp_path / "query" / "commits" / "0").touch()
    log(1, "1-other")
    with pytest.raises(CheckpointError, match="the last batch was begun with other rules"):
        require_finished(tmp_path, kept, program)
    log(1, "1-third")  # it reads all events once more
    require_finished(tmp_path, kept, program)
    log(1, "1-other")
    (tmp_path / "query" / "commits" / "1").touch()
    require_finished(tmp_path, kept, program)


class Raise(pydantic.BaseModel):
    step: int = pydantic.Field(gt=0)


class Raised(pydantic.BaseModel):
    step: int


class Level(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    height: int = 0

    def decide(self, command: Raise):
        return Raised(step=command.step)

    def evolve(self, event: Raised) -> Level:
        return Level(height=self.height + event.step)


def test_models_of_pydantic_are_checked_by_their_own_rules():
    app, levels = baskets(Level)
    levels.of(Raised).select("aggregate", height="step").to("raised")
    driver = Driver(app)
    driver.send("commands", command("Raise", step=3), command("Raise", step=0))
    driver.batch()
    first, second = (each["value"] for each in driver.outputs["commands.replies"])
    assert (first["outcome"], second["outcome"]) == ("accepted", "failed")
    assert "greater than 0" in second["reason"]
    assert states(driver) == {"b1": (1, {"height": 3})}
