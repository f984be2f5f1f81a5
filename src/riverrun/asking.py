"""Questions to a running application: `riverrun.asking.ask("shop.per_user", "SELECT …")`.

The question goes down the control log, every page answers at the same point of the stream, and what
they answer is put together here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from threading import Event
from uuid import uuid4

from riverrun import config
from riverrun.arguments import checked
from riverrun.config import Settings
from riverrun.config_tables import NAME
from riverrun.control import Command, control_topic
from riverrun.durations import Duration, duration_text, microseconds
from riverrun.errors import InputError, JobError
from riverrun.kafka.answers import AnswerTopic
from riverrun.kafka.browse import Browser
from riverrun.kafka.control import ControlLog
from riverrun.kernels.questions import Part, Question, part_of
from riverrun.questions.answer import Answer, Parts, answer
from riverrun.questions.split import Split, split
from riverrun.schema import Schema, schema_of

__all__ = ["Answer", "Asker", "Patience", "ask"]

TIMEOUT = "30 seconds"
STATES = {
    "held": "a backup or a restore holds it",
    "stopped": "it was stopped",
    "finished": "it has read all, and ended",
    "failed": "it has failed: `riverrun ps` tells why",
    "died": "it was killed",
}


class NoAnswer(JobError):
    """It was waited for long enough."""


class Patience(Event):
    """How long an answer is waited for; `set()` from another thread ends it at once."""

    def __init__(self, timeout: Duration = TIMEOUT) -> None:
        super().__init__()
        self.length = microseconds(timeout)
        self.ends_at = time.monotonic() + self.length / 1e6

    @property
    def left(self) -> float:
        return self.ends_at - time.monotonic()

    def is_set(self) -> bool:
        return super().is_set() or self.left <= 0

    @property
    def given_up(self) -> bool:
        """Whether somebody has ended it."""
        return super().is_set()


@checked
def ask(name: str, sql: str, *, timeout: Duration = TIMEOUT, brokers: str | None = None) -> Answer:
    """The answer of a running application to one SELECT over the table of a step.

    `ask("shop.per_user", "SELECT count(*) AS users FROM per_user").rows`. The table is called as
    its step is, or `rows`.
    """
    settings = config.load().override(brokers=brokers)
    application, step = step_called(settings, name)
    return Asker(application, settings=settings).ask(step, sql, timeout=timeout)


@checked
class Asker:
    """Asks one application. Threads may share it."""

    def __init__(self, application: str, *, settings: Settings | None = None) -> None:
        self.settings = settings or config.load()
        self.application = application

    def ask(
        self,
        step: str,
        sql: str,
        *,
        timeout: Duration = TIMEOUT,
        patience: Patience | None = None,
    ) -> Answer:
        """What is wrong with the question is an error before it is sent. Nothing is left behind
        but the question in the control log."""
        plan = split(sql, step, table_of(self.settings, self.application, step))
        waiting = patience or Patience(timeout)
        _require_running(self.settings, self.application)
        asked, client = Parts(uuid4().hex), _client(self.settings)
        with AnswerTopic(client, self.application).opened() as browser:
            log = ControlLog(client, self.application)
            sent = log.send(_command(plan, asked.question, waiting)) - 1
            parts = _heard(browser, asked, waiting)
        if parts is None:
            raise self._not_answered(asked, waiting, sent)
        return answer(plan, parts, seconds=max(waiting.left, 1.0))

    def _not_answered(self, asked: Parts, waiting: Patience, sent: int) -> JobError:
        app = self.application
        if waiting.given_up:
            return JobError("the question was given up", where=app, got=asked.pages)
        _require_running(self.settings, app)
        return NoAnswer(
            f"the application {app!r} has not answered within {duration_text(waiting.length)}",
            got=f"{asked.pages}; the question is record {sent} of {control_topic(app)}, of which "
            f"it has read {_read(self.settings, app)}",
            hint="it answers with its next batch; a longer timeout waits for it",
        )


def _client(settings: Settings) -> dict[str, str]:
    from riverrun.embedded import kafka  # noqa: PLC0415 - checks need no client

    return kafka.client(settings)


def _command(plan: Split, id: str, waiting: Patience) -> Command:
    until = time.time_ns() // 1000 + int(waiting.left * 1e6)
    return Question(id, plan.step, plan.page).command(until)


def _heard(browser: Browser, asked: Parts, waiting: Patience) -> list[Part] | None:
    for message in browser.follow(browser.latest, waiting):
        with suppress(ValueError, KeyError, TypeError):  # whatever else somebody has written there
            asked.add(part_of(message.value() or b""))
        if (whole := asked.whole()) is not None:
            return whole
    return None


def _require_running(settings: Settings, name: str) -> None:
    from riverrun.runtime.applications import application  # noqa: PLC0415 - Spark when needed

    found = application(settings, name)
    if not found.running:
        raise JobError(
            f"the application {name!r} does not run",
            where=settings.checkpoint_of(name),
            got=STATES[found.state],
            hint="a question is answered by the job: start it with `riverrun run`; what is kept in "
            "a view can be asked with `riverrun query`",
        )


def _read(settings: Settings, application: str) -> int:
    from riverrun.delivery.status import last_status  # noqa: PLC0415

    return int((last_status(settings.run_of(application) / "status") or {}).get("control", 0))


def tables(settings: Settings, application: str) -> dict[str, Schema]:
    """The steps of an application whose rows can be asked for, and their columns."""
    from riverrun.compiler.upgrades import read  # noqa: PLC0415 - slow to import

    folder = settings.checkpoint_of(application)
    shape = read(folder)
    if shape is None:
        raise InputError(
            f"nothing is known of the application {application!r}",
            where=folder,
            hint="has it run here? `riverrun ps` lists those that have",
        )
    known = shape.get("tables", {})
    return {name: schema_of([(n, t) for n, t in columns]) for name, columns in known.items()}


def table_of(settings: Settings, application: str, step: str) -> Schema:
    found = tables(settings, application)
    if step not in found:
        raise InputError(
            f"no step {step!r} of {application!r} can be asked",
            hint=f"those that can: {', '.join(found) or 'none'}; they are those that keep the rows "
            "of a table, under the names that `riverrun describe` prints",
        )
    return found[step]


def step_called(
    settings: Settings, name: str, steps: Callable[[Settings, str], Collection[str]] = tables
) -> tuple[str, str]:
    """The application and the step of `APP.STEP`: both may have points in their names. `steps` are
    those of an application that can be meant."""
    from riverrun.compiler.upgrades import read  # noqa: PLC0415 - slow to import

    ways = [(name[:n], name[n + 1 :]) for n, sign in enumerate(name) if sign == "."]
    ways = [way for way in ways if NAME.fullmatch(way[0]) and way[1]]
    if not ways:
        raise InputError("a step is named with its application", got=name, hint="APP.STEP")
    known = [(app, step) for app, step in ways if read(settings.checkpoint_of(app)) is not None]
    exact = [(app, step) for app, step in known if step in steps(settings, app)]
    return (exact or known or ways)[0]
