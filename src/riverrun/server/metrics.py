"""`/metrics` for Prometheus, `/healthz` and `/readyz` for whoever keeps the server running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from riverrun.config import Settings
from riverrun.embedded import kafka
from riverrun.errors import RiverrunError
from riverrun.kafka import admin
from riverrun.runtime.applications import Application, applications
from riverrun.runtime.metrics import Sample, registry
from riverrun.server.answers import Refused
from riverrun.server.security import Guard

KEPT = 1.0
"""Seconds that an answer of `/readyz` holds: those who ask often do not ask the broker often."""
PATIENCE = timedelta(seconds=2)
"""For the broker."""


def routes(
    settings: Settings, guard: Guard, own: Callable[[], Iterable[Sample]] = tuple
) -> list[Route]:
    """Whether all is well, anybody may ask; why not, and figures, need the scope `metrics`. `own`
    is what the server tells of itself."""
    readiness = _Kept(lambda: reasons(settings))

    async def metrics(request: Request) -> Response:
        guard.require(request, "metrics")
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        text = await run_in_threadpool(encode, registry(settings, list(own())))
        return Response(text, media_type=kind)

    async def healthz(request: Request) -> Response:
        return JSONResponse({"healthy": True})

    async def readyz(request: Request) -> Response:
        found = await readiness.get()
        told = {"ready": not found, "reasons": found if _may_know(guard, request) else None}
        return JSONResponse(told, status_code=503 if found else 200)

    return [
        Route("/metrics", metrics),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
    ]


def _may_know(guard: Guard, request: Request) -> bool:
    try:
        guard.require(request, "metrics")
    except Refused:
        return False
    return True


def reasons(settings: Settings) -> list[dict[str, str]]:
    """Why not all is well; empty if it is."""
    found = []
    try:
        admin.connect(kafka.client(settings), patience=PATIENCE)
    except RiverrunError as error:
        found.append({"what": "kafka", "why": _text(error)})
    return found + [
        {"what": f"application {each.name}", "why": _why(each)}
        for each in applications(settings)
        if not _as_wished(each)
    ]


def _as_wished(found: Application) -> bool:
    """It runs, or it was meant to end. One that is held is being backed up or restored."""
    return found.state in ("running", "stopped", "finished", "held")


def _why(found: Application) -> str:
    error = (found.error or "").partition("\n")[0]
    return f"{found.state}: {error}" if error else found.state


def _text(error: RiverrunError) -> str:
    return f"{error.fact}: {error.got}" if error.got else error.fact


@dataclass
class _Kept:
    """What a slow look has found, for a while. It is taken in a thread, once for all who wait."""

    look: Callable[[], list[dict[str, str]]]
    found: list[dict[str, str]] = field(default_factory=list)
    until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(self) -> list[dict[str, str]]:
        async with self.lock:
            if time.monotonic() >= self.until:
                self.found = await run_in_threadpool(self.look)
                self.until = time.monotonic() + KEPT
            return self.found
