"""Dead letters: the output that every program has."""

from __future__ import annotations

from riverrun.outputs import OutputSpec
from riverrun.schema import parse
from riverrun.sinks.kafka.sink import Topic

DEAD_SCHEMA = parse(
    "topic string, partition int, offset bigint, timestamp timestamp, step string, cause string, "
    "key string, key_base64 string, value string, value_base64 string, "
    "headers struct(name string, value string, value_base64 string)[], row string, cut string[]"
)


NAME = "dead"


def dead_output(app: str) -> OutputSpec:
    return OutputSpec(NAME, Topic(f"{app}.dead"), DEAD_SCHEMA, ("key",), table=False)
