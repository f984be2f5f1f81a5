"""Answers in JSON, and refusals, which all have one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from riverrun import exact
from riverrun.alerting import NoAlert
from riverrun.asking import NoAnswer
from riverrun.errors import BrokerError, DatabaseError, InputError, NoTopic, RiverrunError
from riverrun.views.reading import Gone, NoView

WORDS = {
    400: "the request cannot be read", 404: "there is no such thing here",
    405: "this is not done here", 413: "the request is too large",
}  # fmt: skip


class Answer(Response):
    media_type = "application/json"

    def __init__(
        self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(content, status, dict(headers) if headers else None)

    def render(self, content: Any) -> bytes:
        return exact.dumps(content, other=str).encode()


class Refused(Exception):
    """A request that is not carried out."""

    def __init__(
        self,
        status: int,
        fact: str,
        *,
        got: object = None,
        hint: str | None = None,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(fact)
        self.status, self.headers = status, headers
        self.body = refusal(fact, got=got, hint=hint, **(more or {}))


def refusal(
    fact: str, *, got: object = None, hint: str | None = None, code: str = "RR103", **more: Any
) -> dict[str, Any]:
    said = {"code": code, "fact": fact, "got": None if got is None else str(got), "hint": hint}
    return {"error": said | more}


async def of_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return Answer(error.body, error.status, error.headers)


async def of_error(request: Request, error: Exception) -> Response:
    """What went wrong on purpose. `where` may be a path of this machine: it stays here."""
    assert isinstance(error, RiverrunError)
    body = refusal(error.fact, got=_shown(error), hint=error.hint, code=error.code)
    return Answer(body, _status(error))


def _shown(error: RiverrunError) -> object:
    """What databases say may name addresses and files."""
    return None if isinstance(error, DatabaseError | BrokerError) else error.got


def _status(error: RiverrunError) -> int:
    match error:
        case Gone():
            return 410
        case NoView() | NoTopic() | NoAlert():
            return 404
        case InputError():
            return 400
        case NoAnswer():
            return 504
        case _:  # any other: a server that this one needs is away
            return 503


async def of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    fact = WORDS.get(error.status_code, error.detail)  # any other: in Starlette's words
    return Answer(refusal(fact), error.status_code, error.headers)


async def of_bug(request: Request, error: Exception) -> Response:
    return Answer(refusal("the server has failed", hint="its log tells why", code="RR000"), 500)
