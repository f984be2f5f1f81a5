"""Answers in the control log: what became of a rule, or a stored query, that was asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from riverrun.control import ANSWER, Command
from riverrun.errors import InputError, RiverrunError
from riverrun.operators.rules.rule import LONGEST_NAME, shown

PARTS = ("fact", "where", "got", "hint")
"""Of an error."""
NAMED = 20
"""Rules or queries that an error names."""


@dataclass(frozen=True)
class Answer:
    """What a step said to a command."""

    to: int
    """The offset of the command."""
    version: int = 0
    effective: int = 0
    """From when on, in microseconds."""
    refused: Mapping[str, str | None] | None = None
    stood: int | None = None
    """Of a command that asks for what stands: the offset of the one that has brought it."""

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
            stood = body.get("stood")
            return cls(to, version, effective, stood=stood if type(stood) is int else None)
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


def refusal(error: Exception, what: str) -> dict[str, Any]:
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


class Answering(ABC):
    """What commands make of what stands at a step, and what is answered to them."""

    bring: ClassVar[str]
    take_away: ClassVar[str]
    """The kinds of commands."""
    noun: ClassVar[str]

    def __init__(self, clock: int) -> None:
        self.clock = clock
        self.answers: list[Command] = []

    @abstractmethod
    def stands(self, given: Mapping[str, Any]) -> Answer | None:
        """What was answered to the command that has brought what is given, if it stands as it is;
        an error if it cannot be used."""

    @abstractmethod
    def add(self, given: Mapping[str, Any], at: int, offset: int) -> int:
        """Its version; an error if it cannot be used."""

    @abstractmethod
    def remove(self, name: Any, at: int) -> int:
        """The version that stood; an error if there is none."""

    def take(self, commands: Iterable[Command]) -> None:
        """What was answered before stands: a job that starts over gives rules and queries the time
        that they had."""
        logged = answers_of(commands)
        for command in commands:
            if command.kind in (self.bring, self.take_away):
                self._answer(command, next(iter(logged.get(command.offset, ())), None))

    def refuse(self, command: Command, error: Exception) -> None:
        self.answers.append(answer_to(command, refusal(error, self.noun)))

    def _answer(self, command: Command, answer: Answer | None) -> None:
        if answer is not None and answer.refused:
            return
        try:
            said = self._change(command, answer)
        except Exception as error:
            self.refuse(command, error)
            return
        if answer is None:
            self.answers.append(answer_to(command, said))

    def _change(self, command: Command, answer: Answer | None) -> dict[str, Any]:
        given = {name: part for name, part in command.body.items() if name != "request"}
        at = max(self.clock, answer.effective if answer else self.clock)
        if command.kind == self.take_away:
            return {"effective": at, "version": self.remove(given.get("name"), at)}
        # one that was answered by itself was a version of its own
        stands = self.stands(given) if answer is None or answer.stood is not None else None
        if stands is not None:
            return {
                "effective": stands.effective, "version": stands.version, "stood": stands.to,
            }  # fmt: skip
        return {"effective": at, "version": self.add(given, at, command.offset)}


def unknown(what: str, name: object, standing: Collection[str]) -> InputError:
    """For a name that nothing stands under."""
    known = sorted(standing)
    more = f" and {len(known) - NAMED:,} more" if len(known) > NAMED else ""
    return InputError(
        f"there is no {what} {shown(name)}",
        hint=f"there are: {', '.join(known[:NAMED]) or 'none'}{more}",
    )
