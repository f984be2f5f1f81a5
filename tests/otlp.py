"""A collector of OpenTelemetry on this machine: it takes spans over OTLP/HTTP, and keeps them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass
class Collector:
    address: str
    paths: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)
    spans: list[Any] = field(default_factory=list)

    def take(self, path: str, body: bytes) -> None:
        self.paths.add(path)
        for each in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services.add(attributes(each.resource)["service.name"])
            self.spans += [span for scope in each.scope_spans for span in scope.spans]

    def batches(self) -> list[Any]:
        """The spans of batches, in their order."""
        found = [span for span in self.spans if span.name == "batch"]
        return sorted(found, key=lambda span: attributes(span)["riverrun.batch"])

    def inside(self, whole: Any) -> list[Any]:
        found = [span for span in self.spans if span.parent_span_id == whole.span_id]
        return sorted(found, key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))


def attributes(of: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, str(a.value.WhichOneof("value"))) for a in of.attributes}


def seconds(span: Any) -> float:
    return float(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.take(self.path, body)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
