"""Delivery to a webhook, at least once: one sender, one row after the other, each with its key.

Tasks hand their rows to the driver, packed; it sends them in the order in which the program
defines them. After a crash the batch is sent again, with the same keys.
"""

from __future__ import annotations

import heapq
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError

from riverrun import exact
from riverrun.arguments import checked
from riverrun.delivery.encode import Line, lines, records
from riverrun.durations import Duration, microseconds
from riverrun.errors import JobError, ProgramError, caller
from riverrun.kafka.records import Record
from riverrun.kafka.sender import Sender
from riverrun.kernels import sql
from riverrun.kernels.letters import LETTER
from riverrun.outputs import (
    Delivery,
    Destination,
    Evaluator,
    Guarantee,
    OutputSpec,
    Part,
    Places,
    Rows,
    Sink,
)
from riverrun.schema import Schema
from riverrun.sinks.kafka.dead import dead_output

AT_ONCE = 1000
"""Rows that are packed, and unpacked, together."""

LONGEST_WAIT = 30
"""Seconds between two tries, unless the answer asks for more."""

AGAIN = frozenset({429, *range(500, 600)})
"""Answers after which a row is sent again."""


@dataclass(frozen=True)
class Webhook(Sink):
    """An address that is sent a POST request for each row."""

    name: str
    url: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    tries: int
    timeout: int
    """Of one try, in microseconds."""

    @property
    def text(self) -> str:
        """Of the address only what the name shows: the rest may be secret."""
        tries = "1 try" if self.tries == 1 else f"{self.tries} tries"
        return f"POST to {self.name.removeprefix('webhook:')}, {tries}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "at least once"

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        """Whatever there is can be sent as JSON."""

    def destination(self, places: Places) -> Destination:
        return WebhookSender(self, dict(places.kafka))


@checked
def webhook(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    tries: int = 5,
    timeout: Duration = "10 seconds",
    name: str | None = None,
) -> Webhook:
    """An address that is sent a POST request for each row, at least once and in order.

    A row that is not taken after so many tries is a dead letter. `timeout` is for one try. The
    name is the address without its query, unless one is given.
    """
    at = caller()
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ProgramError("a webhook is an address", where=at, got=url, hint="https://host/path")
    if parts.username or parts.password:
        raise ProgramError(
            "the address of a webhook holds a password", where=at, hint="use headers={…}"
        )
    if tries < 1:
        raise ProgramError("a webhook is tried at least once", where=at, got=f"tries={tries}")
    port = f":{parts.port}" if parts.port else ""
    shown = name or f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
    given = tuple(sorted((headers or {}).items()))
    return Webhook(f"webhook:{shown}", url, given, tries, microseconds(timeout, at))


@dataclass(frozen=True)
class Receipt:
    """A task's rows in their order, packed."""

    part: Part
    packs: tuple[bytes, ...]

    def lines(self) -> Iterator[Line]:
        for pack in self.packs:
            yield from exact.loads(zlib.decompress(pack))


class Refusal(NamedTuple):
    """Why something was not taken."""

    cause: str
    again: bool
    """Whether it may be taken later."""


class Post:
    """Sends POST requests to an address, each up to so many times."""

    def __init__(
        self, url: str, headers: Iterable[tuple[str, str]], *, timeout: int, tries: int
    ) -> None:
        self.url, self.headers = url, dict(headers)
        again = urllib3.Retry(
            total=tries - 1,
            redirect=0,
            allowed_methods={"POST"},
            status_forcelist=AGAIN,
            backoff_factor=0.5,
            backoff_max=LONGEST_WAIT,
            raise_on_status=False,
            raise_on_redirect=False,
        )
        self.pool = urllib3.PoolManager(retries=again, timeout=timeout / 1e6)

    def send(self, body: bytes, key: str) -> Refusal | None:
        """None if it was taken."""
        headers = {"Content-Type": "application/json", **self.headers, "Idempotency-Key": key}
        try:
            answer = self.pool.request("POST", self.url, body=body, headers=headers)
        except MaxRetryError as error:
            return Refusal(_short(error.reason or error), again=True)
        except HTTPError as error:
            return Refusal(_short(error), again=False)
        if 200 <= answer.status < 300:
            return None
        said = f"HTTP {answer.status}: {_short(answer.data.decode(errors='replace'))}"
        return Refusal(said, again=answer.status in AGAIN)


class WebhookSender(Destination):
    """Sends each row of a batch as a POST request."""

    def __init__(self, sink: Webhook, kafka: Mapping[str, str]) -> None:
        self.sink, self.kafka = sink, kafka
        self.post = Post(sink.url, sink.headers, timeout=sink.timeout, tries=sink.tries)

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        """Whether there is somebody at the address is seen when rows are sent."""

    def take_over(self, application: str, run: int) -> None:
        """At least once: an earlier run that still sends does no harm."""

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> Receipt:
        # one output, but a union comes by several ways
        ranked = sorted((line for each in found for line in lines(*each, evaluator)), key=_rank)
        starts = range(0, len(ranked), AT_ONCE)
        packs = (exact.dumps(ranked[start : start + AT_ONCE]) for start in starts)
        return Receipt(part, tuple(zlib.compress(pack.encode(), 1) for pack in packs))

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        told: list[Receipt] = [receipt for receipt in receipts if receipt is not None]
        if not told:
            return
        part, parent = told[0].part, os.getppid()
        aside = Aside(part, self.kafka)
        for number, line in enumerate(heapq.merge(*(each.lines() for each in told), key=_rank)):
            if os.getppid() != parent:
                # a later run may send this batch already
                raise JobError("the run has ended while rows were sent", where=self.sink.name)
            line.pop("place")
            cause = self._cause(line, f"{part.checkpoint}-{batch}-{number}")
            if cause is not None:
                aside.put(self.sink.name, line, cause)
        aside.flush()

    def _cause(self, line: Line, key: str) -> str | None:
        """Sends a row; why it was not taken, or None."""
        refusal = self.post.send(_body(line), key)
        if refusal is None or not refusal.again:
            return None if refusal is None else refusal.cause
        return f"{refusal.cause} (given up after {self.sink.tries} tries)"


@dataclass
class Aside:
    """Takes rows of a batch that the address does not take: dead letters of the application."""

    part: Part
    kafka: Mapping[str, str]
    sender: Sender | None = None

    def put(self, step: str, line: Line, cause: str) -> None:
        output = dead_output(self.part.application)
        if self.sender is None:
            self.sender = Sender(self.kafka, output.sink.name)
        letter = _letter(step, line, cause, self.part.tick)
        rows = pa.Table.from_pylist([letter], schema=LETTER)
        for row in records(output, rows, sql.shared_evaluator()).to_pylist():
            self.sender.send(Record(row["value"].encode(), row["key"].encode(), row["timestamp"]))

    def flush(self) -> None:
        if self.sender is not None:
            self.sender.flush()


def _letter(step: str, line: Line, cause: str, tick: int) -> dict[str, Any]:
    """A row as a dead letter: it is no record of a topic, and its value is what was sent."""
    at = datetime.fromtimestamp(tick / 1e6, UTC).replace(tzinfo=None)
    key = line["key"]
    return {
        "timestamp": at,
        "step": step,
        "cause": cause,
        "key": key if isinstance(key, str) else exact.dumps(key),
        "value": _body(line).decode(),
        "__at": at,
        "__pos": -1,
        "__sub": 0,
    }


def _rank(line: Line) -> Any:
    return line["place"]


def _body(line: Line) -> bytes:
    return exact.dumps(line).encode()


def _short(what: object) -> str:
    return " ".join(str(what).split())[:200]
