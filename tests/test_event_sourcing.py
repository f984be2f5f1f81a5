"""Aggregates: commands are decided in order, what is accepted stays, states are made of events."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from decimal import Decimal

import pytest

from baskets import Add, Added, Basket, baskets, command, events, outcomes, states
from riverrun.errors import JobError
from riverrun.kernels.first_look import never_given
from riverrun.testing import Driver


def test_accepted_commands_become_events_that_tell_who_asked_for_them():
    driver = Driver(baskets()[0], now="2026-01-01T12:00:00Z")
    driver.send("commands", command("Add", id="c1", item="tea", price="2.50", by="ann"))
    driver.send("commands", command("Order", id="c2"))
    first, second = events(driver.batch())
    assert first == {
        "aggregate": "b1", "version": 1, "type": "Added", "schema_version": 1,
        "data": {"item": "tea", "price": "2.50"}, "at": "2026-01-01T12:00:00Z",
        "command": "c1", "by": "ann", "position": "commands/0/0",
    }  # fmt: skip
    assert (second["version"], second["command"]) == (2, "c2")
    assert second["data"]["at"] == "2026-01-01T12:00:00"


def test_a_refused_command_changes_nothing_and_its_reason_is_the_reply():
    driver = Driver(baskets()[0])
    driver.send("commands", command("Order"), command("Add", item="tea"), command("Order"))
    driver.send("commands", command("Add", item="milk"))
    out = driver.batch()
    assert outcomes(out) == [
        ("rejected", 0, "it is empty"),
        ("accepted", 1, None),
        ("accepted", 2, None),
        ("rejected", 2, "it is ordered"),
    ]
    assert [each["type"] for each in events(out)] == ["Added", "Ordered"]


def test_commands_are_decided_in_the_order_of_the_log_whatever_their_time():
    driver = Driver(baskets()[0])
    driver.send("commands", command("Add", item="first"), timestamp=9_000_000)
    driver.send("commands", command("Add", item="second"), timestamp=1)
    out = driver.batch()
    assert [each["data"]["item"] for each in events(out)] == ["first", "second"]
    assert driver.status.late == {"basket": 0}


@pytest.mark.parametrize("apart", [False, True])
def test_a_command_that_comes_twice_takes_effect_once_and_gets_the_same_reply(apart):
    driver = Driver(baskets()[0])
    driver.send("commands", command("Add", id="x", item="tea"))
    found = list(driver.batch()) if apart else []
    driver.send("commands", command("Add", id="x", item="tea"))
    found += driver.batch()
    assert len(events(found)) == 1
    first, second = (each["value"] for each in found if each["output"] == "commands.replies")
    assert first == second
    assert first["events"] == [
        {"type": "Added", "version": 1, "data": {"item": "tea", "price": "1"}}
    ]


def test_commands_are_remembered_as_long_as_the_program_says():
    driver = Driver(baskets(remember="1 minute")[0])
    for seconds in ("0 seconds", "59 seconds", "2 seconds"):
        driver.send("commands", command("Add", id="x", item="tea"))
        driver.pass_time(seconds)
    assert len(driver.outputs["events"]) == 2


def test_a_version_that_does_not_fit_is_a_rejection():
    driver = Driver(baskets()[0])
    driver.send("commands", command("Add", item="tea", version=0))
    driver.send("commands", command("Add", item="tea", version=0))
    driver.send("commands", command("Add", item="tea", version=1))
    assert outcomes(driver.batch()) == [
        ("accepted", 1, None),
        ("rejected", 1, "the version is 1, not 0"),
        ("accepted", 2, None),
    ]


def test_what_decide_fails_on_is_a_dead_letter_and_the_aggregate_goes_on():
    driver = Driver(baskets()[0])
    driver.send("commands", command("Add", item="poison"), command("Add", item="tea"))
    driver.send(
        "commands", command("Nonsense"), command("Add", price=3), command("Add", item="x", y=1)
    )
    driver.send("commands", "no JSON", {"type": "Add", "data": {"item": "tea"}})
    out = driver.batch()
    causes = [each["value"]["cause"] for each in out if each["output"] == "dead"]
    assert len(causes) == 6
    assert causes[0].startswith("ZeroDivisionError: no such thing (baskets.py:")
    assert "there is no 'Nonsense'; there is Add, Order" in causes[1]
    assert "missing required field `item`" in causes[2]
    assert "Add has no field 'y'" in causes[3]
    assert causes[4:] == ["the value is not JSON", "the command names no aggregate"]
    assert [each[0] for each in outcomes(out)] == ["failed", "accepted", *["failed"] * 3]
    assert states(driver) == {"b1": (1, {"items": ["tea"], "total": "1", "ordered": False})}


def test_a_command_that_failed_is_decided_again_under_its_id_and_then_holds():
    class Mended(Basket):
        def decide(self, command: Add, context):
            return Added(command.item, command.price)

    driver = Driver(baskets()[0])
    poison = command("Add", id="c1", item="poison")
    driver.send("commands", poison)
    assert [each[0] for each in outcomes(driver.batch())] == ["failed"]
    driver.restart(baskets(Mended)[0])
    driver.send("commands", poison)  # as `riverrun dead retry` does
    first = driver.batch()
    driver.send("commands", poison)
    again = driver.batch()
    assert outcomes(first) == outcomes(again) == [("accepted", 1, None)]
    assert (len(events(first)), len(events(again))) == (1, 0)


def test_the_key_of_a_record_names_the_aggregate_too():
    driver = Driver(baskets()[0])
    driver.send("commands", {"type": "Add", "data": {"item": "tea"}}, key="b7")
    assert events(driver.batch())[0]["aggregate"] == "b7"


def test_commands_without_what_they_may_lack_are_no_reason_for_a_warning():
    program = baskets()[0].program()
    lacking = {"given": {"commands": ["aggregate", "type"]}, "fields": {"commands": ["type"]}}
    assert list(never_given(program, lacking)) == []
    misspelt = {**lacking, "fields": {"commands": ["type", "verison"]}}
    assert list(never_given(program, misspelt)) == [
        "commands: no record of the first batch has 'version'; did you mean 'verison'?"
    ]


def test_new_ids_and_time_are_the_same_when_a_batch_is_run_again():
    driver = Driver(baskets()[0])
    driver.send("commands", command("Add", item="tea"), command("Order"))
    driver.crash()
    first = events(driver.batch())
    assert len(first[1]["data"]["number"]) == 32
    driver.replay()
    assert [each["value"] for each in driver.outputs["events"]] == first


class Impure(Basket):
    def decide(self, command: Add):
        return Added(str(uuid.uuid4()), Decimal(1))

    def evolve(self, event: Added) -> Impure:
        return self


class Careless(Basket):
    def decide(self, command: Add):
        self.items.append(command.item)
        return Added(command.item, Decimal(1))

    def evolve(self, event: Added) -> Careless:
        return self


@pytest.mark.parametrize("rules", [Impure, Careless])
def test_decisions_that_differ_when_they_are_run_again_are_found_by_the_driver(rules):
    frozen = dataclass(frozen=True)(rules)
    driver = Driver(baskets(frozen)[0])
    driver.send("commands", command("Add", item="tea"))
    with pytest.raises(JobError, match="decide gives something else when it is run again"):
        driver.batch()
