"""The records of event sourcing: commands, events, replies; and the states that are kept."""

from __future__ import annotations

from riverrun.schema import Schema, schema_of

COMMANDS: Schema = schema_of(
    [
        ("id", "VARCHAR"), ("aggregate", "VARCHAR"), ("type", "VARCHAR"), ("data", "JSON"),
        ("version", "BIGINT"), ("by", "VARCHAR"),
    ]
)  # fmt: skip
"""What is asked of an aggregate. `version` is the one that the sender takes it to have."""

EVENTS: Schema = schema_of(
    [
        ("aggregate", "VARCHAR"), ("version", "BIGINT"), ("type", "VARCHAR"),
        ("schema_version", "BIGINT"), ("data", "JSON"), ("at", "TIMESTAMP"),
        ("command", "VARCHAR"), ("by", "VARCHAR"), ("position", "VARCHAR"),
    ]
)  # fmt: skip
"""What has happened. `version` counts an aggregate's events; `position` is the record of the
command: its topic, partition and offset."""

REPLIES: Schema = schema_of(
    [
        ("command", "VARCHAR"), ("aggregate", "VARCHAR"), ("outcome", "VARCHAR"),
        ("version", "BIGINT"), ("reason", "VARCHAR"), ("events", "JSON"),
    ]
)  # fmt: skip
"""What became of a command: accepted, rejected or failed, and the aggregate's version after it."""

STATES: Schema = schema_of(
    [("aggregate", "VARCHAR"), ("version", "BIGINT"), ("state", "JSON")]
)  # fmt: skip

ACCEPTED, REJECTED, FAILED = "accepted", "rejected", "failed"
