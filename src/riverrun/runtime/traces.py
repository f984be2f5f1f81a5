"""Batches as spans of OpenTelemetry, for who asks for them: sent beside the work, over OTLP."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from riverrun.config import Settings
from riverrun.kernels.messages import Times
from riverrun.runtime.measures import Heard

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PACKAGES = (
    "opentelemetry.sdk.trace",
    "opentelemetry.sdk.trace.export",
    "opentelemetry.sdk.resources",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.trace",
)
ATTEMPT = 5
"""Seconds that a collector has to answer; also the longest that the end of a run waits for it."""
COUNTS = ("events", "written", "late", "dead", "dropped")

Tell = Callable[[str], None]


@contextmanager
def exported(application: str, settings: Settings, tell: Tell) -> Iterator[Heard]:
    """What to call with each batch; without an endpoint nothing is imported, and nothing sent."""
    if settings.traces is None and not any(map(os.environ.get, ENDPOINTS)):
        yield _nobody
        return
    try:
        found = [importlib.import_module(each) for each in PACKAGES]
    except ModuleNotFoundError as error:
        tell(
            f"warning: no traces are sent: the package {error.name} is not installed;"
            " `pip install 'riverrun[traces]'` installs it"
        )
        yield _nobody
        return
    with _told(tell):
        spans = Spans(application, settings.traces, found)
        try:
            yield spans.batch
        finally:
            spans.close()


def _nobody(times: Times, counts: Mapping[str, Any]) -> None:
    pass


class Spans:
    """Sends a span for each batch, with one for each of its parts."""

    def __init__(self, application: str, endpoint: str | None, packages: list[Any]) -> None:
        sdk, export, resources, otlp, self.api = packages
        name = os.environ.get("OTEL_SERVICE_NAME") or application
        address = {"endpoint": f"{endpoint.rstrip('/')}/v1/traces"} if endpoint else {}
        exporter = otlp.OTLPSpanExporter(timeout=ATTEMPT, **address)
        self.provider = sdk.TracerProvider(
            resource=resources.Resource.create({"service.name": name}),
            shutdown_on_exit=False,  # `close` does
        )
        self.provider.add_span_processor(export.BatchSpanProcessor(exporter))
        self.tracer = self.provider.get_tracer("riverrun")
        self.application = application

    def batch(self, times: Times, counts: Mapping[str, Any]) -> None:
        """Spark tells how long each part took: they are put one after the other."""
        facts = {f"riverrun.{name}": counts[name] for name in COUNTS}
        facts |= {"riverrun.application": self.application, "riverrun.batch": times.batch}
        whole = self.tracer.start_span("batch", start_time=_ns(times.began_at), attributes=facts)
        inside, at = self.api.set_span_in_context(whole), times.began_at
        for part, seconds in times.parts.items():
            span = self.tracer.start_span(part, context=inside, start_time=_ns(at))
            at += seconds
            span.end(end_time=_ns(at))
        whole.end(end_time=_ns(times.began_at + times.whole))

    def close(self) -> None:
        self.provider.force_flush(ATTEMPT * 1000)
        self.provider.shutdown()


def _ns(seconds: float) -> int:
    return round(seconds * 1000) * 1_000_000


class _Once(logging.Handler):
    """Tells each thing that goes wrong once: a collector that is away is away for every span."""

    def __init__(self, tell: Tell) -> None:
        super().__init__(logging.WARNING)
        self.tell = tell
        self.known: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg not in self.known:
            self.known.add(record.msg)
            self.tell(f"warning: traces: {record.getMessage().splitlines()[0]}")


@contextmanager
def _told(tell: Tell) -> Iterator[None]:
    logger, handler = logging.getLogger("opentelemetry"), _Once(tell)
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
