"""The metrics that there are: what `/metrics` says of each, and docs/metrics.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "summary"]

APP = ("application",)
STEP = (*APP, "step")
PARTITION = (*APP, "topic", "partition")
GROUP = ("consumergroup", "topic", "partition")


@dataclass(frozen=True)
class Known:
    """One metric. `like` is what people of other systems look for."""

    kind: Kind
    about: str
    labels: tuple[str, ...] = APP
    like: str = ""

    @property
    def help(self) -> str:
        return f"{self.about}; like {self.like}" if self.like else self.about


METRICS = {
    "riverrun_info": Known("gauge", "1, with the version of riverrun that answers", ("version",)),
    "riverrun_application_state": Known(
        "gauge", "1 for the state that it is in, in the words of riverrun ps", (*APP, "state"),
        "Kafka Streams' client state",
    ),
    "riverrun_application_started_timestamp_seconds": Known(
        "gauge", "when its last run began"
    ),
    "riverrun_application_unreadable": Known(
        "gauge", "1 if what it has noted cannot be read; nothing else is told of it then"
    ),
    "riverrun_topic_paused": Known(
        "gauge", "1 for each topic that is not read until it is resumed", (*APP, "topic")
    ),
    "riverrun_batch": Known("gauge", "the number of its last batch"),
    "riverrun_batch_committed_timestamp_seconds": Known(
        "gauge", "when its last batch was committed"
    ),
    "riverrun_batch_events": Known("gauge", "records that its last batch read"),
    "riverrun_batch_last_duration_seconds": Known(
        "gauge", "how long its last batch took, by part; whole is all of it", (*APP, "part"),
        "Flink's lastCheckpointDuration, Kafka Streams' commit-latency-avg",
    ),
    "riverrun_batch_duration_seconds": Known(
        "summary", "how long the batches of this run took, by part; whole is all of it",
        (*APP, "part"), "Kafka Streams' process-latency-avg",
    ),
    "riverrun_events_total": Known(
        "counter", "records read in this run",
        like="Flink's numRecordsIn, Kafka Streams' process-total",
    ),
    "riverrun_process_rate": Known(
        "gauge", "records of the last batch that read any, by the seconds that it took",
        like="Flink's numRecordsInPerSecond, Kafka Streams' process-rate",
    ),
    "riverrun_step_rows_total": Known(
        "counter", "rows that entered each step in this run", STEP,
        "Flink's numRecordsIn of an operator",
    ),
    "riverrun_late_rows_total": Known(
        "counter", "rows that came too late for each step in this run", STEP,
        "Flink's numLateRecordsDropped, Kafka Streams' dropped-records-total",
    ),
    "riverrun_late_alert": Known(
        "gauge", "1 for each step of which more rows are late than its late_alert allows", STEP
    ),
    "riverrun_written_rows_total": Known(
        "counter", "rows written to each output in this run, of a table the new ones",
        (*APP, "output"), "Flink's numRecordsOut",
    ),
    "riverrun_dead_letters_total": Known(
        "counter", "records and rows that failed and were set aside in this run"
    ),
    "riverrun_dropped_rows_total": Known(
        "counter", "records and rows that failed and were left out in this run, as the program asks"
    ),
    "riverrun_failures_total": Known(
        "counter", "what failed in this run, by step and cause", (*STEP, "cause")
    ),
    "riverrun_clock_timestamp_seconds": Known(
        "gauge", "the time up to which each step takes its input to be complete", STEP,
        "Flink's currentInputWatermark",
    ),
    "riverrun_clock_lag_seconds": Known(
        "gauge", "how far that was behind the wall clock when the last batch was planned", STEP,
        "Flink's watermarkLag",
    ),
    "riverrun_e2e_latency_seconds": Known(
        "gauge", "from the newest event of the last batch that read any of the partition, by event"
        " time, to the commit of that batch", PARTITION, "Kafka Streams' record-e2e-latency-min",
    ),
    "riverrun_state_rows": Known(
        "gauge", "rows that each step keeps, with those that are replaced or over and not yet"
        " cleared away", STEP, "Kafka Streams' num-entries",
    ),
    "riverrun_state_bytes": Known(
        "gauge", "bytes of these rows in memory, of which workers hold state_memory at most", STEP,
        "Flink's lastCheckpointSize",
    ),
    "riverrun_waiting_rows": Known(
        "gauge", "rows of each step that go on later: for a table that is not known up to their"
        " time, or until the clock has passed them", STEP,
    ),
    "kafka_consumergroup_current_offset": Known(
        "gauge", "the offset up to which all is read and committed", GROUP
    ),
    "kafka_consumergroup_lag": Known(
        "gauge", "offsets from there to the end of the partition, when a batch was last planned",
        GROUP, "Flink's pendingRecords, Kafka Streams' records-lag",
    ),
    "riverrun_lag_noted_timestamp_seconds": Known(
        "gauge", "when the ends of partitions were last looked at"
    ),
    "riverrun_partition_in_rate": Known(
        "gauge", "records per second that came, over the last minute", PARTITION
    ),
    "riverrun_partition_out_rate": Known(
        "gauge", "records per second that were read, over the last minute", PARTITION,
        "Kafka Streams' records-consumed-rate",
    ),
    "riverrun_server_records_total": Known(
        "counter", "records that were posted to this server, by what became of them: taken, refused"
        " or dropped", ("topic", "outcome"),
    ),
    "riverrun_server_pushed_back_total": Known(
        "counter", "requests that were told to come back later, as the application is behind",
        ("topic",),
    ),
    "riverrun_server_followers": Known("gauge", "streams of changes that are open", ()),
    "riverrun_server_udp_lines_total": Known(
        "counter", "lines that came to the UDP door, by what became of them: taken, unreadable,"
        " without room in its buffer, or not taken by Kafka", ("topic", "outcome"),
    ),
    "riverrun_server_udp_dropped_datagrams_total": Known(
        "counter", "datagrams for the UDP door that the kernel had no room for", ("topic",)
    ),
}  # fmt: skip
"""By name. What is true only while an application runs is told only while it runs."""
