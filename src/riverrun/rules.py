"""Live rules of an application, from Python: `riverrun.rules.Rules("shop").add({…})`."""

from __future__ import annotations

import json
import time
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from riverrun import config
from riverrun.arguments import checked
from riverrun.config import Settings
from riverrun.control import ANSWER, REMOVE_RULE, RULE, Command
from riverrun.durations import BEGINNING, END, Duration, microseconds, time_text
from riverrun.errors import InputError, RiverrunError
from riverrun.kafka.control import ControlLog

State = Literal["in effect", "refused", "removed", "not answered"]


@dataclass(frozen=True)
class Known:
    """What is known of a rule, or of what was asked of it last."""

    name: str
    state: State
    offset: int
    """Of the command in the control log."""
    version: int | None = None
    effective: str | None = None
    """The time of the first rows that it sees (ISO 8601), or of the first that it does not see
    any more; "the beginning": all."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The rule as it was given."""
    refused: Mapping[str, str | None] | None = None
    """The fact, where, got and hint of its error."""

    @property
    def adds(self) -> bool:
        """Whether a rule was given, not taken away."""
        return "pattern" in self.asked or "template" in self.asked

    @property
    def error(self) -> RiverrunError | None:
        if self.refused is None:
            return None
        return InputError(
            str(self.refused["fact"]),
            where=self.refused.get("where"),
            got=self.refused.get("got"),
            hint=self.refused.get("hint"),
        )


@checked
class Rules:
    """The rules of one step of an application. The step has to be named if there are several, or
    if the application has not run on this machine."""

    def __init__(
        self, application: str, step: str | None = None, *, brokers: str | None = None
    ) -> None:
        from riverrun.embedded import kafka  # noqa: PLC0415 - reading a file needs no client

        self.settings = config.load().override(brokers=brokers)
        self.application = application
        self.step = step_of(self.settings, application, step)
        self.log = ControlLog(kafka.client(self.settings), application)

    def add(
        self, *rules: Mapping[str, Any], timeout: Duration | None = "30 seconds"
    ) -> list[Known]:
        """Add rules, or change those with the same names; what the job answers, in their order.

        A rule has a `name`, a `pattern` or a `template`, `parameters` and `metadata`. With None for
        a timeout it is not waited for answers.
        """
        return self._ask([Command(0, RULE, self.step, dict(each)) for each in rules], timeout)

    def remove(self, *names: str, timeout: Duration | None = "30 seconds") -> list[Known]:
        """Remove rules; what the job answers."""
        asked = [Command(0, REMOVE_RULE, self.step, {"name": name}) for name in names]
        return self._ask(asked, timeout)

    def all(self) -> dict[str, Known]:
        """What is known of each rule, by name: what was asked last, and what was answered."""
        return {known.name: known for known in self.history()}

    def standing(self) -> dict[str, Known]:
        """The rules that are in effect, or will be once the job has answered, by name."""
        found: dict[str, Known] = {}
        for known in self.history():
            if known.state == "removed":
                found.pop(known.name, None)
            elif known.state == "in effect" or (known.state == "not answered" and known.adds):
                found[known.name] = known
        return found

    def history(self) -> list[Known]:
        """All that was ever asked, in its order."""
        commands = self.log.commands(0, self.log.end()) if self.log.exists() else []
        return list(told([each for each in commands if each.target == self.step]))

    def _ask(self, asked: list[Command], timeout: Duration | None) -> list[Known]:
        for each in asked:
            each.body["request"] = uuid.uuid4().hex
        self.log.make()
        start = self.log.end()
        end = self.log.send(*asked)
        wanted = {each.body["request"]: n for n, each in enumerate(asked)}
        give_up = time.monotonic() + (microseconds(timeout) / 1e6 if timeout is not None else 0)
        while True:
            commands = self.log.commands(start, end)
            found = {n: k for k, r in _requests(commands) if (n := wanted.get(r)) is not None}
            left = [each for each in found.values() if each.state == "not answered"]
            if not left or time.monotonic() >= give_up:
                return [found[n] for n in sorted(found)]
            time.sleep(0.1)
            end = self.log.end()


def _requests(commands: list[Command]) -> Iterator[tuple[Known, str]]:
    asked = [each for each in commands if each.kind in (RULE, REMOVE_RULE)]
    for command, known in zip(asked, told(commands), strict=True):
        yield known, str(command.body.get("request"))


def told(commands: list[Command]) -> Iterator[Known]:
    """What is known of each command, in their order."""
    answers: dict[int, dict[str, Any]] = {}
    for each in commands:
        if each.kind == ANSWER:
            answers.setdefault(each.body.get("to", -1), each.body)
    for each in commands:
        if each.kind in (RULE, REMOVE_RULE):
            yield _known(each, answers.get(each.offset))


def _known(command: Command, answer: dict[str, Any] | None) -> Known:
    asked = {name: part for name, part in command.body.items() if name != "request"}
    name, offset = str(asked.get("name")), command.offset
    if answer is None:
        return Known(name, "not answered", offset, asked=asked)
    if refused := answer.get("refused"):
        return Known(name, "refused", offset, asked=asked, refused=refused)
    at = answer["effective"]
    state: State = "in effect" if command.kind == RULE else "removed"
    return Known(name, state, offset, answer["version"], _text(at), asked)


def _text(at: int) -> str:
    """With all its digits: a rule sees rows exactly from there on."""
    if at <= BEGINNING:
        return "the beginning"
    if at >= END:
        return time_text(at)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    return moment.isoformat().replace("+00:00", "Z")


def step_of(settings: Settings, application: str, step: str | None) -> str:
    """The step of an application that has live rules."""
    from riverrun.runtime.upgrades import read  # noqa: PLC0415 - Spark only when it is needed

    folder = settings.checkpoint_of(application)
    shape = read(folder)
    if shape is None:
        if step is not None:
            return step
        raise InputError(
            f"nothing is known of the application {application!r}",
            where=folder,
            hint="has it run here? Else name its step with rules",
        )
    known = [name for name, facts in shape["steps"].items() if facts["does"] == "rules"]
    if step in known or (step is None and len(known) == 1):
        return step or known[0]
    if not known:
        raise InputError(
            f"{application!r} has no step with rules",
            where=folder,
            hint="a program makes one with .match_rules(…)",
        )
    named = f"no step {step!r} with rules" if step else "several steps with rules"
    raise InputError(f"{application!r} has {named}", hint=f"name one: {', '.join(known)}")


def read_rules(file: Path) -> list[dict[str, Any]]:
    """The rules in a file: TOML with `[[rule]]`, or JSON; one alone stands without a list."""
    try:
        text = file.read_text()
        found = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
        json.dumps(found)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            "the file of rules cannot be read",
            where=file,
            got=error,
            hint="it is TOML if its name ends with .toml, else JSON",
        ) from error
    listed = found.get("rule", [found]) if isinstance(found, dict) else found
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InputError("the file has no rules", where=file, hint='[[rule]]\nname = "…"')
    return listed
