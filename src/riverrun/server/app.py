"""The application of the server: its routes, put together."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from riverrun.config import Settings
from riverrun.errors import RiverrunError
from riverrun.server import metrics
from riverrun.server.alerting import AlertDoor
from riverrun.server.answers import Answer, Refused, of_bug, of_error, of_http, of_refused
from riverrun.server.commands import CommandDoor
from riverrun.server.context import Context
from riverrun.server.freshness import LogEnds
from riverrun.server.ingest.udp import UdpDoor
from riverrun.server.limits import Limits, Rates
from riverrun.server.openapi import described
from riverrun.server.places import reader_of
from riverrun.server.questions import Questions
from riverrun.server.security import Guard, Tokens
from riverrun.server.told import ToldDoor
from riverrun.server.topics import Topics
from riverrun.server.views import Views

PAGE = Path(__file__).with_name("page.html")
"""At which the server can be tried."""
OWN = "default-src 'self' 'unsafe-inline'"


def build(
    settings: Settings,
    *,
    local: bool = True,
    limits: Limits | None = None,
    udp: UdpDoor | None = None,
) -> Starlette:
    """`local`: only this machine reaches it."""
    limits = limits or Limits()
    context = Context(
        settings, reader_of(settings), Guard(Tokens(settings), local=local), limits,
        LogEnds(settings), Rates(limits),
    )  # fmt: skip
    topics = Topics(context, udp)
    return Starlette(
        routes=[
            *Views(context).routes(),
            *topics.routes(),
            *Questions(context).routes(),
            *CommandDoor(context).routes(),
            *ToldDoor(context, "queries").routes(),
            *ToldDoor(context, "rules").routes(),
            *AlertDoor(context).routes(),
            *metrics.routes(settings, context.guard, topics.samples),
            *_about(),
        ],
        exception_handlers={
            Refused: of_refused,
            RiverrunError: of_error,
            HTTPException: of_http,
            Exception: of_bug,
        },
    )


def _about() -> list[Route]:
    async def openapi(request: Request) -> Response:
        return Answer(described())

    async def page(request: Request) -> Response:
        return HTMLResponse(PAGE.read_text(), headers={"Content-Security-Policy": OWN})

    return [
        Route("/openapi.json", openapi, methods=["GET"]),
        Route("/", page, methods=["GET"]),
    ]
