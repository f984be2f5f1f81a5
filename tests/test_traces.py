"""Traces: each batch is a span with its parts, for a collector of OpenTelemetry that is there."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from otlp import attributes, collecting, seconds
from riverrun import config
from riverrun.errors import ConfigError
from riverrun.kernels.messages import Times
from riverrun.runtime import traces

PARTS = {"planning": 0.25, "logging": 0.0, "running": 1.5}
COUNTS = {"events": 30, "written": 20, "late": 3, "dead": 2, "dropped": 1, "highs": {}}


def batch(number: int) -> Times:
    return Times(number, 1000.25, 2.0, PARTS)


def settings(**environ: str) -> config.Settings:
    return config.load(environ={"RIVERRUN_HOME": "/nowhere", **environ})


def test_a_batch_is_a_span_with_its_counts_and_its_parts_are_spans_inside():
    told: list[str] = []
    with collecting() as collector:
        own = settings(RIVERRUN_TRACES=f"{collector.address}/")
        with traces.exported("shop", own, told.append) as heard:
            heard(batch(6), COUNTS)
            heard(batch(7), COUNTS)
    assert told == []
    assert (collector.paths, collector.services) == ({"/v1/traces"}, {"shop"})
    first, second = collector.batches()
    assert attributes(second) == {
        "riverrun.application": "shop", "riverrun.batch": 7, "riverrun.events": 30,
        "riverrun.written": 20, "riverrun.late": 3, "riverrun.dead": 2, "riverrun.dropped": 1,
    }  # fmt: skip
    assert (first.start_time_unix_nano, seconds(first)) == (1_000_250_000_000, 2.0)
    parts = collector.inside(first)
    assert {part.name: seconds(part) for part in parts} == PARTS
    assert [part.start_time_unix_nano // 1_000_000 for part in parts] == [
        1_000_250, 1_000_500, 1_000_500,
    ]  # fmt: skip
    assert {part.trace_id for part in parts} == {first.trace_id} != {second.trace_id}


def test_the_variables_of_open_telemetry_hold(monkeypatch):
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "our-shop")
        with traces.exported("shop", settings(), print) as heard:
            heard(batch(6), COUNTS)
    assert (collector.services, len(collector.batches())) == ({"our-shop"}, 1)


def test_a_collector_that_is_away_is_told_and_holds_nobody_up():
    told: list[str] = []
    began = time.monotonic()
    with traces.exported("shop", settings(RIVERRUN_TRACES="http://127.0.0.1:9"), told.append) as to:
        to(batch(6), COUNTS)
        assert time.monotonic() - began < 5
    assert time.monotonic() - began < 15
    assert told
    assert all(each.startswith("warning: traces: ") for each in told)
    assert len(set(told)) == len(told)


def test_an_address_without_the_packages_is_a_warning(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)  # as if it were not there
    told: list[str] = []
    with traces.exported("shop", settings(RIVERRUN_TRACES="http://x:4318"), told.append) as heard:
        heard(batch(6), COUNTS)
    assert told == [
        "warning: no traces are sent: the package opentelemetry.sdk.trace is not installed;"
        " `pip install 'riverrun[traces]'` installs it"
    ]


def test_without_an_address_nothing_is_imported():
    code = (
        "import sys, riverrun.runtime.traces as traces, riverrun.config as config\n"
        "with traces.exported('shop', config.load(environ={'RIVERRUN_HOME': '/x'}), print): pass\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_address_that_is_none_is_an_error():
    with pytest.raises(ConfigError, match="no traces can be sent there"):
        settings(RIVERRUN_TRACES="localhost:4318")
