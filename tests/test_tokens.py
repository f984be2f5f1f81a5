"""Tokens: what has become of records that somebody wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from riverrun.errors import InputError
from riverrun.outputs import Ways
from riverrun.partitions import Partition
from riverrun.sinks.viewing.notes import Facts, Revision
from riverrun.views import Token
from riverrun.views.tokens import Note, verdict

WAYS = Ways(("clicks",), (), 0, ("per_user",))


def note(number: int, **facts: dict[str, Any]) -> Note:
    return Note(Revision(1, number), number, Facts(**facts))


def test_a_token_is_met_by_the_batch_that_read_past_it() -> None:
    token = Token.parse(str(Token.of({Partition("clicks", 0): 10, Partition("clicks", 1): 4})))
    notes = [note(0, ends={"clicks/0": 11, "clicks/1": 4})]
    assert verdict(token, WAYS, notes).state == "waiting"
    notes.append(note(1, ends={"clicks/0": 11, "clicks/1": 5}))
    assert verdict(token, WAYS, notes).state == "there"
    with pytest.raises(InputError, match="never gets to this view"):
        verdict(Token.of({Partition("other", 0): 1}), WAYS, notes)


def test_a_token_passes_through_the_programs_own_topics() -> None:
    ways = Ways(("clicks", "middle"), ("middle",), 1, ())
    token = Token.of({Partition("clicks", 0): 10})
    notes = [
        note(0, ends={"clicks/0": 11, "middle/0": 2}, own={"middle/0": 7}),
        note(1, ends={"clicks/0": 11, "middle/0": 6}, own={"middle/0": 7}),
    ]
    assert verdict(token, ways, notes).state == "waiting"
    notes.append(note(2, ends={"clicks/0": 11, "middle/0": 7}, own={"middle/0": 9}))
    assert verdict(token, ways, notes).state == "there"


def test_all_records_of_a_token_that_were_set_aside_are_told() -> None:
    token = Token.of({Partition("clicks", 0): 10, Partition("clicks", 1): 4})
    aside = {"clicks/0/10 decode": "not JSON", "clicks/1/4 per_user": "late"}
    found = verdict(token, WAYS, [note(0, ends={"clicks/0": 11, "clicks/1": 5}, aside=aside)])
    assert found.text == "clicks/0/10: not JSON; clicks/1/4: late"


def test_a_record_that_is_held_late_or_set_aside_is_told_so() -> None:
    token = Token.of({Partition("clicks", 0): 10})
    held = note(0, ends={"clicks/0": 11}, closes={"per_user": 5_000_000}, clocks={"per_user": 1})
    found = verdict(token, WAYS, [held])
    assert (found.state, found.step, found.until, found.clock) == ("held", "per_user", 5_000_000, 1)
    passed = note(1, ends={"clicks/0": 11}, clocks={"per_user": 5_000_000})
    assert verdict(token, WAYS, [held, passed]).state == "there"
    late = replace(
        held, facts=replace(held.facts, aside={"clicks/0/10 per_user": "late at per_user"})
    )
    found = verdict(token, WAYS, [late])
    assert (found.state, found.text) == ("aside", "clicks/0/10: late at per_user")
    elsewhere = {"clicks/0/10 per_day": "late at per_day"}
    assert (
        verdict(token, WAYS, [replace(passed, facts=replace(passed.facts, aside=elsewhere))]).state
        == "there"
    )


@pytest.mark.parametrize("text", ["", "x", "rr1.", "rr1.!!", "rr1.W10", "rr1.eyJhIjogMX0"])
def test_a_token_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="token cannot be read"):
        Token.parse(text)
