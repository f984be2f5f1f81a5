"""What stands at a step, as the command line lists it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from riverrun.cli.queries import command as queries
from riverrun.cli.rules import command as rules
from riverrun.control import ANSWER, QUERY, Command
from riverrun.told import Asked, Known, told

ASKED = {"query": "river  lake", "where": "id > 1", "owner": "ann", "template": "spree"}
HISTORY = [
    Known("a", "in effect", 0, 1, "2026-01-01T12:00:00Z", {**ASKED, "parameters": {"n": 5}}),
    Known("b", "in effect", 2, 1, "the beginning", {"pattern": "PATTERN (a)"}),
    Known("b", "removed", 4, 1, "2026-01-01T12:00:00Z"),
    Known("c", "refused", 6, asked={"name": "c"}, refused={"fact": "no"}),
]


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> list[Known]:
    found = list(HISTORY)
    monkeypatch.setattr(Asked, "history", lambda self: found)
    return found


def listed(which: object, *more: str) -> str:
    given = ["list", "news", "--step", "saved", "--brokers", "127.0.0.1:1", *more]
    outcome = CliRunner().invoke(which, given)  # type: ignore[arg-type]
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


@pytest.mark.usefixtures("history")
def test_queries_are_listed_with_their_owners_and_rules_with_their_versions() -> None:
    assert [each.rstrip() for each in listed(queries).splitlines()] == [
        "query  state      from                  owner  what",
        "a      in effect  2026-01-01T12:00:00Z  ann    river lake where id > 1",
    ]
    assert [each.rstrip() for each in listed(rules).splitlines()] == [
        "rule  version  state      from                  what",
        "a           1  in effect  2026-01-01T12:00:00Z  spree n=5",
    ]


@pytest.mark.usefixtures("history")
def test_what_is_removed_or_refused_is_listed_if_all_is_asked_for() -> None:
    for which in (queries, rules):
        found = json.loads(listed(which, "--all", "--json"))
        assert [each["state"] for each in found] == ["in effect", "removed", "refused"]
        assert len(listed(which, "--all").splitlines()) == 4


def test_what_stands_is_listed_as_such_also_if_a_change_of_it_was_refused(
    history: list[Known],
) -> None:
    history.append(Known("a", "refused", 8, asked={"name": "a"}, refused={"fact": "no"}))
    found = json.loads(listed(rules, "--all", "--json"))
    assert [(each["name"], each["state"]) for each in found] == [
        ("a", "in effect"), ("b", "removed"), ("c", "refused"),
    ]  # fmt: skip


def test_that_nothing_stands_is_said_in_words(history: list[Known]) -> None:
    history.clear()
    assert listed(queries) == "news has no stored queries\n"
    assert listed(rules) == "news has no rules\n"


def test_what_was_asked_for_again_ends_with_what_stood() -> None:
    query = {"name": "a", "query": "river"}
    said = {"version": 1, "effective": 0}
    gone = {"fact": "there is no column 'price'", "where": None, "got": None, "hint": None}
    log = [
        Command(0, QUERY, "saved", query),
        Command(1, ANSWER, "saved", {"to": 0, **said}),
        Command(2, QUERY, "saved", query),
        Command(3, ANSWER, "saved", {"to": 2, "stood": 0, **said}),
    ]
    assert [each.state for each in told(log)] == ["in effect", "in effect"]
    log.append(Command(4, ANSWER, "saved", {"to": 0, "refused": gone}))
    assert [each.state for each in told(log)] == ["ended", "ended"]
