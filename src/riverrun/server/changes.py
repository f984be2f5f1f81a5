"""The changes of a view as server-sent events: none is missing and none comes twice, also over
connections that break, as long as changes are kept."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from riverrun.server.answers import Refused
from riverrun.server.context import Context
from riverrun.sinks.viewing.notes import BEGINNING
from riverrun.views.reading import Change, Place, never_was

AT_ONCE = 1000
BEAT = 15.0
"""Seconds after which something is sent, so that nobody takes the connection for dead, and all know
how far they have come."""
KEPT = 256
"""Pieces of streams that are kept for others at the same place."""


class Follower:
    def __init__(self, context: Context) -> None:
        self.context = context
        self._pieces: OrderedDict[tuple[str, Place], tuple[bytes, Place]] = OrderedDict()

    async def follow(self, request: Request) -> Response:
        name = request.path_params["view"]
        if self.context.streams >= self.context.limits.streams:
            raise Refused(503, "there are too many followers", headers={"Retry-After": "10"})
        place = await self._start(request, name)
        first = await self._piece(name, place)  # an error while there is still a status to tell it
        return StreamingResponse(
            self._events(name, place, first),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _start(self, request: Request, name: str) -> Place:
        """After what was seen last, from a revision on, or from now on."""
        given = request.headers.get("last-event-id") or request.query_params.get("from")
        if given is not None:
            place, now = Place.parse(given), await self._now(name)
            if place > now:  # of a database that was lost or put back: what it told is not here
                raise never_was(name, place, now)
            return place
        return await self._now(name)

    async def _now(self, name: str) -> Place:
        """After all that there is."""
        reader = self.context.reader
        view = await self.context.reading(lambda: reader.view(name), quick=True)
        note = await self.context.reading(lambda: reader.last(view.application), quick=True)
        return Place(note.revision if note else BEGINNING)

    async def _events(
        self, name: str, place: Place, piece: tuple[bytes, Place] | None
    ) -> AsyncIterator[bytes]:
        self.context.streams += 1
        try:
            yield f"retry: 1000\n{_at(place)}".encode()
            told_at = time.monotonic()
            while True:
                while piece is not None:
                    data, place = piece
                    yield data
                    told_at = time.monotonic()
                    piece = await self._piece(name, place)
                await self.context.changed(BEAT)
                due = time.monotonic() >= told_at + BEAT
                now = await self._now(name) if due else place
                piece = await self._piece(name, place)
                if piece is None and due:
                    # nothing has changed up to there: what comes before it need not be kept
                    place, told_at = max(place, now), time.monotonic()
                    yield _at(place).encode()
        finally:
            self.context.streams -= 1

    async def _piece(self, name: str, place: Place) -> tuple[bytes, Place] | None:
        """The next changes, as they are sent; all who are at the same place share them."""
        known = self._pieces.get((name, place))
        if known is not None:
            return known
        found = await self.context.reading(
            lambda: self.context.reader.changes(name, place, AT_ONCE), quick=True
        )
        if not found:
            return None
        piece = b"".join(map(_event, found)), found[-1].place
        self._pieces[name, place] = piece
        while len(self._pieces) > KEPT:
            self._pieces.popitem(last=False)
        return piece


def _at(place: Place) -> str:
    """A place for whoever connects again; without data, browsers tell nobody of it."""
    return f"id: {place}\n\n"


def _event(change: Change) -> bytes:
    """In one line of JSON."""
    key = change.key
    revision = f'"revision": "{change.place.revision}"'
    if change.value is None:
        kind, data = "delete", f'{{"key": {key}, {revision}}}'
    else:
        kind, data = "put", f'{{"key": {key}, {revision}, "row": {change.value}}}'
    return f"id: {change.place}\nevent: {kind}\ndata: {data}\n\n".encode()
