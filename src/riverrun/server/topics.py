"""Topics over HTTP: records are posted, one or many at a time."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from riverrun.runtime.metrics import Sample
from riverrun.server.answers import Answer, Refused
from riverrun.server.context import Context
from riverrun.server.ingest.behind import Behind
from riverrun.server.ingest.bodies import kind_of, shown
from riverrun.server.ingest.gathering import Gathered
from riverrun.server.ingest.intake import Body, Checked, Checking
from riverrun.server.ingest.keys import FILE, Keys, Name
from riverrun.server.ingest.opened import Opened, OpenTopics
from riverrun.server.ingest.sending import AGAIN, Outcome, Post, Sending, outcome_of
from riverrun.server.ingest.udp import UdpDoor
from riverrun.server.limits import body, encoding_of, unpacked
from riverrun.server.security import FOLDER
from riverrun.views.values import moment_text

CHECKED = 4_000_000
"""Bytes of requests that are checked together."""
SENT, OVERHEAD = 50_000, 100
"""Records of requests that are sent together, and what a request counts for beside them."""
HELD = 64_000_000
"""Bytes of requests that may wait."""
KEY = re.compile(r"[\x21-\x7e]{1,255}")
BATCHES = "application/json with a record or an array, or application/x-ndjson"


@dataclass
class Counts:
    """Since the server began."""

    taken: int = 0
    dropped: int = 0
    refused: int = 0
    pushed_back: int = 0


@dataclass(frozen=True)
class Answered:
    status: int
    answer: dict[str, Any]


class Topics:
    def __init__(self, context: Context, udp: UdpDoor | None = None) -> None:
        self.context, self.udp = context, udp
        self.opened = OpenTopics(context.settings)
        self.counts: dict[str, Counts] = defaultdict(Counts)
        self.behind = Behind(context.settings, lambda name: self.counts[name].taken)
        self.checking = Gathered[Body, Checked](
            Checking(context.settings).check, "checking",
            weight=lambda each: len(each.content), most=CHECKED,
        )  # fmt: skip
        self.begun = time.time_ns() // 1000
        self.held = 0
        self._going: dict[Name, tuple[str, asyncio.Future[Answered]]] = {}

    def routes(self) -> list[Route]:
        guarded = self.context.guarded
        return [
            Route("/topics", guarded("query", None, self.all), methods=["GET"]),
            Route("/topics/{topic}", guarded("write", "topic", self.one), methods=["GET"]),
            Route("/topics/{topic}", guarded("write", "topic", self.post), methods=["POST"]),
            Route("/udp", guarded("metrics", None, self.about_udp), methods=["GET"]),
        ]

    async def all(self, request: Request) -> Response:
        found = [await self._facts(each) for each in await self.opened.all()]
        return Answer({"topics": found, "since": moment_text(self.begun)})

    async def one(self, request: Request) -> Response:
        return Answer(await self._facts(await self.opened.topic(request.path_params["topic"])))

    async def about_udp(self, request: Request) -> Response:
        if self.udp is None:
            raise Refused(404, "there is no UDP door", hint="riverrun serve --udp PORT")
        return Answer(self.udp.facts())

    async def post(self, request: Request) -> Response:
        kind = kind_of(request.headers.get("content-type"))
        encoding = encoding_of(request)
        topic, partial = await self.opened.topic(request.path_params["topic"]), _partial(request)
        name = self._name(request, topic)
        content = await body(request, self.context.limits)
        if encoding == "gzip":
            content = await run_in_threadpool(unpacked, content, self.context.limits)
        sent = Body(topic, content, kind, time.time_ns() // 1_000_000)
        digest = hashlib.sha256(f"{kind} {partial} ".encode() + content).hexdigest()
        if self.held + len(content) > HELD:
            raise Refused(503, "too much waits to be written", headers={"Retry-After": "1"})
        self.held += len(content)
        try:
            found = await self._once(
                name, digest, lambda: self._written(sent, name, digest, partial=partial)
            )
        finally:
            self.held -= len(content)
        return Answer(found.answer, found.status)

    async def _once(
        self, name: Name | None, hash: str, work: Callable[[], Awaitable[Answered]]
    ) -> Answered:
        """A key that is used before, or right now, is not used again."""
        if name is None:
            return await work()
        await asyncio.shield(self._warm)
        known = self.keys.find(name)
        if known is not None:
            return _answered(outcome_of(known, hash))
        if name not in self._going:
            task = asyncio.ensure_future(work())
            self._going[name] = hash, task
            task.add_done_callback(lambda _: self._going.pop(name))
            return await asyncio.shield(task)
        going, first = self._going[name]
        if going != hash:
            raise Refused(422, AGAIN, got=name.key)
        found = await asyncio.shield(first)
        return Answered(found.status, {**found.answer, "repeated": True})

    async def _written(
        self, sent: Body, name: Name | None, hash: str, *, partial: bool
    ) -> Answered:
        topic, counts = sent.topic, self.counts[sent.topic.name]
        lag = None
        if topic.intake.when_behind != "buffer":
            lag = await self.behind.lag(topic)
        late = lag is not None and lag >= topic.intake.limit
        if late and topic.intake.when_behind == "push back":
            counts.pushed_back += 1
            raise self._pushed_back(topic, lag or 0)
        checked = await self.checking(sent)
        counts.refused += checked.refused
        if not checked.records and not checked.faults:
            raise Refused(400, "there is no record in the request", hint=BATCHES)
        if checked.faults and not partial:
            raise _unfit(checked)
        more = {**checked.unread(), **(checked.told() if partial else {})}
        if late:
            counts.dropped += len(checked.records)
            return Answered(202, {"records": 0, "dropped": len(checked.records), **more})
        if not checked.records:
            return Answered(200, {"records": 0, "token": None, **more})
        post = Post(topic.name, checked.records, sent.received, name, hash, more)
        outcome = await self.sending(post)
        if not outcome.repeated:
            counts.taken += len(checked.records)
        return _answered(outcome)

    def _pushed_back(self, topic: Opened, lag: int) -> Refused:
        later = self.behind.come_back(topic, lag)
        return Refused(
            429, "the application that reads the topic is behind", got=f"{lag:,} records",
            hint=f"the limit is {topic.intake.limit:,}; come back in {later} s",
            more={"lag": lag, "limit": topic.intake.limit}, headers={"Retry-After": str(later)},
        )  # fmt: skip

    def _name(self, request: Request, topic: Opened) -> Name | None:
        given = request.headers.getlist("idempotency-key")
        if not given:
            return None
        if len(given) > 1 or not KEY.fullmatch(given[0]):
            raise Refused(
                400, "the idempotency key cannot be used", got=shown(given[0])[:100],
                hint="once, up to 255 letters, digits and signs of ASCII, without spaces",
            )  # fmt: skip
        return Name(self.context.guard.holder(request) or "", topic.name, given[0])

    @cached_property
    def keys(self) -> Keys:
        settings = self.context.settings
        return Keys(settings.home / FOLDER / FILE, settings.serve.keep_keys)

    @cached_property
    def sender(self) -> Sending:
        return Sending(self.context.settings, self.keys)

    @cached_property
    def sending(self) -> Gathered[Post, Outcome]:
        return Gathered[Post, Outcome](
            self.sender.send, "sending",
            weight=lambda each: OVERHEAD + len(each.records), most=SENT,
        )  # fmt: skip

    @cached_property
    def _warm(self) -> asyncio.Future[None]:
        """Once: what a server before this one has sent last is looked up."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self.sending.thread, self.sender.look_back)

    def samples(self) -> Iterator[Sample]:
        """For `/metrics`."""
        for topic, each in list(self.counts.items()):
            outcomes = {"taken": each.taken, "refused": each.refused, "dropped": each.dropped}
            for outcome, count in outcomes.items():
                yield Sample("riverrun_server_records_total", (topic, outcome), count)
            yield Sample("riverrun_server_pushed_back_total", (topic,), each.pushed_back)
        yield Sample("riverrun_server_followers", (), self.context.streams)
        if self.udp is not None:
            yield from self.udp.samples()

    async def _facts(self, topic: Opened) -> dict[str, Any]:
        return {
            "topic": topic.name,
            "applications": list(topic.applications),
            "columns": topic.columns,
            "key": list(topic.key.names),
            "received": [name for name, _ in topic.stamps()],
            "when_behind": topic.intake.when_behind,
            "limit": None if topic.intake.when_behind == "buffer" else topic.intake.limit,
            "lag": await self.behind.lag(topic),
            **asdict(self.counts[topic.name]),
        }


def _answered(outcome: Outcome | Exception) -> Answered:
    if isinstance(outcome, Exception):
        raise outcome
    return Answered(200, {**outcome.answer, **({"repeated": True} if outcome.repeated else {})})


def _unfit(checked: Checked) -> Refused:
    count = checked.refused
    fact = f"{count:,} record{'s do' if count != 1 else ' does'} not fit"
    return Refused(
        400, fact, hint="nothing was written; with partial=true the others are",
        more=checked.told(),
    )  # fmt: skip


def _partial(request: Request) -> bool:
    match request.query_params.get("partial", "false").lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise Refused(400, "partial is true or false")
