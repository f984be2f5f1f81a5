"""Questions to running applications over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from riverrun import exact
from riverrun.asking import Answer as Found
from riverrun.asking import Asker, step_called
from riverrun.errors import InputError
from riverrun.server.answers import Answer
from riverrun.server.context import Context
from riverrun.server.limits import body, is_number

SECONDS, LEAST, MOST = 10.0, 0.001, 60.0


class Questions:
    def __init__(self, context: Context) -> None:
        self.context = context

    def routes(self) -> list[Route]:
        asked = self.context.guarded("ask", "step", self.ask)
        return [Route("/ask/{step}", asked, methods=["POST"])]

    async def ask(self, request: Request) -> Response:
        sql, seconds = _asked(await body(request, self.context.limits))
        name, settings = request.path_params["step"], self.context.settings

        def answered() -> Found:
            application, step = step_called(settings, name)
            asker = Asker(application, settings=settings)
            return asker.ask(step, sql, timeout=timedelta(seconds=seconds))

        return Answer((await self.context.slowly("question", answered)).as_json())


def _asked(sent: bytes) -> tuple[str, float]:
    try:
        found: Any = exact.loads(sent)
        sql, seconds = found["sql"], found.get("timeout", SECONDS)
        fits = isinstance(sql, str) and bool(sql.strip())
        fits = fits and is_number(seconds) and LEAST <= seconds <= MOST
        sql.encode()  # halves of signs are no text
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        fits = False
    if not fits:
        raise InputError(
            "the question cannot be read",
            hint=f'{{"sql": "SELECT …", "timeout": 10}}, in seconds, {MOST:g} at most',
        )
    return sql, float(seconds)
