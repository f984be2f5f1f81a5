"""What a step was told by the control log, rules or stored queries, and what it answered."""

from __future__ import annotations

import json
import time
import tomllib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal

from riverrun import config
from riverrun.config import Settings
from riverrun.control import QUERY, REMOVE_QUERY, REMOVE_RULE, RULE, Command
from riverrun.durations import BEGINNING, END, Duration, microseconds, time_text
from riverrun.errors import InputError, RiverrunError
from riverrun.kafka.control import ControlLog
from riverrun.operators.rules.answers import Answer, answers_of

State = Literal["in effect", "refused", "removed", "ended", "not answered"]
BRINGING, REMOVING = (RULE, QUERY), (REMOVE_RULE, REMOVE_QUERY)
AT_ONCE = 1_000
"""Commands that are sent before those are answered: each goes to every page with a batch."""
DEEPEST = 100
"""Levels of lists and names in what is asked."""


@dataclass(frozen=True)
class Known:
    """What is known of a rule or a query, or of what was asked of it last."""

    name: str
    state: State
    offset: int
    """Of the command in the control log."""
    version: int | None = None
    effective: str | None = None
    """The time of the first rows that it sees (ISO 8601), or of the first that it does not see
    any more; "the beginning": all."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """As it was given."""
    refused: Mapping[str, str | None] | None = None
    """The fact, where, got and hint of its error. One that is "ended" was in effect until the
    program changed."""

    @property
    def adds(self) -> bool:
        """Whether something was given, not taken away."""
        return bool(self.asked.keys() - {"name"})

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


class Asked:
    """What stands at one step of an application. The step has to be named if there are several, or
    if the application has not run on this machine."""

    bring: ClassVar[str]
    take: ClassVar[str]
    """The kinds of commands."""
    does: ClassVar[str]
    """The kind of step."""
    noun: ClassVar[str]
    several: ClassVar[str]
    made_with: ClassVar[str]

    def __init__(
        self,
        application: str,
        step: str | None = None,
        *,
        brokers: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        from riverrun.embedded import kafka  # noqa: PLC0415 - reading a file needs no client

        self.settings = (settings or config.load()).override(brokers=brokers)
        self.application = application
        self.step = self._step_of(step)
        self.log = ControlLog(kafka.client(self.settings), application)

    def all(self) -> dict[str, Known]:
        """What is known of each one, by name: what stands, or else what was asked last."""
        history = self.history()
        return {known.name: known for known in history} | standing(history)

    def standing(self) -> dict[str, Known]:
        """Those that are in effect, or will be once the job has answered, by name."""
        return standing(self.history())

    def history(self) -> list[Known]:
        """All that was ever asked, in its order."""
        commands = self.log.commands(0, self.log.end()) if self.log.exists() else []
        return list(told([each for each in commands if each.target == self.step]))

    def ask(
        self, kind: str, bodies: list[Mapping[str, Any]], timeout: Duration | None
    ) -> list[Known]:
        """What is answered to commands, in their order. With None it is not waited for answers."""
        give_up = time.monotonic() + (microseconds(timeout) / 1e6 if timeout is not None else 0)
        found: list[Known] = []
        for begin in range(0, len(bodies), AT_ONCE):
            asked = [
                Command(0, kind, self.step, {**each, "request": uuid.uuid4().hex})
                for each in bodies[begin : begin + AT_ONCE]
            ]
            found += self._ask(asked, give_up)
        return found

    def _ask(self, asked: list[Command], give_up: float) -> list[Known]:
        self.log.make()
        start = self.log.end()
        end = self.log.send(*asked)
        wanted = {each.body["request"]: n for n, each in enumerate(asked)}
        while True:
            commands = self.log.commands(start, end)
            found = {n: k for k, r in _requests(commands) if (n := wanted.get(r)) is not None}
            left = [each for each in found.values() if each.state == "not answered"]
            if not left or time.monotonic() >= give_up:
                return [found[n] for n in sorted(found)]
            time.sleep(0.1)
            end = self.log.end()

    @classmethod
    def steps(cls, settings: Settings, application: str) -> list[str] | None:
        """The steps of an application that have some; None if nothing is known of it here."""
        from riverrun.compiler.upgrades import read  # noqa: PLC0415 - slow to import

        shape = read(settings.checkpoint_of(application))
        if shape is None:
            return None
        return [
            name
            for name, facts in shape["steps"].items()
            if facts["does"] == cls.does and facts.get("queries") != "table"
        ]

    @staticmethod
    def require(given: Mapping[str, Any]) -> None:
        """Refuses what no job takes, as far as that can be told without its program."""
        raise NotImplementedError

    @property
    def running(self) -> bool:
        from riverrun.runtime import checkpoint  # noqa: PLC0415 - Spark only when it is needed

        return checkpoint.holder(self.settings.checkpoint_of(self.application)) is not None

    @property
    def read(self) -> int:
        """The offset up to which the control log has taken effect."""
        from riverrun.delivery.status import last_status  # noqa: PLC0415

        found = last_status(self.settings.run_of(self.application) / "status") or {}
        return int(found.get("control", 0))

    def _step_of(self, step: str | None) -> str:
        """The step of the application that has some."""
        application, what = self.application, self.several
        folder = self.settings.checkpoint_of(application)
        known = self.steps(self.settings, application)
        if known is None:
            if step is not None:
                return step
            raise InputError(
                f"nothing is known of the application {application!r}",
                where=folder,
                hint=f"has it run here? Else name its step with {what}",
            )
        if step in known or (step is None and len(known) == 1):
            return step or known[0]
        if not known:
            raise InputError(
                f"{application!r} has no step with {what}",
                where=folder,
                hint=f"a program makes one with {self.made_with}",
            )
        named = f"no step {step!r} with {what}" if step else f"several steps with {what}"
        raise InputError(f"{application!r} has {named}", hint=f"name one: {', '.join(known)}")


def standing(history: Iterable[Known]) -> dict[str, Known]:
    """Those of a history that are in effect, or will be once the job has answered, by name."""
    found: dict[str, Known] = {}
    for known in history:
        if known.state in ("removed", "ended"):
            found.pop(known.name, None)
        elif known.state == "in effect" or (known.state == "not answered" and known.adds):
            found[known.name] = known
    return found


def _requests(commands: list[Command]) -> Iterator[tuple[Known, str]]:
    asked = [each for each in commands if each.kind in (*BRINGING, *REMOVING)]
    for command, known in zip(asked, told(commands), strict=True):
        yield known, str(command.body.get("request"))


def told(commands: list[Command]) -> Iterator[Known]:
    """What is known of each command, in their order."""
    answers = answers_of(commands)
    for each in commands:
        if each.kind in (*BRINGING, *REMOVING):
            found = answers.get(each.offset, [])
            if found and found[0].stood is not None:  # it ends with what stood
                found = [found[0], *answers.get(found[0].stood, [])[1:]]
            yield _known(each, found)


def _known(command: Command, answers: list[Answer]) -> Known:
    given = {name: part for name, part in command.body.items() if name != "request"}
    # half a letter of Unicode, and what is no number, was refused, and cannot be shown; nor can
    # what is nested deeply, which may have been taken
    shown = {name: part for name, part in given.items() if not nested_deeply(part)}
    text = json.dumps(shown, ensure_ascii=False).encode(errors="replace")
    asked = json.loads(text, parse_constant=str)
    name, offset = str(asked.get("name")), command.offset
    if not answers:
        return Known(name, "not answered", offset, asked=asked)
    first, refusals = answers[0], [each.refused for each in answers if each.refused]
    if first.refused:
        return Known(name, "refused", offset, asked=asked, refused=first.refused)
    at = _text(first.effective)
    state: State = "in effect" if command.kind in BRINGING else "removed"
    if state == "in effect" and refusals:
        return Known(name, "ended", offset, first.version, at, asked, refusals[0])
    return Known(name, state, offset, first.version, at, asked)


def nested_deeply(value: Any) -> bool:
    """Whether what goes through it level by level, as Python's own functions do, might fail."""
    level = [value]
    for _ in range(DEEPEST):
        level = [each for each in level if isinstance(each, dict | list)]
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for several in inner for each in several]
        if not level:
            return False
    return True


def _text(at: int) -> str:
    """With all its digits: it sees rows exactly from there on."""
    if at <= BEGINNING:
        return "the beginning"
    if at >= END:
        return time_text(at)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    return moment.isoformat().replace("+00:00", "Z")


def read_file(file: Path, noun: str) -> list[dict[str, Any]]:
    """What is in a file: TOML with `[[rule]]` or `[[query]]`, or JSON; one alone stands without a
    list."""
    try:
        text = file.read_text()
        found = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
        json.dumps(found)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"the file of {_several(noun)} cannot be read",
            where=file,
            got=error,
            hint="it is TOML if its name ends with .toml, else JSON",
        ) from error
    alone = [found] if isinstance(found, dict) and "name" in found else None
    listed = found.get(noun, alone) if isinstance(found, dict) else found
    if isinstance(listed, list) and listed and all(isinstance(each, dict) for each in listed):
        return listed
    raise InputError(
        f"the file has no {_several(noun)}",
        where=file,
        got=", ".join(found) if isinstance(found, dict) and found else None,
        hint=f'in TOML each begins with [[{noun}]], in JSON they are a list of {{"name": …}}',
    )


def _several(noun: str) -> str:
    return "rules" if noun == "rule" else "queries"
