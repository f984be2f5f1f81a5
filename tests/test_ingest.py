"""Records over HTTP: what is taken, and what is refused."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import riverrun as rr
from doors import (
    JSON,
    LINES,
    VIEW,
    Door,
    await_status,
    door,
    home,
    new_topic,
    note,
    records,
    served,
    shared,
    views_app,
)
from riverrun.kafka import admin
from riverrun.outputs import Ways
from riverrun.server.security import Tokens
from riverrun.sinks.viewing.notes import Facts, Revision
from riverrun.views.tokens import Note, Token, verdict

__all__ = ["door", "shared"]
pytestmark = pytest.mark.broker


def test_a_record_is_written_as_it_was_sent_with_its_key_and_the_time_of_receipt(
    door: Door,
) -> None:
    before = time.time_ns() // 1_000_000
    sent = '{"page": "/",  "user": "ann", "ms": 0.10000000000000000555, "at": "2026-01-01"}'
    reply = door.post(sent)
    assert (reply.status, reply.body["records"]) == (200, 1)
    [found] = door.records()
    assert found["key"] == b"ann"
    assert before <= found["at"] <= time.time_ns() // 1_000_000
    assert found["headers"] == {"riverrun-received": str(found["at"])}
    assert Token.parse(reply.body["token"]).offsets == (found["place"],)


def test_all_that_is_wrong_is_told_at_once_and_nothing_is_written(door: Door) -> None:
    wrong = [
        VIEW,
        {**VIEW, "ms": "fast", "n": 1.5, "at": "noon"},
        5,
        {"user": "bob"},
        {**VIEW, "at": "2099-01-01T00:00:00Z"},
    ]
    reply = door.post(wrong)
    assert reply.status == 400
    assert reply.body["error"]["refused"] == 4
    *several, ahead = reply.errors
    assert several == [
        (1, "ms", "ms is not a DOUBLE: fast"),
        (1, "n", "n is not a BIGINT: 1.5"),
        (1, "at", "at is not a TIMESTAMP: noon"),
        (2, None, "the value is not a JSON object"),
        (3, "at", "no time: at is missing"),
    ]
    assert ahead[2].startswith("its time 2099-01-01T00:00:00Z is more than 1 day ahead")
    assert door.records() == []
    reply = door.post(wrong, query="?partial=true")
    assert (reply.status, reply.body["records"], reply.body["refused"]) == (200, 1, 4)
    assert [each["value"] for each in door.records()] == [VIEW]


def test_lines_are_a_batch_and_names_that_nobody_reads_are_told(door: Door) -> None:
    lines = "".join(f"{json.dumps({**VIEW, 'usr': number})}\n" for number in range(100))
    reply = door.post(lines, LINES)
    assert reply.body["unknown_columns"] == ["usr"]
    found = door.records()
    assert sorted(each["value"]["usr"] for each in found) == list(range(100))
    assert max(each["place"] for each in found) in Token.parse(reply.body["token"]).offsets
    reply = door.post('{"ms": 1\n{"ms": "x", "at": 5}', LINES)
    assert [(record, column) for record, column, _ in reply.errors] == [
        (0, None), (1, "ms"), (1, "at"),
    ]  # fmt: skip


def test_a_token_waits_for_the_batch_that_has_read_the_post(door: Door) -> None:
    token = Token.parse(door.post([VIEW] * 3).body["token"])
    ways = Ways((door.topic,), (), 0, ())
    ends = {str(place): offset + 1 for place, offset in token.offsets}

    def batch(number: int, ends: dict[str, int]) -> Note:
        return Note(Revision(1, number), 0, Facts(ends=ends))

    early = [batch(0, dict.fromkeys(ends, 0))]
    assert verdict(token, ways, early).state == "waiting"
    assert verdict(token, ways, [*early, batch(1, ends)]).state == "there"


def test_a_repeat_answers_the_same_and_another_body_is_refused(door: Door) -> None:
    first = door.post(VIEW, idempotency_key="order-1")
    again = door.post(VIEW, idempotency_key="order-1")
    assert again.body == {**first.body, "repeated": True}
    assert door.post({**VIEW, "n": 2}, idempotency_key="order-1").status == 422
    assert door.post(VIEW, idempotency_key="a b").status == 400
    [found] = door.records()
    assert found["headers"]["riverrun-key"] == "order-1"


def test_repeats_that_come_at_once_are_one_record(door: Door) -> None:
    with ThreadPoolExecutor(20) as threads:
        sent = [threads.submit(door.post, VIEW, idempotency_key="once") for _ in range(40)]
        replies = [each.result() for each in sent]
    assert {(each.status, each.body["token"]) for each in replies} == {
        (200, replies[0].body["token"])
    }
    assert sum("repeated" in each.body for each in replies) == 39
    assert len(door.records()) == 1


def test_a_key_is_known_to_its_holder_alone(door: Door) -> None:
    tokens = Tokens(door.settings)
    ann, bob = (tokens.add(name, (f"write:{door.topic}",)) for name in ("ann", "bob"))
    assert door.post(VIEW).status == 401
    for secret in (ann, bob, ann):
        reply = door.post(VIEW, idempotency_key="1", authorization=f"Bearer {secret}")
        assert reply.status == 200
    other = tokens.add("cid", ("write:other",))
    assert door.post(VIEW, authorization=f"Bearer {other}").status == 403
    assert len(door.records()) == 2


def test_a_program_that_changes_is_noticed_and_one_that_is_gone_closes_its_topic(
    door: Door,
) -> None:
    assert door.post({**VIEW, "n": "many"}).status == 400
    topic = door.get(f"/topics/{door.topic}").body
    assert (topic["columns"]["n"], topic["refused"]) == ("BIGINT", 1)
    note(door.settings, views_app(door.topic, schema="user string, n string, at timestamp"))
    reply = await_status(lambda: door.post({**VIEW, "n": "many"}), 200)
    assert reply.body["unknown_columns"] == ["ms", "page"]
    door.settings.checkpoint_of(door.topic).joinpath("program.json").unlink()
    await_status(lambda: door.post(VIEW), 404)
    assert door.topic not in [each["topic"] for each in door.get("/topics").body["topics"]]


def test_all_who_read_a_topic_must_be_able_to(broker: dict[str, str], tmp_path: Path) -> None:
    topic = new_topic(broker)
    own = home(tmp_path, broker, topic)
    note(own, views_app(topic))
    other = rr.App("other")
    other.stream(topic, schema="ms bigint, received timestamp_ms", time="_timestamp").to("o")
    table = rr.App("people")
    table.table(f"{topic}.people", schema="id bigint, name string", key="id").to("p")
    admin.create_topic(broker, f"{topic}.people", config={"cleanup.policy": "compact"})
    note(own, other)
    note(own, table)
    with served(own, topic) as door:
        assert door.post(VIEW).errors == [(0, "ms", "ms is not a BIGINT: 1.5")]
        assert door.post({**VIEW, "ms": 2}).status == 200
        people = Door(door.url, f"{topic}.people", broker, own)
        assert people.post({"name": "x"}).errors == [(0, "id", "no key: id is missing")]
        assert people.post({"id": 7}).status == 200
        assert [each["key"] for each in people.records()] == [b"7"]


def test_the_third_clock_is_the_servers(broker: dict[str, str], tmp_path: Path) -> None:
    topic = new_topic(broker)
    own = home(tmp_path, broker, topic)
    app = rr.App("meters")
    clocks = rr.device_time(occurred="at", sent="sent", received="got")
    app.stream(
        topic, schema="at timestamp, sent timestamp, got timestamp_ms", time=clocks
    ).to("o")  # fmt: skip
    note(own, app)
    with served(own, topic) as door:
        device = {"at": "2001-01-01T00:00:00Z", "sent": "2001-01-01T00:01:00Z"}
        assert door.get(f"/topics/{topic}").body["received"] == ["got"]
        for each in (device, {**device, "got": None}, {**device, "got": 1_767_225_600_000}):
            assert door.post(each).status == 200
        values = [each["value"]["got"] for each in door.records()]
        received = [each["at"] for each in door.records()]
    assert sorted(values) == sorted([*sorted(received)[:2], 1_767_225_600_000])


@pytest.mark.parametrize("policy", ["push back", "drop"])
def test_what_comes_while_the_application_is_behind_is_pushed_back_or_dropped_and_counted(
    broker: dict[str, str], tmp_path: Path, policy: str
) -> None:
    topic = new_topic(broker, partitions=1)
    own = home(tmp_path, broker, topic, when_behind=policy, limit=10)
    note(own, views_app(topic))
    with served(own, topic) as door:
        assert door.post([VIEW] * 20).status == 200
        reply = door.post([VIEW] * 5)
        if policy == "drop":
            assert (reply.status, reply.body) == (202, {"records": 0, "dropped": 5})
        else:
            assert reply.status == 429
            assert int(reply.headers["retry-after"]) >= 1
            assert reply.body["error"]["lag"] >= 20
        read = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 20)])
        asking = admin.connect(broker)  # answers come only as long as it is there
        asking.alter_consumer_group_offsets([read])[topic].result()
        await_status(lambda: door.post(VIEW), 200)
        found = door.get(f"/topics/{topic}").body
        assert found["taken"] == 21
        assert found["dropped" if policy == "drop" else "pushed_back"] >= 1
    assert len(records(broker, topic)) == 21


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
NAMED = st.dictionaries(st.sampled_from(["page", "user", "ms", "n", "at", "é"]), VALUES)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda value: json.dumps(value).encode(), VALUES),
    st.builds(lambda value: json.dumps(value).encode(), st.lists(NAMED, max_size=5)),
    st.builds(
        lambda value, cut, noise: (text := json.dumps(value).encode())[: cut % (len(text) + 1)]
        + noise
        + text[cut % (len(text) + 1) :],
        st.lists(NAMED, min_size=1, max_size=3), st.integers(0, 500), st.binary(max_size=5),
    ),
    st.sampled_from([b"[" * 100_000, b'{"a":' * 100_000, b'[{"n":' + b"9" * 10_000 + b"}]"]),
)  # fmt: skip


def test_no_body_breaks_the_server(door: Door) -> None:
    seen: Counter[int] = Counter()

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        body=BODIES,
        kind=st.sampled_from([JSON, LINES]),
        query=st.sampled_from(["", "?partial=true"]),
    )
    def check(body: bytes, kind: str, query: str) -> None:
        reply = door.post(body, kind, query)
        seen[reply.status] += 1
        assert reply.status in (200, 400)

    check()
    assert set(seen) == {200, 400}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("", {"content-type": "text/plain"}, 415),
        ("", {"content-type": "application/x-www-form-urlencoded"}, 415),
        ("", {"content-type": "application/json; charset=latin-1"}, 415),
        ("", {"content-type": JSON, "content-encoding": "br"}, 415),
        ("/more", {"content-type": JSON}, 404),
        ("%2Fmore", {"content-type": JSON}, 404),
        ("%00%ff", {"content-type": JSON}, 404),
        ("?partial=yes", {"content-type": JSON}, 400),
        ("", {"content-type": JSON, "idempotency-key": "x" * 256}, 400),
        ("", {"content-type": JSON, "idempotency-key": "a\tb"}, 400),
        ("", {"content-type": "Application/JSON; charset=UTF-8"}, 200),
    ],
)
def test_requests_that_are_not_for_this_are_refused(
    door: Door, path: str, headers: dict[str, str], status: int
) -> None:
    answer = urllib3.request(
        "POST", f"{door.url}/topics/{door.topic}{path}", body=json.dumps(VIEW), headers=headers,
        retries=False, timeout=60,
    )  # fmt: skip
    assert answer.status == status, answer.data
