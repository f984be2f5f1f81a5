"""Views over HTTP: rows by key, pages, queries."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from riverrun import exact
from riverrun.errors import InputError
from riverrun.server.answers import Answer, Refused
from riverrun.server.changes import Follower
from riverrun.server.context import Context
from riverrun.server.freshness import freshness, told
from riverrun.server.limits import body, is_number, page_size, patience
from riverrun.server.paths import REST
from riverrun.server.revealing import OPTION as REVEAL
from riverrun.server.revealing import revealed
from riverrun.views import Token
from riverrun.views.asked import Words
from riverrun.views.reading import Known, with_nulls
from riverrun.views.tokens import Verdict

OPTIONS = ("order", "limit", "after", "columns", "token", "wait", REVEAL)
FILTER = "filter."
QUERY_ROWS, QUERY_SECONDS = 10_000, 10.0


class Views:
    def __init__(self, context: Context) -> None:
        self.context, self.follower = context, Follower(context)

    def routes(self) -> list[Route]:
        guarded = self.context.guarded
        return [
            Route("/views", guarded("query", None, self.all), methods=["GET"]),
            Route("/views/{view}", guarded("read", "view", self.page), methods=["GET"]),
            Route(f"/views/{{view}}/{REST}", guarded("read", "view", self.found), methods=["GET"]),
            Route("/query", guarded("query", None, self.query), methods=["POST"]),
        ]  # fmt: skip

    async def all(self, request: Request) -> Response:
        reader = self.context.reader
        found = []
        for view in await self.context.reading(reader.views):
            found.append({**_facts(view), **await self._fresh(view)})
        return Answer({"views": found})

    async def found(self, request: Request) -> Response:
        """A row, or changes. The key is read from the path as it was sent: a slash in it is
        written %2F, and one that is `changes` itself %63hanges. Columns that are null have no part
        in it."""
        raw = request.scope["raw_path"].decode("ascii", "replace").split("/")[3:]
        if raw == ["changes"]:
            return await self.follower.follow(request)
        return await self.row(request, [unquote(part) for part in raw])

    async def row(self, request: Request, parts: list[str]) -> Response:
        name, reader = request.path_params["view"], self.context.reader
        view = await self.context.reading(lambda: reader.view(name), quick=True)
        key = with_nulls(view, parts, request.query_params.getlist("null"))
        verdict = await self._awaited(request, view)
        fresh = await self._fresh(view)
        row = await self.context.reading(lambda: reader.get(name, key), quick=True)
        said = {"row": row, **fresh, **({"token": told(verdict)} if verdict else {})}
        if row is None:
            raise Refused(404, "there is no such row", got="/".join(parts)[:200], more=said)
        return Answer(await revealed(self.context, request, view, said))

    async def page(self, request: Request) -> Response:
        name, reader = request.path_params["view"], self.context.reader
        view = await self.context.reading(lambda: reader.view(name), quick=True)
        words = _words(request)
        verdict = await self._awaited(request, view)
        fresh = await self._fresh(view)
        page = await self.context.reading(lambda: reader.page(name, words))
        said = {**_facts(view), "rows": page.rows, "next": page.next, **fresh}
        token = {"token": told(verdict)} if verdict else {}
        read = await revealed(self.context, request, view, {**said, **token})
        return await run_in_threadpool(Answer, read)

    async def query(self, request: Request) -> Response:
        asked = _asked(await body(request, self.context.limits))
        limit = min(asked.get("limit", 1000), QUERY_ROWS)
        seconds = min(asked.get("timeout", QUERY_SECONDS), QUERY_SECONDS)
        found = await self.context.slowly(
            "query",
            lambda: self.context.reader.query(asked["sql"], seconds=seconds, limit=limit),
        )
        said = {"columns": found.names, "rows": found.rows, "more": found.more}
        return await run_in_threadpool(Answer, said)

    async def _fresh(self, view: Known) -> dict[str, Any]:
        """Looked up before the rows: they are at least of this revision."""
        last = self.context.reader.last
        note = await self.context.reading(lambda: last(view.application), quick=True)
        return freshness(view, note, await self.context.log_ends(view.ways.topics))

    async def _awaited(self, request: Request, view: Known) -> Verdict | None:
        """What has become of a token's records; a Refused if they have not been read in time."""
        text = request.query_params.get("token")
        if text is None:
            return None
        token, seconds = Token.parse(text), patience(request)
        give_up_at = time.monotonic() + seconds
        while True:
            found = await self.context.reading(
                lambda: self.context.reader.verdict(view.name, token), quick=True
            )
            left = give_up_at - time.monotonic()
            if found.state != "waiting":
                return found
            if left <= 0:
                raise Refused(
                    504, f"the view does not hold it after {seconds:g} s",
                    hint="does the application run? ask again with the same token",
                    more={"token": told(found), **await self._fresh(view)},
                )  # fmt: skip
            await self.context.changed(left)


def _facts(view: Known) -> dict[str, Any]:
    layout = view.layout
    return {
        "view": view.name,
        "application": view.application,
        "key": list(layout.key),
        "columns": dict(layout.columns),
    }


def _words(request: Request) -> Words:
    pairs = request.query_params.multi_items()
    filters = [
        (name.removeprefix(FILTER), text) for name, text in pairs if name not in OPTIONS
    ]  # fmt: skip
    given, limit = request.query_params, page_size(request)
    return Words(filters, given.get("order"), limit, given.get("after"), given.get("columns"))


def _asked(sent: bytes) -> dict[str, Any]:
    try:
        found = exact.loads(sent)
        limit, seconds = found.get("limit", 1), found.get("timeout", 1)
        fits = isinstance(found["sql"], str) and isinstance(limit, int)
        fits = fits and is_number(limit) and is_number(seconds)
        fits = fits and limit >= 1 and seconds > 0
        found["sql"].encode()  # halves of signs are no text
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        fits = False
    if not fits:
        raise InputError(
            "the question cannot be read",
            hint='{"sql": "SELECT …", "limit": 100, "timeout": 5}, in seconds, 10 at most',
        )
    asked: dict[str, Any] = found
    return asked
