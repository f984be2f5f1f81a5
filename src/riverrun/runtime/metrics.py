"""Metrics of all applications of a home, for Prometheus: read from what their runs have noted.

A look costs a few small files per application. Neither Spark nor a broker is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from riverrun.config import Settings
from riverrun.durations import BEGINNING, END
from riverrun.errors import RiverrunError
from riverrun.kafka import lag
from riverrun.partitions import Partition, from_texts
from riverrun.runtime import measures
from riverrun.runtime.applications import Application, State, names, with_status
from riverrun.runtime.metric_names import METRICS, Known

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RiverrunError)
"""What files give that others have written, or an application that is being removed."""


@dataclass(frozen=True)
class Sample:
    """A value of a metric, with those of its labels in their order."""

    name: str
    labels: tuple[str, ...]
    value: float
    count: int = 0
    """Of a summary: how many there were; `value` is their sum."""


def registry(settings: Settings, own: Iterable[Sample] = ()) -> CollectorRegistry:
    """For the encoders of prometheus_client. `own` is what the process tells of itself."""
    found = CollectorRegistry(auto_describe=False)
    found.register(_Applications(settings, own))
    return found


class _Applications(Collector):
    def __init__(self, settings: Settings, own: Iterable[Sample]) -> None:
        self.settings, self.own = settings, own

    def describe(self) -> list[Metric]:
        return []  # asked for when it is registered, which shall cost nothing

    def collect(self) -> Iterator[Metric]:
        by_name: dict[str, list[Sample]] = defaultdict(list)
        for sample in (*samples(self.settings), *self.own):
            by_name[sample.name].append(sample)
        for name, known in METRICS.items():
            if by_name[name]:
                yield _family(name, known, by_name[name])


def _family(name: str, known: Known, found: list[Sample]) -> Metric:
    match known.kind:
        case "summary":
            summary = SummaryMetricFamily(name, known.help, labels=known.labels)
            for each in found:
                summary.add_metric(each.labels, count_value=each.count, sum_value=each.value)
            return summary
        case "counter":
            family: Any = CounterMetricFamily(name, known.help, labels=known.labels)
        case "gauge":
            family = GaugeMetricFamily(name, known.help, labels=known.labels)
    for each in found:
        family.add_metric(each.labels, each.value)
    return family  # type: ignore[no-any-return]


def samples(settings: Settings) -> Iterator[Sample]:
    """All that is known now."""
    yield Sample("riverrun_info", (version("riverrun"),), 1)
    for name in names(settings):
        try:
            found = list(_of_application(settings, name))
        except UNREADABLE:
            found = [Sample("riverrun_application_unreadable", (name,), 1)]
        yield from found


def _of_application(settings: Settings, name: str) -> Iterator[Sample]:
    found, status = with_status(settings, name)
    folder = settings.run_of(name) / "status"
    yield from _of_run(found)
    if status:
        yield from _counted(name, status)
        yield from _kept(name, status)
        yield from _clocks(found, status)
    if times := measures.noted(folder):
        yield from _durations(name, times)
        if found.running:
            yield from _as_it_runs(name, times)
    if found.running and (behind := lag.noted(folder / lag.LAG)):
        yield from _behind(name, behind)


def _of_run(found: Application) -> Iterator[Sample]:
    for state in get_args(State):
        labels = (found.name, state)
        yield Sample("riverrun_application_state", labels, float(found.state == state))
    if found.started_at is not None:
        at = found.started_at
        yield Sample("riverrun_application_started_timestamp_seconds", (found.name,), at)
    if found.running:
        for topic in found.paused:
            yield Sample("riverrun_topic_paused", (found.name, topic), 1)


def _counted(app: str, status: Mapping[str, Any]) -> Iterator[Sample]:
    own = status["own"][str(status["batch"])]
    yield Sample("riverrun_batch", (app,), status["batch"])
    yield Sample("riverrun_batch_committed_timestamp_seconds", (app,), own["at"])
    yield Sample("riverrun_batch_events", (app,), own["events"])
    yield Sample("riverrun_events_total", (app,), status["events"])
    yield Sample("riverrun_dead_letters_total", (app,), status["dead"])
    yield Sample("riverrun_dropped_rows_total", (app,), status["dropped"])
    for name, counts in (
        ("riverrun_step_rows_total", status["rows"]),
        ("riverrun_late_rows_total", status["late"]),
        ("riverrun_written_rows_total", status["written"]),
    ):
        for which, count in counts.items():
            yield Sample(name, (app, which), count)
    for failed, count in status["causes"].items():
        step, _, cause = failed.rpartition(": ")  # a cause has none in it
        yield Sample("riverrun_failures_total", (app, step, cause), count)


def _kept(app: str, status: Mapping[str, Any]) -> Iterator[Sample]:
    for step, (rows, size) in status["state"].items():
        yield Sample("riverrun_state_rows", (app, step), rows)
        yield Sample("riverrun_state_bytes", (app, step), size)
    for step, rows in status.get("waiting", {}).items():
        yield Sample("riverrun_waiting_rows", (app, step), rows)


def _clocks(found: Application, status: Mapping[str, Any]) -> Iterator[Sample]:
    for step, clock in status["clocks"].items():
        if BEGINNING < clock < END:
            labels = (found.name, step)
            yield Sample("riverrun_clock_timestamp_seconds", labels, clock / 1e6)
            if found.running:
                behind = (status["tick"] - clock) / 1e6
                yield Sample("riverrun_clock_lag_seconds", labels, behind)
    if found.running:
        for alert in status["alerts"]:
            yield Sample("riverrun_late_alert", (found.name, alert["step"]), 1)


def _durations(app: str, times: Mapping[str, Any]) -> Iterator[Sample]:
    for part, seconds in times["last"].items():
        labels, total = (app, part), times["seconds"][part]
        yield Sample("riverrun_batch_last_duration_seconds", labels, seconds)
        yield Sample("riverrun_batch_duration_seconds", labels, total, times["batches"])


def _as_it_runs(app: str, times: Mapping[str, Any]) -> Iterator[Sample]:
    if times["rate"] is not None:
        yield Sample("riverrun_process_rate", (app,), times["rate"])
    for partition, seconds in from_texts(times["latency"]).items():
        yield Sample("riverrun_e2e_latency_seconds", (app, *_labels(partition)), seconds)


def _behind(app: str, noted: Mapping[str, Any]) -> Iterator[Sample]:
    yield Sample("riverrun_lag_noted_timestamp_seconds", (app,), noted["at"])
    for partition, facts in from_texts(noted["partitions"]).items():
        labels, committed = (app, *_labels(partition)), facts["committed"]
        if committed is not None:  # a partition that is new, before its first batch
            yield Sample("kafka_consumergroup_current_offset", labels, committed)
            yield Sample("kafka_consumergroup_lag", labels, facts["end"] - committed)
        if facts["rate_in"] is not None:
            yield Sample("riverrun_partition_in_rate", labels, facts["rate_in"])
        if facts["rate_out"] is not None:
            yield Sample("riverrun_partition_out_rate", labels, facts["rate_out"])


def _labels(partition: Partition) -> tuple[str, str]:
    return partition.topic, str(partition.number)
