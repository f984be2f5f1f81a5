"""Alerts of an application, from Python: `riverrun.alerting.Alerts("shop").standing()`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from riverrun import config, exact
from riverrun.arguments import checked, names
from riverrun.config import Settings
from riverrun.control import ACKNOWLEDGE, SILENCE, UNSILENCE, Command
from riverrun.durations import Duration, microseconds
from riverrun.errors import InputError, TopicError
from riverrun.kafka.browse import Browser
from riverrun.kafka.control import ControlLog
from riverrun.operators.alert.silences import Silence, after, length_of, matcher_of, value_text

SHORTEST = 4
"""Characters of an alert's name that are enough, if no other begins with them."""


class NoAlert(InputError):
    """No alert, or no silence, of the name stands."""


@dataclass(frozen=True)
class Standing:
    """A group that people were told of, or are about to be."""

    step: str
    group: Mapping[str, Any]
    alert: str
    """Its name: the same in all its notifications."""
    facts: Mapping[str, Any]
    """The other columns of the groups' table: see docs/alerts.md."""
    silenced: str | None = None
    """The silence that holds for it."""

    @property
    def data(self) -> dict[str, Any]:
        told = {"step": self.step, "alert": self.alert, "group": dict(self.group)}
        return {**told, **self.facts, "silenced": self.silenced}


@checked
class Alerts:
    """Those of an application that has run on this machine, whether it runs now or not; or those
    of one step of it."""

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
        known = steps_of(self.settings, application)
        if step is not None and step not in known:
            raise _no_step(step, known)
        self.steps = known if step is None else {step: known[step]}
        """Their names, with the columns of their groups."""
        self.client = kafka.client(self.settings)
        self.log = ControlLog(self.client, application)

    def standing(self) -> list[Standing]:
        """The groups that stand, the oldest first."""
        silences = self.silences()
        found = [each for step in self.steps for each in self._groups(step, silences)]
        return sorted(found, key=lambda each: (each.facts["since"], each.alert))

    def history(self, alert: str) -> list[dict[str, Any]]:
        """All that was told of an alert, in its order; also of one that is over."""
        told = [note for step in self.steps for note in self._read(step, "told")]
        found = [note for note in told if note["alert"] == alert]
        return sorted(found, key=lambda note: int(note["key"].rpartition("-")[2]))

    def silences(self) -> dict[str, list[Silence]]:
        """Those that hold now, by the step that they are for."""
        commands = self.log.commands(0, self.log.end()) if self.log.exists() else []
        now = time.time_ns() // 1000
        return {
            step: list(after((), [each for each in commands if each.target == step], now))
            for step in self.steps
        }

    def acknowledge(
        self, alert: str, *, by: str, comment: str | None = None,
        timeout: Duration | None = "30 seconds",
    ) -> tuple[Standing, bool]:  # fmt: skip
        """Nobody else is called, and nothing repeated, until it is over. `alert` is its name, or
        the beginning of it. Gives it, and whether that is in effect: else it is when the job runs
        next."""
        found = self.find(alert)
        body = {"alert": found.alert, "by": by, "comment": comment or ""}
        return found, self._send([Command(0, ACKNOWLEDGE, found.step, body)], timeout)

    def silence(
        self, *matchers: str, lasts: Duration, by: str, comment: str | None = None,
        step: str | None = None, timeout: Duration | None = "30 seconds",
    ) -> tuple[Silence, bool]:  # fmt: skip
        """Tell nothing of groups for a time: `silence("service=pay", lasts="2 hours", by="ann")`.
        All matchers have to hold."""
        made = [matcher_of(each) for each in names("matchers", matchers, '"service=pay"')]
        if not made:
            raise InputError("a silence needs a matcher", hint="COLUMN=VALUE")
        chosen = self._meant(step, {each.column for each in made})
        until = time.time_ns() // 1000 + length_of(lasts)
        silence = Silence(uuid.uuid4().hex[:8], tuple(made), until, by, comment or "")
        listed = [list(asdict(each).values()) for each in made]
        body = {**asdict(silence), "matchers": listed}
        sent = [Command(0, SILENCE, each, dict(body)) for each in chosen]
        return silence, self._send(sent, timeout)

    def unsilence(self, id: str, *, timeout: Duration | None = "30 seconds") -> bool:
        """Ends a silence."""
        known = {each.id: step for step, several in self.silences().items() for each in several}
        if id not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise NoAlert(f"no silence {id!r} holds", hint=f"those that do: {listed}")
        sent = [Command(0, UNSILENCE, step, {"id": id}) for step in self.steps]
        return self._send(sent, timeout)

    def find(self, alert: str) -> Standing:
        """The group of this name that stands."""
        standing = self.standing()
        same = [each for each in standing if each.alert == alert]
        found = same or [
            each for each in standing if each.alert.startswith(alert) and len(alert) >= SHORTEST
        ]
        if len(found) == 1:
            return found[0]
        hint = f"`riverrun alerts list {self.application}` names all"
        several = "several alerts begin with" if found else "there is no alert"
        raise NoAlert(f"{several} {alert!r}", hint=hint)

    def _groups(self, step: str, silences: Mapping[str, list[Silence]]) -> list[Standing]:
        keys, now = self.steps[step], time.time_ns() // 1000
        made = []
        for row in self._read(step, "groups"):
            group = {name: row[name] for name in keys}
            texts = {name: value_text(value) for name, value in group.items()}
            held = [each.id for each in silences[step] if each.holds(texts, now)]
            facts = {n: value for n, value in row.items() if n not in (*keys, "alert")}
            made.append(Standing(step, group, row["alert"], facts, held[0] if held else None))
        return made

    def _read(self, step: str, what: str) -> list[dict[str, Any]]:
        """Records of a topic of the step; of groups the last of each key."""
        found: dict[Any, bytes | None] = {}
        with (
            suppress(TopicError),
            Browser(self.client, f"{self.application}.{step}.{what}") as all_,
        ):
            for message in all_.read(all_.earliest):
                place = (message.partition(), message.offset())
                found[message.key() if what == "groups" else place] = message.value()
        return [exact.loads(value) for value in found.values() if value is not None]

    def _meant(self, step: str | None, columns: set[str]) -> list[str]:
        """The steps whose groups have these columns."""
        known = {each: keys for each, keys in self.steps.items() if columns <= {*keys}}
        if step is not None and step not in self.steps:
            raise _no_step(step, self.steps)
        chosen = [each for each in known if step in (None, each)]
        if not chosen:
            listed = "; ".join(f"{each}: {', '.join(k)}" for each, k in self.steps.items())
            raise InputError(
                f"no alerts are grouped by {', '.join(sorted(columns))}", hint=f"they are: {listed}"
            )
        return chosen

    @property
    def running(self) -> bool:
        from riverrun.runtime import checkpoint  # noqa: PLC0415 - Spark only when it is needed

        return checkpoint.holder(self.settings.checkpoint_of(self.application)) is not None

    def _send(self, commands: list[Command], timeout: Duration | None) -> bool:
        """Whether a running application has taken it."""
        from riverrun.delivery.status import last_status  # noqa: PLC0415 - as above

        end = self.log.send(*commands)
        status = self.settings.run_of(self.application) / "status"
        give_up = time.monotonic() + (0 if timeout is None else microseconds(timeout) / 1e6)
        while self.running and time.monotonic() < give_up:
            if (last_status(status) or {}).get("control", 0) >= end:
                return True
            time.sleep(0.1)
        return False


def _no_step(step: str, known: Iterable[str]) -> InputError:
    return InputError(f"there is no step {step!r} that alerts", hint=", ".join(known))


def steps_of(settings: Settings, application: str) -> dict[str, tuple[str, ...]]:
    """The steps that alert people, with the columns of their groups."""
    from riverrun.compiler.upgrades import read  # noqa: PLC0415 - slow to import

    folder = settings.checkpoint_of(application)
    shape = read(folder)
    if shape is None:
        raise InputError(
            f"nothing is known of the application {application!r}",
            where=folder,
            hint="has it run here?",
        )
    found = {
        n: tuple(each["keys"]) for n, each in shape["steps"].items() if each["does"] == "alert"
    }
    if not found:
        raise InputError(
            f"{application!r} alerts nobody", where=folder, hint="a program does with .alert(…)"
        )
    return found
