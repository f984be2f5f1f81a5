"""Commands to aggregates over HTTP, answered with what became of them."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any, NamedTuple
from uuid import uuid4

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from riverrun import exact
from riverrun.commands import Commands, NoReply, Reply
from riverrun.errors import InputError
from riverrun.happened import place_of
from riverrun.server.answers import Answer, Refused
from riverrun.server.context import Context
from riverrun.server.limits import body, is_number

SECONDS, LEAST, MOST = 30.0, 0.001, 60.0
REFUSED = {"rejected": 409, "failed": 422}


class Sent(NamedTuple):
    command: tuple[str, dict[str, Any]]
    id: str
    version: int | None
    by: str | None
    timeout: float


class CommandDoor:
    """One client for each kind of aggregates: replies come by the command's id."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._clients: dict[str, Commands] = {}
        self._opening = asyncio.Lock()

    def routes(self) -> list[Route]:
        send = self.context.guarded("send", "kind", self.send)
        return [Route("/commands/{kind}/{id:path}", send, methods=["POST"])]

    async def send(self, request: Request) -> Response:
        sent = _sent(await body(request, self.context.limits))
        to, commands = request.path_params["id"], await self._client(request.path_params["kind"])
        reply = await run_in_threadpool(
            commands.submit, sent.command, to=to, id=sent.id, version=sent.version, by=sent.by
        )
        return _answer(await _heard(reply, commands, sent))

    async def _client(self, kind: str) -> Commands:
        async with self._opening:
            if kind not in self._clients:
                settings = self.context.settings
                place = await run_in_threadpool(place_of, settings, kind)
                self._clients[kind] = Commands(
                    place.commands, replies=place.replies, settings=settings
                )
            return self._clients[kind]


async def _heard(reply: Future[Reply], commands: Commands, sent: Sent) -> Reply:
    try:
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(reply)), sent.timeout)
    except TimeoutError:
        commands.forget(sent.id)
        found: NoReply = commands.no_reply(sent.id, round(sent.timeout * 1e6))
        raise Refused(504, found.fact, got=found.got, hint=found.hint) from None


def _answer(reply: Reply) -> Response:
    found = asdict(reply)
    if reply.accepted:
        return Answer(found)
    raise Refused(REFUSED[reply.outcome], str(reply.reason), more={"reply": found})


def _sent(given: bytes) -> Sent:
    """What is asked, checked as far as the server can: the rules are the application's."""
    try:
        found: Any = exact.loads(given)
        sent = Sent(
            (found["type"], found.get("data", {})), found.get("id") or uuid4().hex,
            found.get("version"), found.get("by"), found.get("timeout", SECONDS),
        )  # fmt: skip
        fits = _fits(sent) and found.keys() <= {"type", "data", "id", "version", "by", "timeout"}
        exact.dumps(found).encode()  # halves of signs are no text
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        fits = False
    if not fits:
        raise InputError(
            "the command cannot be read",
            hint='{"type": "Deposit", "data": {"cents": 5}}, and if you like "id", "version", "by" '
            f'and "timeout" in seconds, {MOST:g} at most',
        )
    return sent


def _fits(sent: Sent) -> bool:
    name, fields = sent.command
    texts = isinstance(name, str) and isinstance(sent.id, str) and isinstance(sent.by, str | None)
    whole = sent.version is None or (type(sent.version) is int and 0 <= sent.version < 1 << 63)
    seconds = is_number(sent.timeout) and LEAST <= sent.timeout <= MOST
    return texts and whole and seconds and isinstance(fields, dict)
