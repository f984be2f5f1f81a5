"""Posts that are packed by gzip, and what `/metrics` tells of posts."""

from __future__ import annotations

import gzip
import json

import pytest
import urllib3

from doors import VIEW, Door, door, shared
from riverrun.server.answers import Refused
from riverrun.server.limits import Limits, unpacked

__all__ = ["door", "shared"]

# without the time of day: it would be in the names of tests, and workers would not agree on them
PACKED = gzip.compress(json.dumps(VIEW).encode(), mtime=0)


@pytest.mark.broker
def test_a_packed_post_is_the_same_post_and_posts_are_counted(door: Door) -> None:
    key = {"idempotency_key": "packed-1"}
    assert door.post(PACKED, content_encoding="gzip", **key).body["records"] == 1
    assert door.post(VIEW, **key).body["repeated"] is True
    assert door.post(PACKED[:-9], content_encoding="gzip").status == 400
    assert door.post({**VIEW, "ms": "fast"}).status == 400
    assert [each["value"] for each in door.records()] == [VIEW]
    told = urllib3.request("GET", f"{door.url}/metrics").data.decode()
    counted = f'riverrun_server_records_total{{outcome="%s",topic="{door.topic}"}} 1.0'
    assert counted % "taken" in told
    assert counted % "refused" in told


def test_several_packets_are_one_after_the_other() -> None:
    assert unpacked(gzip.compress(b"a") + gzip.compress(b"b"), Limits()) == b"ab"
    assert unpacked(b"", Limits()) == b""


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (gzip.compress(b"0" * 20_000_000), 413),
        (gzip.compress(b"0" * 6_000_000) * 2, 413),
        (PACKED[:-1], 400), (PACKED + b"x", 400), (b"{}", 400),
    ],
)  # fmt: skip
def test_what_is_too_large_when_it_is_unpacked_or_no_gzip_is_refused(
    content: bytes, status: int
) -> None:
    with pytest.raises(Refused) as refused:
        unpacked(content, Limits())
    assert refused.value.status == status
