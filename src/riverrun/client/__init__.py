"""A client of the server: `riverrun.client.Client().view("per_country").get("de")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from riverrun import config
from riverrun.arguments import checked
from riverrun.client.http import Http, path_of
from riverrun.client.results import Answer, Change, Fresh, Refusal, Row, Rows, Token
from riverrun.client.sending import fitted
from riverrun.client.told import AlertsOf, Told
from riverrun.client.views import View
from riverrun.durations import Duration, microseconds
from riverrun.errors import ConfigError, InputError
from riverrun.server import noted
from riverrun.views.typed import moment, row_of

__all__ = ["Answer", "Change", "Client", "Fresh", "Refusal", "Row", "Rows", "Token", "View"]


@checked
class Client:
    """A client of the server at `url`; without one, of the server of this machine's home: of
    several, the one that began last."""

    def __init__(self, url: str | None = None, *, token: str | None = None) -> None:
        self.url = (url or _local()).rstrip("/")
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigError(
                "the address of the server cannot be read", got=repr(self.url),
                hint="http://127.0.0.1:8650",
            )  # fmt: skip
        self.http = Http(self.url, token)

    def __repr__(self) -> str:
        return f"<riverrun at {self.url}>"

    def views(self) -> list[str]:
        """The names of all views."""
        return [each["view"] for each in self.request("GET", "/views")["views"]]

    def view(self, name: str) -> View:
        return View(self.http, name)

    def query(self, sql: str, *, limit: int = 1000, timeout: Duration = "10 seconds") -> Rows:
        """SQL over views. Columns have the types of the database that they are in."""
        asked = {"sql": sql, "limit": limit, "timeout": microseconds(timeout, "timeout") / 1e6}
        found = self.request("POST", "/query", body=asked)
        return Rows(dict(zip(found["columns"], row, strict=True)) for row in found["rows"])

    def send(
        self,
        topic: str,
        records: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        once: str | None = None,
        partial: bool = False,
    ) -> Token:
        """Writes records to a topic, all or none, and returns the token for readers who are to see
        them. What is sent again with the same text for `once` is written once. With `partial` those
        that fit are written, and the token's `errors` tell of the others."""
        path = path_of("topics", topic)
        sent = fitted(records, lambda: self.request("GET", path)["columns"])
        found = self.request(
            "POST", path, body=sent, query={"partial": "true"} if partial else None,
            headers={"Idempotency-Key": once} if once else {},
        )  # fmt: skip
        return Token.of(found)

    def ask(self, step: str, sql: str, *, timeout: Duration = "10 seconds") -> Answer:
        """SQL over what a step of a running application keeps, such as `shop.per_user`: see
        `riverrun ask`."""
        asked = {"sql": sql, "timeout": microseconds(timeout, "timeout") / 1e6}
        said = self.request("POST", path_of("ask", step), body=asked)
        columns: dict[str, str] = said["columns"]
        rows = Rows(row_of(columns, row) for row in said["rows"])
        times = moment(said["at"]), moment(said["clock"])
        return Answer(rows, columns, said["batch"], *times, said["offsets"])

    def queries(self, step: str) -> Told:
        """The stored queries of a step, such as `news.saved`."""
        return Told(self.http, "queries", step)

    def rules(self, step: str) -> Told:
        """The live rules of a step, such as `shop.fraud`."""
        return Told(self.http, "rules", step)

    def alerts(self, step: str) -> AlertsOf:
        """The alerts of a step, such as `shop.failing`."""
        return AlertsOf(self.http, step)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """One request, and its answer in JSON; a Refusal for any but a good one."""
        return self.http.request(method, path, query=query, body=body, headers=headers)


def _local() -> str:
    found = noted.found(config.load())
    if found is None:
        raise InputError(
            "no server runs for this home", hint="start it: riverrun serve; or give its url"
        )
    return found.url
