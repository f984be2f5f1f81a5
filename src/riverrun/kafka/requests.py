"""The requests that share groups need, and their answers, in the versions that are spoken here."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.kafka.wire import Shape


@dataclass(frozen=True)
class Request:
    """A kind of request."""

    name: str
    key: int
    version: int
    asked: Shape
    answered: Shape
    tagged_answer: bool = True
    """Whether the header of its answer has tags: that of `VERSIONS`, which comes first, has not."""


VERSIONS = Request(
    "ApiVersions", 18, 3,
    {"software": "text", "version": "text"},
    {"error": "int16", "known": [{"key": "int16", "first": "int16", "last": "int16"}],
     "throttled": "int32"},
    tagged_answer=False,
)  # fmt: skip

AUTHENTICATE = Request(
    "SaslAuthenticate", 36, 2,
    {"content": "bytes"},
    {"error": "int16", "message": "text", "content": "bytes", "lasts": "int64"},
)  # fmt: skip

METADATA = Request(
    "Metadata", 3, 12,
    {"topics": [{"id": "uuid", "name": "text"}], "create": "bool", "operations": "bool"},
    {"throttled": "int32",
     "brokers": [{"id": "int32", "host": "text", "port": "int32", "rack": "text"}],
     "cluster": "text", "controller": "int32",
     "topics": [
         {"error": "int16", "name": "text", "id": "uuid", "internal": "bool",
          "partitions": [
              {"error": "int16", "number": "int32", "leader": "int32", "epoch": "int32",
               "replicas": ["int32"], "in_sync": ["int32"], "offline": ["int32"]}],
          "operations": "int32"}]},
)  # fmt: skip

COORDINATOR = Request(
    "FindCoordinator", 10, 4,
    {"kind": "int8", "keys": ["text"]},
    {"throttled": "int32",
     "found": [{"key": "text", "id": "int32", "host": "text", "port": "int32",
                "error": "int16", "message": "text"}]},
)  # fmt: skip

HEARTBEAT = Request(
    "ShareGroupHeartbeat", 76, 1,
    {"group": "text", "member": "text", "epoch": "int32", "rack": "text", "topics": ["text"]},
    {"throttled": "int32", "error": "int16", "message": "text", "member": "text",
     "epoch": "int32", "interval": "int32",
     "assignment": ({"topics": [{"id": "uuid", "partitions": ["int32"]}]},)},
)  # fmt: skip

_ACKNOWLEDGED = [
    {"id": "uuid",
     "partitions": [
         {"number": "int32",
          "acknowledged": [{"first": "int64", "last": "int64", "kinds": ["int8"]}]}]}
]  # fmt: skip
_LEADER = {"id": "int32", "epoch": "int32"}
_NODES = [{"id": "int32", "host": "text", "port": "int32", "rack": "text"}]

FETCH = Request(
    "ShareFetch", 78, 2,
    {"group": "text", "member": "text", "epoch": "int32", "wait": "int32", "min_bytes": "int32",
     "max_bytes": "int32", "max_records": "int32", "together": "int32", "mode": "int8",
     "renewing": "bool", "topics": _ACKNOWLEDGED,
     "forgotten": [{"id": "uuid", "partitions": ["int32"]}]},
    {"throttled": "int32", "error": "int16", "message": "text", "lock": "int32",
     "topics": [
         {"id": "uuid",
          "partitions": [
              {"number": "int32", "error": "int16", "message": "text",
               "refused": "int16", "refused_message": "text", "leader": _LEADER,
               "records": "bytes",
               "acquired": [{"first": "int64", "last": "int64", "deliveries": "int16"}]}]}],
     "nodes": _NODES},
)  # fmt: skip

ACKNOWLEDGE = Request(
    "ShareAcknowledge", 79, 2,
    {"group": "text", "member": "text", "epoch": "int32", "renewing": "bool",
     "topics": _ACKNOWLEDGED},
    {"throttled": "int32", "error": "int16", "message": "text", "lock": "int32",
     "topics": [
         {"id": "uuid",
          "partitions": [
              {"number": "int32", "error": "int16", "message": "text", "leader": _LEADER}]}],
     "nodes": _NODES},
)  # fmt: skip

OFFSETS = Request(
    "DescribeShareGroupOffsets", 90, 1,
    {"groups": [{"group": "text", "topics": [{"name": "text", "partitions": ["int32"]}]}]},
    {"throttled": "int32",
     "groups": [
         {"group": "text",
          "topics": [
              {"name": "text", "id": "uuid",
               "partitions": [
                   {"number": "int32", "start": "int64", "epoch": "int32", "lag": "int64",
                    "error": "int16", "message": "text"}]}],
          "error": "int16", "message": "text"}]},
)  # fmt: skip

DESCRIBE = Request(
    "ShareGroupDescribe", 77, 1,
    {"groups": ["text"], "operations": "bool"},
    {"throttled": "int32",
     "groups": [
         {"error": "int16", "message": "text", "group": "text", "state": "text",
          "epoch": "int32", "assignment_epoch": "int32", "assignor": "text",
          "members": [
              {"member": "text", "rack": "text", "epoch": "int32", "client": "text",
               "host": "text", "topics": ["text"],
               "assignment": {"topics": [
                   {"id": "uuid", "name": "text", "partitions": ["int32"]}]}}],
          "operations": "int32"}]},
)  # fmt: skip

EVERY = (HEARTBEAT, FETCH, ACKNOWLEDGE, METADATA, COORDINATOR)
"""What a member of a share group asks."""

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
"""How a record is acknowledged. A gap is an offset without a record."""
RECORD_LIMIT = 1
"""Of a fetch: as many records as are asked for, though they were written in larger batches."""
