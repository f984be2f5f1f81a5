"""Aggregates from outside: commands that are sent, replies that are heard, decisions made again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

import riverrun as rr
from riverrun import exact
from riverrun.cli.rebuild_state import _show
from riverrun.cli.send import fields_of
from riverrun.commands import Commands, NoReply, Waiting
from riverrun.errors import InputError, JobError, ProgramError
from riverrun.forgetting import Keys
from riverrun.forgetting.store import MemoryStore
from riverrun.happened import Comparison, Past, Place, Recorded, Sent, named, sealed
from riverrun.kafka import admin
from riverrun.operators.decide.rules import Happened


@dataclass(frozen=True)
class Do:
    pass


@dataclass(frozen=True)
class Did:
    n: int = 1


@dataclass(frozen=True)
class Thing:
    n: int = 0

    def decide(self, command: Do):
        return Did()

    def evolve(self, event: Did) -> Thing:
        return Thing(self.n + event.n)


def recorded(version: int, offset: int) -> Recorded:
    event = Happened("Did", 1, '{"n":1}')
    at = "2026-01-01T00:00:00Z"
    return Recorded("x", version, event, at, f"c{offset}", None, f"asked/0/{offset}")


def sent(offset: int, **value: Any) -> Sent:
    given = {"type": "Do", "id": f"c{offset}", **value}
    return Sent(f"asked/0/{offset}", datetime(2026, 1, 1), given, "x")


def test_decisions_are_made_again_from_the_state_of_then_though_older_commands_are_gone():
    past = Past(
        rr.App("outside").aggregate("thing", Thing, commands="asked", events="e").rules,
        [recorded(1, 3), recorded(2, 5), recorded(3, 9)],
    )
    commands = [sent(4, version=0), sent(5, version=1), sent(6, id="c5"), sent(9, version=2)]
    found = list(past.redecided(commands))
    assert [(each.sent.id, each.outcome, each.same) for each in found] == [
        ("c4", "rejected", True),
        ("c5", "accepted", True),
        ("c9", "accepted", True),
    ]
    assert found[0].reason == "the version is 1, not 0"


def test_events_that_a_newer_program_wrote_are_an_error_that_says_so():
    rules = rr.App("outside").aggregate("thing", Thing, commands="asked", events="e").rules
    newer = replace(recorded(1, 3), event=Happened("Did", 2, '{"count":1}'))
    with pytest.raises(JobError) as caught:
        Past(rules, [newer])
    assert caught.value.where == "x, event 1 (Did)"
    assert "Did is of version 2, the program's of 1: a newer program wrote it" in caught.value.got
    assert "upcasters of a newer program" in caught.value.hint


def test_commands_are_found_by_the_aggregate_that_they_name_or_by_their_key():
    assert named({"aggregate": "a"}, b"b") == "a"
    assert named({"aggregate": 5}, None) == "5"
    assert named({}, b"b") == "b"
    assert named({}, None) is None


@pytest.mark.parametrize(
    ("command", "given", "fact"),
    [
        (5, {}, "this is no command"),
        (Do, {}, "this is no command"),
        (("Do", [1]), {}, "this is no command"),
        (Do(), {"to": ""}, "to is empty"),
        (Do(), {"version": 2**63}, "version is a whole number"),
        (Do(), {"id": "\ud800"}, "halves of signs"),
        (Do(), {}, "no longer sent here"),
    ],
)
def test_what_nobody_could_answer_is_not_sent(command, given, fact):
    commands = Commands("nowhere")
    commands.close()
    with pytest.raises((InputError, JobError, ProgramError), match=fact):
        commands.submit(command, **{"to": "x", **given})


def test_a_reply_whose_events_the_classes_here_do_not_fit_is_an_error_and_no_silence():
    commands = Commands("nowhere", events=(Did,))
    waiting = commands._waiting["c"] = Waiting(lambda _: NoReply("none"))
    told = {"type": "Did", "version": 1, "data": {"other": 1}}
    commands._heard({"command": "c", "outcome": "accepted", "events": [told]})
    with pytest.raises(JobError, match="cannot be read"):
        waiting.result(0)


def test_a_reply_that_does_not_come_in_time_says_what_is_known(broker, broker_settings):
    admin.create_topic(broker, "unread-commands")
    admin.create_topic(broker, "unread-commands.replies")
    with Commands("unread-commands", settings=broker_settings) as commands:
        waiting = commands.submit(Do(), to="x", id="c-7")
        with pytest.raises(TimeoutError) as caught:
            waiting.result(timeout=0.25)
        assert isinstance(caught.value, NoReply)
        assert caught.value.fact == "no reply to the command within 250 milliseconds"
        assert "it was sent, under the id c-7" in str(caught.value)
        assert commands.submit(Do(), to="x", id="c-7") is waiting  # it may still come
        with pytest.raises(NoReply, match="Kafka has it"):
            commands.send(Do(), to="x", timeout="1 millisecond")


def test_states_that_differ_are_shown_by_their_fields_and_their_rules(capsys):
    here = {"title": "📚 Emma", "copies": 2, "by": None}
    states = {"state": here, "of_events": {"version": 3, "state": {"title": "📚 Ema", "copies": 2}}}
    differing = [{"aggregate": f"b{n}", "version": 3, **states} for n in range(21)]
    _show(Comparison(21, 63, differing, "the program has other rules"))
    shown = capsys.readouterr().out.splitlines()
    assert shown[:5] == [
        "the program has other rules",
        "21 states, made of 63 events: 21 differ",
        "  b0",
        '    here       version 3  {"title": "📚 Emma", "by": null}',
        '    of events  version 3  {"title": "📚 Ema"}',
    ]
    assert shown[-1] == "  and 1 more; --json has all"


def test_fields_on_the_command_line_keep_all_their_digits():
    amount = "12345678901234567.89"
    assert fields_of((f"amount={amount}", "name=NaN"))["amount"] == Decimal(amount)
    assert fields_of((f'{{"amount": {amount}}}',)) == {"amount": Decimal(amount)}
    assert fields_of(("name=NaN", "n=5")) == {"name": "NaN", "n": 5}


@dataclass(frozen=True)
class Join:
    email: str
    city: str = ""


@dataclass(frozen=True)
class Joined:
    email: str


@dataclass(frozen=True)
class Member:
    email: str = ""

    def decide(self, command: Join):
        return rr.Rejected("again") if self.email else Joined(command.email)

    def evolve(self, event: Joined):
        return Member(event.email)


def asked(offset: int, data: Any) -> Sent:
    value = {"type": "Join", "id": f"c{offset}", "data": data}
    return Sent(f"asked/0/{offset}", datetime(2026, 1, 1), value, "42")


def test_commands_that_are_decided_again_hold_nothing_personal_and_forgotten_ones_do_not_differ():
    personal = {"subject": "member", "columns": ["email"]}
    place = Place("club", "member", "asked", "e", "r", None, None, personal)
    of = rr.personal("email", subject="member")
    rules = (
        rr.App("club").aggregate("member", Member, commands="asked", events="e", personal=of).rules
    )
    keys = Keys(MemoryStore())
    given = [
        asked(0, {"emial": "ann@example.org"}),
        asked(1, {"email": None, "city": "Bern", "phone": ["ann", 7]}),
        asked(2, "ann@example.org"),
        asked(3, {"email": "ann@example.org"}),
        asked(4, {"email": "ann@example.org"}),
        asked(5, {"city": "Bern"}),
    ]

    def decided() -> list[Any]:
        commands = [sealed(each, place, rules, keys) for each in given]
        assert "ann" not in str(commands)
        assert commands[1].value["data"]["city"] == "Bern"
        event = Happened("Joined", 1, exact.dumps({"email": first}, separators=(",", ":")))
        joined = Recorded("42", 1, event, "2026-01-01T00:00:00Z", "c3", None, "asked/0/3")
        return [each.same for each in Past(rules, [joined]).redecided(commands)]

    [first] = keys.seal("member", [("42", "ann@example.org")])
    assert decided() == [True] * 6
    keys.forget(keys.subject("member", "42"))
    # the third was never read, the last held nothing of hers: they are as they were
    assert decided() == [None, None, True, None, None, True]
