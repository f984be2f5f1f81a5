"""Stored queries and live rules over HTTP: what stands at a step, and changes to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any, Literal

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from riverrun.control import control_topic
from riverrun.errors import InputError
from riverrun.operators.rules.rule import MOST_BYTES
from riverrun.queries import Queries
from riverrun.rules import Rules
from riverrun.server.answers import Answer, Refused
from riverrun.server.context import Context
from riverrun.server.limits import body, page_size, patience
from riverrun.server.paths import REST
from riverrun.server.steps import step_here
from riverrun.told import Asked, Known, nested_deeply, standing

Word = Literal["queries", "rules"]
KINDS: dict[Word, type[Asked]] = {"queries": Queries, "rules": Rules}
PAGE, LARGEST = 100, 10_000
"""Of what stands, so many at a time; and at most."""


class ToldDoor:
    """What goes by the control log, and is answered there."""

    def __init__(self, context: Context, word: Word) -> None:
        self.context, self.word, self.kind = context, word, KINDS[word]

    def routes(self) -> list[Route]:
        guarded, step = self.context.guarded, f"/{self.word}/{{step}}"
        return [
            Route(step, guarded("ask", "step", self.page), methods=["GET"]),
            Route(f"{step}/{REST}", guarded("ask", "step", self.one), methods=["GET"]),
            Route(f"{step}/{REST}", guarded("change", "step", self.put), methods=["PUT"]),
            Route(f"{step}/{REST}", guarded("change", "step", self.remove), methods=["DELETE"]),
        ]

    async def page(self, request: Request) -> Response:
        given, size = request.query_params, page_size(request)
        limit = PAGE if size is None else size
        everything, after = given.get("all") == "true", given.get("after", "")
        if not 1 <= limit <= LARGEST:
            raise InputError("a page is not of that size", got=limit, hint=f"1 to {LARGEST:,}")

        def found() -> tuple[Asked, dict[str, Known]]:
            step = self._step(request)
            return step, step.all() if everything else step.standing()

        step, known = await self.context.slowly("control log", found)
        names = sorted(name for name in known if name > after)
        said = {
            "application": step.application, "step": step.step,
            self.word: [asdict(known[name]) for name in names[:limit]],
            "next": names[limit - 1] if len(names) > limit else None,
        }  # fmt: skip
        return await run_in_threadpool(Answer, said)

    async def one(self, request: Request) -> Response:
        """What stands under a name, and what was asked of it last, if that is another thing."""
        name = request.path_params["rest"]

        def found() -> list[Known]:
            return [each for each in self._step(request).history() if each.name == name]

        asked = await self.context.slowly("control log", found)
        known = standing(asked).get(name)
        last = asdict(asked[-1]) if asked and asked[-1] is not known else None
        if known is None:
            raise self._missing(name, last)
        return Answer({**asdict(known), "last": last})

    async def put(self, request: Request) -> Response:
        limits = replace(self.context.limits, body=MOST_BYTES)
        given = _given(await body(request, limits), request.path_params["rest"], self.kind.noun)
        seconds = patience(request)
        return await self.context.slowly("control log", lambda: self._put(request, given, seconds))

    def _put(self, request: Request, given: dict[str, Any], seconds: float) -> Response:
        step = self._step(request)
        try:
            step.require(given)
        except InputError as error:
            raise _refused(422, vars(error)) from error
        return _asked(step, step.bring, given, seconds)

    async def remove(self, request: Request) -> Response:
        seconds = patience(request)
        return await self.context.slowly("control log", lambda: self._remove(request, seconds))

    def _remove(self, request: Request, seconds: float) -> Response:
        """What does not stand is not asked for: names may be long, and the log is kept for ever."""
        step, name = self._step(request), request.path_params["rest"]
        if name not in step.standing():
            raise self._missing(name, None)
        return _asked(step, self.kind.take, {"name": name}, seconds)

    def _step(self, request: Request) -> Asked:
        settings, name = self.context.settings, request.path_params["step"]
        known = self.kind.steps
        named = step_here(
            settings, name, lambda *each: known(*each) or (), f"with {self.kind.several}"
        )
        return self.kind(*named, settings=settings)

    def _missing(self, name: str, last: dict[str, Any] | None) -> Refused:
        fact = f"there is no such {self.kind.noun}"
        return Refused(404, fact, got=name[:200], more={"last": last})


def _given(sent: bytes, name: str, noun: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(sent)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()  # else it is no JSON
        fits = isinstance(found, dict) and found.get("name", name) == name
        fits = fits and not nested_deeply(found)
    except (ValueError, RecursionError):
        fits = False
    if not fits:
        parts = '{"query": "…"}' if noun == "query" else '{"pattern": "…"}'
        raise InputError(f"the {noun} cannot be read", hint=f"{parts}, with the name in the path")
    return {**found, "name": name}


def _asked(step: Asked, kind: str, given: dict[str, Any], seconds: float) -> Response:
    """What the job has answered. If none runs, it is not waited for one: it will read the log."""
    running = step.running
    [known] = step.ask(kind, [given], timedelta(seconds=seconds) if running else None)
    if known.refused is not None:
        raise _refused(404 if kind == step.take else 422, known.refused)
    if known.state != "not answered":
        return Answer(asdict(known))
    application = step.application
    if not running:
        text = f"the application {application!r} does not run: it answers when it runs next"
        return Answer({**asdict(known), "text": text}, 202)
    raise Refused(
        504, f"the application {application!r} has not answered within {seconds:g} s",
        got=f"it is record {known.offset} of {control_topic(application)}, of which {step.read} "
        "have taken effect",
        hint="it stays in the log, and is answered with a batch to come: GET tells",
        more={"known": asdict(known)},
    )  # fmt: skip


def _refused(status: int, parts: Mapping[str, Any]) -> Refused:
    """With the place that the error points at: of the text that was sent, not of this machine."""
    return Refused(
        status, parts["fact"], got=parts["got"], hint=parts["hint"],
        more={"where": parts["where"]},
    )  # fmt: skip
