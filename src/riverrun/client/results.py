"""What a server answers, as Python has it. Times are naive UTC, as everywhere."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from riverrun.errors import RiverrunError
from riverrun.views.typed import moment

State = Literal["there", "held", "aside"]


@dataclass(frozen=True)
class Fresh:
    """How fresh a view was when it answered."""

    revision: str | None
    at: datetime | None
    clock: datetime | None
    behind: int | None
    """Records of the log that it did not hold yet; Kafka's own marks count, too."""

    @staticmethod
    def of(said: Mapping[str, Any]) -> Fresh:
        return Fresh(said["revision"], moment(said["at"]), moment(said["clock"]), said["behind"])


class Row(dict[str, Any]):
    """A row, by column, with values of Python's types; `fresh` says how fresh it is."""

    fresh: Fresh
    state: State | None = None
    """With a token: `there`, `held` until a clock has passed, or `aside`."""
    text: str | None = None
    """The same, in words."""
    step: str | None = None
    """The step that holds it."""
    until: datetime | None = None
    """What its clock has to pass."""

    def told(self, said: Mapping[str, Any]) -> Row:
        """With what an answer says beside the row."""
        self.fresh = Fresh.of(said)
        if verdict := said.get("token"):
            self.state, self.text = verdict["state"], verdict["text"]
            self.step, self.until = verdict.get("step"), moment(verdict.get("until"))
        return self

    def _repr_html_(self) -> str:
        return Rows([self])._repr_html_()


class Rows(list[dict[str, Any]]):
    """Rows that show themselves as a table in a notebook."""

    def _repr_html_(self) -> str:
        names = list(self[0]) if self else []
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        cells = ("".join(f"<td>{_shown(row[n])}</td>" for n in names) for row in self)
        body = "".join(f"<tr>{each}</tr>" for each in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: Any) -> str:
    return "<i>null</i>" if value is None else html.escape(str(value))


@dataclass(frozen=True)
class Answer:
    """What a running application has answered, and the point of the stream that it is of."""

    rows: Rows
    columns: dict[str, str]
    """Their types, in DuckDB's names."""
    batch: int
    at: datetime | None
    clock: datetime | None
    offsets: dict[str, int]
    """How far each partition was read."""

    def _repr_html_(self) -> str:
        return self.rows._repr_html_()


@dataclass(frozen=True)
class Change:
    """What a batch has made of a key."""

    kind: Literal["put", "delete"]
    key: Any
    """The value of the key's column, which may be None; of several, a dictionary."""
    row: dict[str, Any] | None
    """None if it is gone."""
    revision: str
    place: str
    """What to follow it from, to get what comes after this change."""


class Token(str):
    """What a write gives for readers who are to see it; empty if nothing was written."""

    records: int
    """That were written."""
    errors: list[dict[str, Any]]
    """What is wrong with the others, of a write that may be partial."""
    dropped: int
    """Those for which the topic had no room: see `when_behind`."""

    @staticmethod
    def of(said: Mapping[str, Any]) -> Token:
        found = Token(said.get("token") or "")
        found.records, found.errors = said["records"], said.get("errors", [])
        found.dropped = said.get("dropped", 0)
        return found


class Refusal(RiverrunError):
    """The server has refused; `status` is that of HTTP, `answer` all that it said."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        self.status, self.answer = status, answer
        error = answer.get("error", {})
        self.code = error.get("code", "RR000")
        self.errors: list[dict[str, Any]] = error.get("errors", [])
        super().__init__(
            error.get("fact", f"the server says {status}"), where=error.get("where"),
            got=error.get("got") or _first(self.errors), hint=error.get("hint"),
        )  # fmt: skip


def _first(errors: list[dict[str, Any]]) -> str | None:
    if not errors:
        return None
    more = f"; and {len(errors) - 1:,} more in .errors" if len(errors) > 1 else ""
    return f"record {errors[0]['record']}: {errors[0]['cause']}{more}"
