"""Alerts over HTTP: what stands, who has taken it on, and what is silenced."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from riverrun import exact
from riverrun.alerting import Alerts, steps_of
from riverrun.config import Settings
from riverrun.durations import microseconds
from riverrun.errors import InputError, ProgramError
from riverrun.operators.alert.silences import LONGEST
from riverrun.server.answers import Answer
from riverrun.server.context import Context, Handler
from riverrun.server.limits import body, patience
from riverrun.server.steps import step_here

Given = dict[str, Any]
Way = Callable[[Alerts, Given, timedelta], tuple[Given, bool]]
"""What is done of what somebody says: what there is to tell of it, and whether it is in effect."""
LONGEST_SILENCE = microseconds("366 days", "")
MOST_MATCHERS = 100


class AlertDoor:
    def __init__(self, context: Context) -> None:
        self.context = context

    def routes(self) -> list[Route]:
        guarded, step = self.context.guarded, "/alerts/{step}"
        said = {word: guarded("change", "step", self.saying(way)) for word, way in WAYS.items()}
        return [
            Route(step, guarded("ask", "step", self.all), methods=["GET"]),
            *(Route(f"{step}/{word}", each, methods=["POST"]) for word, each in said.items()),
        ]

    async def all(self, request: Request) -> Response:
        def found() -> Response:
            alerts = self._alerts(request)
            [silences] = alerts.silences().values()
            said = [each.data for each in alerts.standing()]
            return Answer({"alerts": said, "silences": [each.data for each in silences]})

        return await self.context.slowly("control log", found)

    def saying(self, way: Way) -> Handler:
        """Takes what somebody says: it is in effect, or will be when the application runs next."""

        async def said(request: Request) -> Response:
            given, seconds = _given(await body(request, self.context.limits)), patience(request)
            given.setdefault("by", self.context.guard.holder(request))

            def answered() -> Response:
                facts, effect = way(self._alerts(request), given, timedelta(seconds=seconds))
                return Answer({**facts, "in_effect": effect}, 200 if effect else 202)

            return await self.context.slowly("control log", answered)

        return said

    def _alerts(self, request: Request) -> Alerts:
        settings, name = self.context.settings, request.path_params["step"]
        named = step_here(settings, name, _steps, "that alerts")
        return Alerts(*named, settings=settings)


def _ack(alerts: Alerts, given: Given, wait: timedelta) -> tuple[Given, bool]:
    found, effect = alerts.acknowledge(
        _text(given, "alert"), by=_text(given, "by"), comment=_perhaps(given, "comment"),
        timeout=wait,
    )  # fmt: skip
    return found.data, effect


def _silence(alerts: Alerts, given: Given, wait: timedelta) -> tuple[Given, bool]:
    made, effect = alerts.silence(
        *_matchers(given), lasts=_lasts(given), by=_text(given, "by"),
        comment=_perhaps(given, "comment"), timeout=wait,
    )  # fmt: skip
    return made.data, effect


def _unsilence(alerts: Alerts, given: Given, wait: timedelta) -> tuple[Given, bool]:
    named = _text(given, "id")
    return {"id": named}, alerts.unsilence(named, timeout=wait)


WAYS: dict[str, Way] = {"ack": _ack, "silence": _silence, "unsilence": _unsilence}


def _steps(settings: Settings, application: str) -> Collection[str]:
    try:
        return steps_of(settings, application)
    except InputError:
        return ()


def _given(sent: bytes) -> Given:
    try:
        found: Any = exact.loads(sent)
        exact.dumps(found).encode()  # halves of signs are no text
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError("what is said cannot be read", hint='{"alert": "5b0cf1", "by": "ann"}')
    return found


def _matchers(given: Given) -> list[str]:
    found = given.get("matchers")
    if not isinstance(found, list) or len(found) > MOST_MATCHERS:
        raise InputError("'matchers' are needed, a list", hint=f"at most {MOST_MATCHERS}")
    return [_text({"a matcher": each}, "a matcher") for each in found]


def _lasts(given: Given) -> str:
    text = _perhaps(given, "lasts") or "1 hour"
    try:
        fits = microseconds(text, "") <= LONGEST_SILENCE
    except ProgramError:
        fits = False
    if not fits:
        raise InputError("how long it lasts cannot be read", got=text, hint="2 hours; 366 days")
    return text


def _text(given: Given, part: str) -> str:
    found = _perhaps(given, part)
    if found is None:
        raise InputError(f"{part!r} is missing", hint="a text")
    return found


def _perhaps(given: Given, part: str) -> str | None:
    """A text that need not be there; an empty one is none."""
    found = given.get(part)
    if found is not None and (not isinstance(found, str) or len(found) > LONGEST):
        raise InputError(f"{part!r} is a text", hint=f"at most {LONGEST:,} characters")
    return found or None
