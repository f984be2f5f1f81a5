"""Answers in the control log: what became of a rule that was asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from riverrun.control import ANSWER, Command
from riverrun.errors import RiverrunError
from riverrun.operators.rules.rule import LONGEST_NAME, shown

PARTS = ("fact", "where", "got", "hint")
"""Of an error."""


@dataclass(frozen=True)
class Answer:
    """What a step said to a command."""

    to: int
    """The offset of the command."""
    version: int = 0
    effective: int = 0
    """From when on, in microseconds."""
    refused: Mapping[str, str | None] | None = None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Answer | None:
        """None if no step has written it: anybody may write to a topic."""
        to, refused = body.get("to"), body.get("refused")
        if type(to) is not int:
            return None
        if isinstance(refused, dict) and isinstance(refused.get("fact"), str):
            parts = ((name, refused.get(name)) for name in PARTS)
            return cls(to, refused={n: part if part is None else str(part) for n, part in parts})
        version, effective = body.get("version"), body.get("effective")
        if type(version) is int and type(effective) is int:
            return cls(to, version, effective)
        return None


def answers_of(commands: Iterable[Command]) -> dict[int, list[Answer]]:
    """By what they answer, in their order. A batch that is run again answers again: the first
    counts, unless a later one refuses what no longer fits the program."""
    found: defaultdict[int, list[Answer]] = defaultdict(list)
    for each in commands:
        if each.kind == ANSWER and (answer := Answer.read(each.body)) is not None:
            found[answer.to].append(answer)
    return found


def answer_to(command: Command, said: Mapping[str, Any]) -> Command:
    """With what tells an asker that it is meant."""
    name, request = command.body.get("name"), command.body.get("request")
    about: dict[str, Any] = {"to": command.offset, "name": name}
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        about["name"] = shown(name)
    if isinstance(request, str) and len(request) <= LONGEST_NAME:
        about["request"] = request
    return Command(0, ANSWER, command.target, {**about, **said})


def refusal(error: Exception, what: str = "rule") -> dict[str, Any]:
    """Whatever is wrong with a rule or a query, the others go on."""
    if isinstance(error, RiverrunError):
        parts = ((name, getattr(error, name)) for name in PARTS)
        return {"refused": {n: part if part is None else str(part) for n, part in parts}}
    deep = isinstance(error, RecursionError)
    said = {
        "fact": f"the {what} is nested too deeply" if deep else f"the {what} cannot be used",
        "where": None,
        "got": None if deep else f"{type(error).__name__}: {error}"[:LONGEST_NAME],
        "hint": None,
    }
    return {"refused": said}
