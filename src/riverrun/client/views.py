"""A view of a server: rows by key, pages, changes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, overload

from urllib3.exceptions import HTTPError

from riverrun import exact
from riverrun.client.http import Http, Query, events, path_of, read, sendable
from riverrun.client.results import Change, Refusal, Row, Rows
from riverrun.durations import Duration, microseconds
from riverrun.errors import InputError, ServerError
from riverrun.views.asked import among
from riverrun.views.typed import reader_of, row_of

PAUSE = 1.0
"""Seconds before a follower whose connection broke tries again."""


class View:
    """A view of a server."""

    def __init__(self, http: Http, name: str) -> None:
        self.http, self.name = http, name

    def __repr__(self) -> str:
        return f"<view {self.name} of {self.http.url}>"

    @cached_property
    def _facts(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._asked(path_of("views", self.name), {"limit": "1"})
        return found

    @property
    def columns(self) -> dict[str, str]:
        """Their types, in DuckDB's names."""
        return dict(self._facts["columns"])

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that rows are found by."""
        return tuple(self._facts["key"])

    @overload
    def get(self, *key: Any, token: str, wait: Duration | None = None) -> Row: ...

    @overload
    def get(self, *key: Any, token: None = None, wait: Duration | None = None) -> Row | None: ...

    def get(self, *key: Any, token: str | None = None, wait: Duration | None = None) -> Row | None:
        """The row of a key, in which None is null; None if there is no row.

        With the token of a write it holds that; if there is no row then, it is an empty one, which
        is false, and says in `state` and `text` what has become of the write.
        """
        if len(key) != len(self.key):
            raise InputError(
                f"the key of {self.name} is ({', '.join(self.key)})", got=f"{len(key)} given"
            )
        nulls = [name for name, each in zip(self.key, key, strict=True) if each is None]
        path = path_of("views", self.name, *(_text(each) for each in key if each is not None))
        query: Query = {**_waiting(token, wait), **({"null": nulls} if nulls else {})}
        try:
            said = self._asked(path if len(nulls) < len(key) else f"{path}/", query)
        except Refusal as error:
            said = error.answer["error"]
            if error.status != 404 or "row" not in said:
                raise
            return Row().told(said) if token else None
        return self._row(said["row"]).told(said)

    def page(
        self,
        where: Mapping[str, Any] | None = None,
        *,
        order: str | None = None,
        limit: int = 100,
        after: str | None = None,
        token: str | None = None,
    ) -> tuple[Rows, str | None]:
        """Rows, and what the next page is asked with: `after`."""
        asked = {f"filter.{name}": _condition(value) for name, value in (where or {}).items()}
        more = {"order": order, "after": after, "token": token, "limit": str(limit)}
        query = {**asked, **{name: text for name, text in more.items() if text is not None}}
        found = self._asked(path_of("views", self.name), query)
        return Rows(self._row(row).told(found) for row in found["rows"]), found["next"]

    def rows(
        self, where: Mapping[str, Any] | None = None, *, order: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """All of them, page by page. The job may go on meanwhile."""
        after = None
        while True:
            rows, after = self.page(where, order=order, limit=1000, after=after)
            yield from rows
            if after is None:
                return

    def changes(self, since: str | None = None, *, reconnect: bool = True) -> Iterator[Change]:
        """Changes from a revision on, or from now on: none is missing and none comes twice, also
        when the connection breaks and is made again."""
        place = since
        while True:
            try:
                for at, change in self._stream(place):
                    place = at
                    if change is not None:
                        yield change
            except (HTTPError, ServerError):
                if not reconnect:
                    raise
            if not reconnect:
                return
            time.sleep(PAUSE)

    def _stream(self, place: str | None) -> Iterator[tuple[str, Change | None]]:
        """Changes with their places; and places without one: how far nothing has changed."""
        query = {"from": place} if place else None
        path = f"{path_of('views', self.name)}/changes"
        answer = self.http.open("GET", path, query=query, stream=True)
        try:
            if answer.status != 200:
                read(answer.status, answer.read())
            for event in events(answer):
                if "id" in event:
                    yield event["id"], self._change(event) if "data" in event else None
        finally:
            answer.release_conn()
            answer.close()

    def _change(self, event: Mapping[str, str]) -> Change:
        data = exact.loads(event["data"])
        row = self._row(data["row"]) if "row" in data else None
        kind: Literal["put", "delete"] = "put" if row is not None else "delete"
        return Change(kind, self._key(data["key"]), row, data["revision"], event["id"])

    def _key(self, said: Any) -> Any:
        columns = self._facts["columns"]
        if len(self.key) == 1:
            return reader_of(columns[self.key[0]])(said)
        return row_of(columns, said)

    def _row(self, said: Mapping[str, Any]) -> Row:
        if not said.keys() <= self._facts["columns"].keys():  # the program has got more of them
            del self._facts
        return Row(row_of(self._facts["columns"], said))

    def _asked(self, path: str, query: Query) -> Any:
        return self.http.request("GET", path, query=query)


def _waiting(token: str | None, wait: Duration | None) -> dict[str, str]:
    seconds = {} if wait is None else {"wait": str(microseconds(wait, "wait") / 1e6)}
    return {} if token is None else {"token": token, **seconds}


def _condition(value: Any) -> str:
    """A text may be a condition of its own, such as `ge.10`."""
    match value:
        case None:
            return "is.null"
        case str():
            return value
        case list() | tuple() | set() | frozenset():
            return among(None if each is None else _text(each) for each in value)
        case _:  # any other: a value of one's own
            return f"eq.{_text(value)}"


def _text(value: Any) -> str:
    """As paths and conditions have it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float() | Decimal():
            return str(value)
        case list() | dict():
            return exact.dumps(value, other=sendable)
        case _:  # any other: as it is sent
            return sendable(value)
